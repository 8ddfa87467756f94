"""The step of all but HighAvailability: tasks go where they are hot at once, and warm-ups are planned for the group.

KIP-441's safety, with an order that never wastes what has been restored: a warm-up that has begun goes on before a
fresh one begins, actives come before standbys, then the copy with the least left to restore is first. A standby that is
still caught up stays one until its successor is. All other tasks stay with whoever runs them, so that a step hands over
what is ready, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.warmups.step import Step


def step_when_hot(target: Draft, lags: Lags, numbering: Numbering, max_warmup_replicas: int) -> Step:
    """Come as close to the target as the copies allow, with at most so many warm-ups in the whole group."""
    plan = _Plan(target, lags, numbering)
    for task in numbering.stateful:
        plan.settle(task)
    for task in numbering.stateless:
        plan.next.active[plan.target_of[task]].add(task)
    return plan.step(max_warmup_replicas)


class _Late(NamedTuple):
    """A copy that is not yet ready for its place in the target."""

    task: int
    destination: int
    stand_in: int
    is_active: bool


class _Plan:
    """The next assignment while it is made."""

    def __init__(self, target: Draft, lags: Lags, numbering: Numbering) -> None:
        self.next = Draft(numbering)
        self.target_of = target.active_holders()
        self._lags = lags
        self._numbering = numbering
        self._draining = frozenset(numbering.draining)
        self._late: list[_Late] = []
        self._swapped: set[int] = set()
        self._standbys_of: dict[int, list[int]] = {}
        for worker, tasks in enumerate(target.standby):
            for task in tasks:
                self._standbys_of.setdefault(task, []).append(worker)

    def settle(self, task: int) -> None:
        """Say who runs the task for now, and who stands by."""
        destination, wanted = self.target_of[task], self._standbys_of.get(task, [])
        runs = self._who_runs(task, destination)
        self.next.active[runs].add(task)
        taken = {runs, destination, *wanted}
        if runs != destination:
            self._prepare(task, destination, runs, wanted, taken)
        for worker in wanted:
            if worker != runs:
                self._stand_by(task, worker, taken)

    def step(self, max_warmup_replicas: int) -> Step:
        """Give out the warm-up slots."""
        late = sorted(self._late, key=self._by_urgency)
        slots = max_warmup_replicas
        for task, destination, _, _ in late:
            if slots and not self.next.holds(destination, task):
                self.next.warmup[destination].add(task)
                slots -= 1
        return Step(self.next, {(it.task, it.destination): it.stand_in for it in late}, self._swapped)

    def _who_runs(self, task: int, destination: int) -> int:
        """The destination if it is ready, or if nobody has less left to restore; else the one that is closest."""
        if self._lags.is_caught_up(destination, task):
            return destination
        holder = self._numbering.holders.get(task)
        ready = self._lags.caught_up(task)
        if ready:
            return holder if holder in ready else min(ready, key=self._by_load)
        left = self._lags.left_to_restore
        return min(
            (destination, *self._lags.reported(task)),
            key=lambda worker: (left(worker, task), worker != destination, worker != holder, worker),
        )

    def _prepare(self, task: int, destination: int, runs: int, wanted: Collection[int], taken: set[int]) -> None:
        """Warm the destination up. It restores as a standby where the one that runs the task was to be one, and nobody
        else could: that takes no slot."""
        if runs in wanted:
            other = self._ready_standby(task, taken)
            if other is None:
                self._swapped.add(task)
            self._place_standby(task, destination if other is None else other, taken)
        self._late.append(_Late(task, destination, runs, is_active=True))

    def _stand_by(self, task: int, worker: int, taken: set[int]) -> None:
        """Be the standby, unless a caught-up one can be it until this one is ready."""
        is_on = self._numbering.tasks[task].id in self._numbering.workers[worker].standby
        other = None
        if not is_on and not self._lags.is_caught_up(worker, task):
            other = self._ready_standby(task, taken)
        if other is not None:
            self._late.append(_Late(task, worker, other, is_active=False))
        self._place_standby(task, worker if other is None else other, taken)

    def _place_standby(self, task: int, worker: int, taken: set[int]) -> None:
        taken.add(worker)
        self.next.standby[worker].add(task)

    def _ready_standby(self, task: int, taken: Collection[int]) -> int | None:
        """A caught-up worker without a part in the task yet; those come first that hold it now."""
        free = [worker for worker in self._lags.caught_up(task) if worker not in taken]
        return min(
            free, key=lambda worker: (not self._numbering.holds_now(worker, task), *self._by_load(worker)), default=None
        )

    def _by_load(self, worker: int) -> tuple[bool, float, int]:
        return worker in self._draining, self.next.active_load(worker), worker

    def _by_urgency(self, late: _Late) -> tuple[bool, bool, int, int, int]:
        has_begun = self._numbering.holds_now(late.destination, late.task)
        left = self._lags.left_to_restore(late.destination, late.task)
        return not has_begun, not late.is_active, left, late.task, late.destination
