"""Incremental: learners take tasks over from workers that hold too much (KIP-441's oldest version).

A learner is a copy that restores in order to become the active: a warm-up, as the KIP came to call it. The draft gives
active tasks out by what their state is worth (a ready learner, the owner, who has most of the state, whoever has
threads to spare), lets learners that have begun go on, and picks new ones out of the heaviest workers until everybody
is within so many percent of its share. Tasks with state and without are balanced separately.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice_assignor.approach import approach
from sluice_assignor.copies import Copies, keep_owned
from sluice_assignor.draft import Draft, Numbering, Role
from sluice_assignor.kept_standbys import keep_standbys
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, GroupState
from sluice_assignor.shares import Shares


def incremental(group: GroupState, config: AssignmentConfig) -> Decision:
    """Assign actives, go on with learners, pick new ones, assign standbys; then step."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    copies = Copies(numbering, lags)
    target = Draft(numbering)
    for tasks in (numbering.stateful, numbering.stateless):
        kind = _Kind(tasks, numbering, copies, config.incremental.imbalance_percentage)
        kind.place()
        for worker in numbering.staying:
            target.active[worker].update(kind.active[worker])
    if config.num_standby_replicas:
        keep_standbys(target, numbering, copies, config.num_standby_replicas)
    return approach(target, lags, numbering, config)


class _Kind:
    """The actives of one kind, with state or without."""

    def __init__(self, tasks: Sequence[int], numbering: Numbering, copies: Copies, percentage: int) -> None:
        draft = Draft(numbering)
        self.active: Role = draft.active
        self._draft = draft
        self._tasks = tasks
        self._numbering = numbering
        self._copies = copies
        self._workers = numbering.staying
        self._shares = Shares(len(tasks), draft.capacity, self._workers)
        self._band = {worker: self._shares.band(worker, percentage) for worker in self._workers}

    def place(self) -> None:
        for task in keep_owned(self._tasks, self._draft, self._numbering):
            nearest = self._copies.nearest(task, lambda _: True)
            self.active[self._lightest(nearest or self._workers)].add(task)
        self._go_on_learning()
        while pair := self._pair_out_of_band():
            self._pick_learner(*pair)

    def _go_on_learning(self) -> None:
        """Promise tasks to those who are learning them, as long as that leaves them within their band."""
        owners = {task: worker for worker in self._workers for task in self.active[worker]}
        for task in self._tasks:
            learner = self._learner(task)
            if learner is not None and len(self.active[learner]) < self._band[learner][1]:
                self._move(task, owners[task], learner)

    def _learner(self, task: int) -> int | None:
        """Who is learning the task; of several the one that has learnt most."""
        task_id = self._numbering.tasks[task].id

        def is_learning(worker: int) -> bool:
            return task_id in self._numbering.workers[worker].warmup and task not in self.active[worker]

        return min(self._copies.nearest(task, is_learning), default=None)

    def _pair_out_of_band(self) -> tuple[int, int] | None:
        """The heaviest worker and the lightest, if either of the two is further from its share than the band allows."""
        over = [worker for worker in self._workers if len(self.active[worker]) > self._band[worker][1]]
        under = [worker for worker in self._workers if len(self.active[worker]) < self._band[worker][0]]
        if not over and not under:
            return None
        source = min(over or self._workers, key=lambda worker: (-self._surplus(worker), worker))
        destination = self._lightest(self._workers if over else under)
        return source, destination

    def _pick_learner(self, source: int, destination: int) -> None:
        """Of the heaviest worker's tasks, one that the destination has a copy of comes first."""

        def by_state(task: int) -> tuple[bool, int]:
            return not self._copies.is_ready_or_warming(destination, task), task

        self._move(min(self.active[source], key=by_state), source, destination)

    def _lightest(self, workers: Sequence[int]) -> int:
        return min(workers, key=lambda worker: (self._surplus(worker), worker))

    def _surplus(self, worker: int) -> int:
        return self._shares.surplus(worker, len(self.active[worker]))

    def _move(self, task: int, source: int, destination: int) -> None:
        self.active[source].remove(task)
        self.active[destination].add(task)
