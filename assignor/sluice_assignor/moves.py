"""Why tasks move: what a decision changes, told task by task (shown to people, and in metrics).

A task may have two moves: its active changes hands in this step, and a copy is still on its way to its place in the
target. Only the first kind changes who runs the task, and its reason is never WARMING, WAITING_FOR_SLOT or STANDBY.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Protocol

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import UNKNOWN_OFFSET_SUM, Move, MoveReason


class OnItsWay(Protocol):
    """A copy that is not yet ready for its place in the target."""

    @property
    def task(self) -> int: ...

    @property
    def destination(self) -> int: ...


class Step(Protocol):
    """The next assignment; each copy on its way and who stands in for it; who swaps roles with a standby."""

    @property
    def next(self) -> Draft: ...

    @property
    def movements(self) -> Sequence[tuple[OnItsWay, int]]: ...

    @property
    def swapped(self) -> Collection[int]: ...


def moves_of(step: Step, lags: Lags, numbering: Numbering) -> tuple[Move, ...]:
    """All moves of a step by task: the change of the active first, then copies on their way, then new standbys."""
    telling = _Telling(step, lags, numbering)
    return in_task_order([*telling.changes_of_active(), *telling.copies_on_their_way(), *telling.new_standbys()])


def first_owners(draft: Draft, numbering: Numbering) -> tuple[Move, ...]:
    """The tasks of a draft that nobody ran before."""
    return in_task_order(
        [
            named_move(numbering, task, None, worker, MoveReason.UNASSIGNED)
            for task, worker in draft.active_holders().items()
            if task not in numbering.holders
        ]
    )


def in_task_order(moves: list[Move]) -> tuple[Move, ...]:
    return tuple(sorted(moves, key=attrgetter("task")))


def named_move(
    numbering: Numbering,
    task: int,
    source: int | None,
    destination: int,
    reason: MoveReason,
    *,
    left_to_restore: int = 0,
    in_line: int = 0,
    unbalanced_by: int = 0,
) -> Move:
    return Move(
        numbering.tasks[task].id,
        None if source is None else numbering.workers[source].process_id,
        numbering.workers[destination].process_id,
        reason,
        left_to_restore,
        in_line,
        unbalanced_by,
    )


class _Telling:
    """What there is to say of one step."""

    def __init__(self, step: Step, lags: Lags, numbering: Numbering) -> None:
        self._step = step
        self._lags = lags
        self._numbering = numbering
        tasks = numbering.tasks
        self._runs = Counter((worker, tasks[task].stateful) for task, worker in numbering.holders.items())

    def changes_of_active(self) -> Iterator[Move]:
        for task, destination in self._step.next.active_holders().items():
            source = self._numbering.holders.get(task)
            if source != destination:
                reason = self._why_active_changes(task, source, destination)
                unbalanced_by = self._unbalanced_by(task, source, destination)
                yield named_move(
                    self._numbering, task, source, destination, reason,
                    left_to_restore=self._left(destination, task), unbalanced_by=unbalanced_by,
                )  # fmt: skip

    def copies_on_their_way(self) -> Iterator[Move]:
        """One for each copy, though it may be late twice: as the active, and as the standby that it is until then."""
        told = set()
        waiting = 0
        for movement, stand_in in self._step.movements:
            task, destination = movement.task, movement.destination
            if (task, destination) in told:
                continue
            told.add((task, destination))
            restores = self._step.next.holds(destination, task)
            waiting += not restores
            yield named_move(
                self._numbering, task, stand_in, destination,
                MoveReason.WARMING if restores else MoveReason.WAITING_FOR_SLOT,
                left_to_restore=self._left(destination, task),
                in_line=0 if restores else waiting,
                unbalanced_by=self._unbalanced_by(task, stand_in, destination),
            )  # fmt: skip

    def new_standbys(self) -> Iterator[Move]:
        on_their_way = {(movement.destination, movement.task) for movement, _ in self._step.movements}
        for worker in self._numbering.staying:
            for task in self._step.next.standby[worker]:
                if (worker, task) not in on_their_way and not self._numbering.holds_now(worker, task):
                    left = self._left(worker, task)
                    yield named_move(self._numbering, task, None, worker, MoveReason.STANDBY, left_to_restore=left)

    def _why_active_changes(self, task: int, source: int | None, destination: int) -> MoveReason:
        if source is None:
            return MoveReason.UNASSIGNED
        if self._numbering.workers[source].draining:
            return MoveReason.DRAINING
        if task in self._step.swapped:
            return MoveReason.SWAPPED_WITH_STANDBY
        is_hot = self._numbering.tasks[task].stateful and self._lags.is_caught_up(destination, task)
        return MoveReason.HOT if is_hot else MoveReason.BALANCE

    def _unbalanced_by(self, task: int, source: int | None, destination: int) -> int:
        """How many more tasks of its kind the one that runs the task has now; who drains is to have none."""
        if source is None or source != self._numbering.holders.get(task) or self._numbering.workers[source].draining:
            return 0
        stateful = self._numbering.tasks[task].stateful
        return max(0, self._runs[source, stateful] - self._runs[destination, stateful])

    def _left(self, worker: int, task: int) -> int:
        if not self._numbering.tasks[task].stateful:
            return 0
        lag = self._lags.lag(worker, task)
        return self._numbering.tasks[task].end_offset_sum if lag == UNKNOWN_OFFSET_SUM else max(0, lag)
