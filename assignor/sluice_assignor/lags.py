"""How far behind each worker's copy of a task is (KIP-441, "Computing the most-caught-up instances").

Most workers have no copy of most tasks, and all of those are behind by the whole changelog. So only reported copies
are kept, and everybody else is one class per task; the ranking of all workers is never written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sluice_assignor.draft import Numbering
from sluice_assignor.model import MAX_LAG, RUNNING, UNKNOWN_OFFSET_SUM


class Lags:
    """The lag of every worker that counts for a task, and who is caught up.

    A draining worker counts only for the tasks that it holds: it keeps what it has, but takes nothing up again. All
    others count for every task.
    """

    def __init__(self, numbering: Numbering, acceptable: int) -> None:
        self._numbering = numbering
        self._acceptable = acceptable
        self._least_acceptable = UNKNOWN_OFFSET_SUM if acceptable == MAX_LAG else RUNNING
        self._ends = [task.end_offset_sum for task in numbering.tasks]
        self._reported: list[dict[int, int]] = [{} for _ in numbering.tasks]
        for worker in numbering.staying:
            self._report_copies(worker)
        for worker in numbering.draining:
            self._report_held(worker)

    def lag(self, worker: int, task: int) -> int:
        """Offsets left to read; RUNNING and UNKNOWN_OFFSET_SUM are lags of their own, below zero."""
        reported = self._reported[task].get(worker)
        return self._ends[task] if reported is None else reported

    def reported(self, task: int) -> Mapping[int, int]:
        """The lag of each worker that counts for the task and has a copy of it."""
        return self._reported[task]

    def is_caught_up(self, worker: int, task: int) -> bool:
        return self._is_acceptable(self.lag(worker, task))

    def caught_up(self, task: int) -> list[int]:
        """Everybody who could run the task at once, in no order."""
        reported = self._reported[task]
        ready = [worker for worker, lag in reported.items() if self._is_acceptable(lag)]
        if self._is_acceptable(self._ends[task]):
            ready.extend(worker for worker in self._numbering.staying if worker not in reported)
        return ready

    def behind_another(self, worker: int, tasks: Iterable[int]) -> list[int]:
        """Those tasks for which the worker is not caught up, while some other has strictly less left to read.

        The other has a copy: nobody is further behind than those who have none.
        """
        behind = []
        for task in tasks:
            reported = self._reported[task]
            lag = reported[worker] if worker in reported else self._ends[task]
            if not self._least_acceptable <= lag <= self._acceptable and min(reported.values(), default=lag) < lag:
                behind.append(task)
        return behind

    def most_caught_up(self, task: int) -> int:
        """The first of all in the order of (lag, worker)."""
        return min(self._ranks(task, lambda worker: True))[1]

    def most_caught_up_before(self, worker: int, task: int, may_take: Callable[[int], bool]) -> int | None:
        """The first in the order of (lag, worker) that may take the task and comes before this worker.

        It may have the same lag: the order is total.
        """
        best = min(self._ranks(task, may_take), default=None)
        return best[1] if best is not None and best < (self.lag(worker, task), worker) else None

    def _ranks(self, task: int, may_take: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
        """(lag, worker) of all who reported, and of the first of those who did not."""
        reported = self._reported[task]
        for worker, lag in reported.items():
            if may_take(worker):
                yield lag, worker
        for worker in self._numbering.staying:
            if worker not in reported and may_take(worker):
                yield self._ends[task], worker
                return

    def _is_acceptable(self, lag: int) -> bool:
        return self._least_acceptable <= lag <= self._acceptable

    def _report_copies(self, worker: int) -> None:
        numbers, ends = self._numbering.task_numbers, self._ends
        for task_id, copy in self._numbering.workers[worker].copies.items():
            task = numbers.get(task_id)
            if task is not None:
                self._reported[task][worker] = _lag_of(copy.offset_sum, ends[task])

    def _report_held(self, worker: int) -> None:
        held = self._numbering.workers[worker]
        for task_id in held.active | held.standby | held.warmup:
            task = self._numbering.task_numbers.get(task_id)
            if task is not None:
                copy = held.copies.get(task_id)
                self._reported[task][worker] = _lag_of(copy.offset_sum if copy else 0, self._ends[task])


def _lag_of(offset_sum: int, end: int) -> int:
    """A copy that claims to have read beyond the end is corrupt, and restores from scratch."""
    if offset_sum in (RUNNING, UNKNOWN_OFFSET_SUM):
        return offset_sum
    return end if offset_sum > end else end - offset_sum
