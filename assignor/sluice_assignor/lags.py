"""How far behind each worker's copy of a task is (KIP-441, "Computing the most-caught-up instances").

Most workers have no copy of most tasks, and all of those are behind by the whole changelog. So only reported copies
are kept, and everybody else is one class per task; the ranking of all workers is never written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from sluice_assignor.draft import Numbering
from sluice_assignor.model import MAX_LAG, RUNNING, UNKNOWN_OFFSET_SUM, Worker
from sluice_protocol.ids import TaskId

_NOBODY: Set[int] = frozenset()


class Lags:
    """The lag of every worker that counts for a task, and who is caught up.

    A draining worker counts only for the tasks that it holds: it keeps what it has, but takes nothing up again. All
    others count for every task.
    """

    def __init__(self, numbering: Numbering, acceptable: int) -> None:
        self._numbering = numbering
        self._acceptable = acceptable
        self._least_acceptable = UNKNOWN_OFFSET_SUM if acceptable == MAX_LAG else RUNNING
        self._ends = [task.end_offset_sum if task.stateful else 0 for task in numbering.tasks]
        self._ready: dict[int, list[int]] = {}
        """Who is caught up, of those who reported."""
        self._reported: list[dict[int, int]] = [{} for _ in numbering.tasks]
        for worker in (*numbering.staying, *numbering.draining):
            self._report(worker, _offset_sums(numbering.workers[worker]))

    def lag(self, worker: int, task: int) -> int:
        """Offsets left to read; RUNNING and UNKNOWN_OFFSET_SUM are lags of their own, below zero."""
        reported = self._reported[task].get(worker)
        return self._ends[task] if reported is None else reported

    def left_to_restore(self, worker: int, task: int) -> int:
        """Offsets that the worker's copy may lack: all of them, if its position is not known."""
        lag = self._reported[task].get(worker, UNKNOWN_OFFSET_SUM)
        if lag >= 0:
            return lag
        return self._ends[task] if lag == UNKNOWN_OFFSET_SUM else 0

    def left_to_restore_all(self, worker: int, tasks: Iterable[int]) -> list[int]:
        """`left_to_restore` of many tasks."""
        ends, reported = self._ends, self._reported
        return [self.left_to_restore(worker, task) if reported[task] else ends[task] for task in tasks]

    def reported(self, task: int) -> Mapping[int, int]:
        """The lag of each worker that counts for the task and has a copy of it."""
        return self._reported[task]

    def is_caught_up(self, worker: int, task: int) -> bool:
        return self._is_acceptable(self.lag(worker, task))

    def caught_up(self, task: int) -> list[int]:
        """Everybody who could run the task at once; those who may receive tasks are in order."""
        ready = self._ready.get(task, [])
        if not self._is_acceptable(self._ends[task]):
            return ready
        reported = self._reported[task]
        return sorted([*ready, *(worker for worker in self._numbering.staying if worker not in reported)])

    def behind_another(self, worker: int, tasks: Iterable[int]) -> list[int]:
        """Those tasks for which the worker is not caught up, while some other has strictly less left to read.

        The other has a copy: nobody is further behind than those who have none. A worker whose position is not known is
        behind nobody.
        """
        most, ends, ready = self._acceptable, self._ends, self._ready
        behind = []
        for task in tasks:
            reported = self._reported[task]
            lag = reported.get(worker, ends[task])
            if lag > most and (task in ready or min(reported.values(), default=lag) < lag):
                behind.append(task)
        return behind

    def most_caught_up(self, task: int) -> int:
        """The first of all in the order of (lag, worker)."""
        return min(self._ranks(task, _NOBODY))[1]

    def most_caught_up_before(self, worker: int, task: int, but: Set[int]) -> int | None:
        """The first in the order of (lag, worker) that is none of those and comes before this worker.

        It may have the same lag: the order is total.
        """
        best = min(self._ranks(task, but), default=None)
        return best[1] if best is not None and best < (self.lag(worker, task), worker) else None

    def _ranks(self, task: int, but: Set[int]) -> list[tuple[int, int]]:
        """(lag, worker) of all who reported, and of the first of those who did not."""
        reported = self._reported[task]
        ranks = [(lag, worker) for worker, lag in reported.items() if worker not in but]
        for worker in self._numbering.staying:
            if worker not in reported and worker not in but:
                ranks.append((self._ends[task], worker))
                break
        return ranks

    def _is_acceptable(self, lag: int) -> bool:
        return self._least_acceptable <= lag <= self._acceptable

    def _report(self, worker: int, offset_sums: Iterable[tuple[TaskId, int]]) -> None:
        """A copy that claims to have read beyond the end is corrupt, and restores from scratch."""
        numbers, ends, least, most = self._numbering.task_numbers, self._ends, self._least_acceptable, self._acceptable
        for task_id, offset_sum in offset_sums:
            task = numbers.get(task_id)
            if task is not None:
                lag = ends[task]
                if offset_sum <= lag:
                    lag = lag - offset_sum if offset_sum >= 0 else offset_sum
                self._reported[task][worker] = lag
                if least <= lag <= most:
                    self._ready.setdefault(task, []).append(worker)


def _offset_sums(worker: Worker) -> Iterator[tuple[TaskId, int]]:
    """Of every copy; for a draining worker only of those that it holds."""
    if not worker.draining:
        for task, copy in worker.copies.items():
            yield task, copy.offset_sum
    else:
        for task in worker.active | worker.standby | worker.warmup:
            yield task, worker.copies[task].offset_sum if task in worker.copies else 0
