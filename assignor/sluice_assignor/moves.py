"""Why tasks move: what a decision changes, told task by task (shown to people, and in metrics).

A task may have two moves: its active changes hands in this step, and a copy is still on its way to its place in the
target. Only the first kind changes who runs the task, and its reason is never WARMING, WAITING_FOR_SLOT or STANDBY.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Protocol

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import Move, MoveReason, Worker


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
    moves = [
        *_changes_of_active(step, lags, numbering),
        *_copies_on_their_way(step, numbering),
        *_new_standbys(step, numbering),
    ]
    return in_task_order(moves)


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


def named_move(numbering: Numbering, task: int, source: int | None, destination: int, reason: MoveReason) -> Move:
    return Move(
        task=numbering.tasks[task].id,
        source=None if source is None else numbering.workers[source].process_id,
        destination=numbering.workers[destination].process_id,
        reason=reason,
    )


def _changes_of_active(step: Step, lags: Lags, numbering: Numbering) -> Iterator[Move]:
    for task, destination in step.next.active_holders().items():
        source = numbering.holders.get(task)
        if source != destination:
            reason = _why_active_changes(
                source=None if source is None else numbering.workers[source],
                swapped=task in step.swapped,
                hot=numbering.tasks[task].stateful and lags.is_caught_up(destination, task),
            )
            yield named_move(numbering, task, source, destination, reason)


def _why_active_changes(source: Worker | None, *, swapped: bool, hot: bool) -> MoveReason:
    if source is None:
        return MoveReason.UNASSIGNED
    if source.draining:
        return MoveReason.DRAINING
    if swapped:
        return MoveReason.SWAPPED_WITH_STANDBY
    return MoveReason.HOT if hot else MoveReason.BALANCE


def _copies_on_their_way(step: Step, numbering: Numbering) -> Iterator[Move]:
    """One for each copy, though it may be late twice: as the active, and as the standby that it is until then."""
    told = set()
    for movement, stand_in in step.movements:
        task, destination = movement.task, movement.destination
        if (task, destination) not in told:
            told.add((task, destination))
            restores = step.next.holds(destination, task)
            reason = MoveReason.WARMING if restores else MoveReason.WAITING_FOR_SLOT
            yield named_move(numbering, task, stand_in, destination, reason)


def _new_standbys(step: Step, numbering: Numbering) -> Iterator[Move]:
    on_their_way = {(movement.destination, movement.task) for movement, _ in step.movements}
    for worker in numbering.staying:
        for task in step.next.standby[worker]:
            if (worker, task) not in on_their_way and not numbering.holds_now(worker, task):
                yield named_move(numbering, task, None, worker, MoveReason.STANDBY)
