"""Who has something of a task already, and how much is missing: what stickiness looks for.

Copies that a worker holds count as well as those that it has let go and still has on its disk. Everybody who is caught
up is as good as any other; of the rest, the one with the least to restore is the nearest (KIP-441's rank).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_protocol.ids import TaskId


class Copies:
    """The copies of tasks with state on workers that may receive tasks."""

    def __init__(self, numbering: Numbering, lags: Lags) -> None:
        self._numbering = numbering
        self._lags = lags
        self._workers: list[set[int]] = [set() for _ in numbering.tasks]
        for worker in numbering.staying:
            member = numbering.workers[worker]
            self._add(worker, member.active, member.standby, member.warmup, member.copies)

    def nearest(self, task: int, may_take: Callable[[int], bool]) -> list[int]:
        """Those with the least to restore, of all that have a copy and may take the task; nobody if nobody does."""
        ranks = {worker: self._rank(worker, task) for worker in self._workers[task] if may_take(worker)}
        least = min(ranks.values(), default=0)
        return [worker for worker, rank in ranks.items() if rank == least]

    def is_ready(self, worker: int, task: int) -> bool:
        """Has the worker a copy that is caught up?"""
        return worker in self._workers[task] and self._lags.is_caught_up(worker, task)

    def is_ready_or_warming(self, worker: int, task: int) -> bool:
        """Could the worker take the task now, or has it begun to make itself ready?"""
        holds = worker in self._workers[task] and self._numbering.holds_now(worker, task)
        return holds or self.is_ready(worker, task)

    def of(self, task: int) -> frozenset[int]:
        """Everybody who has a copy."""
        return frozenset(self._workers[task])

    def _rank(self, worker: int, task: int) -> int:
        """A copy whose position is not known may lack everything; Kafka takes it for the nearest."""
        if self._lags.is_caught_up(worker, task):
            return 0
        return self._lags.left_to_restore(worker, task)

    def _add(self, worker: int, *held: Collection[TaskId]) -> None:
        numbers = self._numbering.task_numbers
        for task_ids in held:
            for task_id in task_ids:
                task = numbers.get(task_id)
                if task is not None and self._numbering.tasks[task].stateful:
                    self._workers[task].add(worker)


def keep_owned(tasks: Sequence[int], draft: Draft, numbering: Numbering) -> list[int]:
    """Let everybody who runs one of the tasks and may receive tasks go on with it; the tasks that are left."""
    staying = frozenset(numbering.staying)
    homeless = []
    for task in tasks:
        owner = numbering.holders.get(task)
        if owner in staying:
            draft.active[owner].add(task)
        else:
            homeless.append(task)
    return homeless
