"""Why tasks move: what a decision changes, told task by task (shown to people, and in metrics).

A task may have two moves: its active changes hands in this step, and a copy is still on its way to its place in the
target. Only the first kind changes who runs the task, and its reason is never WARMING, WAITING_FOR_SLOT or STANDBY.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
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
    moves = [*telling.changes_of_active(), *telling.copies_on_their_way(), *telling.new_standbys()]
    return _in_task_order(moves, numbering)


def first_owners(draft: Draft, numbering: Numbering) -> tuple[Move, ...]:
    """The tasks of a draft that nobody ran before."""
    ids, names = numbering.task_ids, numbering.process_ids
    moves = [
        Move(ids[task], None, names[worker], MoveReason.UNASSIGNED)
        for task, worker in draft.active_holders().items()
        if task not in numbering.holders
    ]
    return _in_task_order(moves, numbering)


def _in_task_order(moves: list[Move], numbering: Numbering) -> tuple[Move, ...]:
    """By number, which is quicker to compare than the id."""
    numbers = numbering.task_numbers
    return tuple(sorted(moves, key=lambda move: numbers[move[0]]))


class _Telling:
    """What there is to say of one step."""

    def __init__(self, step: Step, lags: Lags, numbering: Numbering) -> None:
        self._step = step
        self._lags = lags
        self._numbering = numbering
        self._ids = numbering.task_ids
        self._names = numbering.process_ids
        self._holders = numbering.holders

    def changes_of_active(self) -> Iterator[Move]:
        for task, destination in self._step.next.active_holders().items():
            source = self._holders.get(task)
            if source != destination:
                yield Move(
                    self._ids[task],
                    None if source is None else self._names[source],
                    self._names[destination],
                    self._why_active_changes(task, source, destination),
                    left_to_restore=self._left(destination, task),
                    unbalanced_by=self._unbalanced_by(task, source, destination),
                )

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
            yield Move(
                self._ids[task],
                self._names[stand_in],
                self._names[destination],
                MoveReason.WARMING if restores else MoveReason.WAITING_FOR_SLOT,
                self._left(destination, task),
                0 if restores else waiting,
                self._unbalanced_by(task, stand_in, destination),
            )

    def new_standbys(self) -> Iterator[Move]:
        on_their_way: defaultdict[int, set[int]] = defaultdict(set)
        for movement, _ in self._step.movements:
            on_their_way[movement.destination].add(movement.task)
        for worker in self._numbering.staying:
            held = self._numbering.held_now(worker)
            for task in self._step.next.standby[worker] - on_their_way[worker]:
                if self._ids[task] not in held:
                    left = self._left(worker, task)
                    yield Move(self._ids[task], None, self._names[worker], MoveReason.STANDBY, left)

    @cached_property
    def _runs(self) -> Counter[tuple[int, bool]]:
        """How many tasks with state, and how many without, each worker runs now."""
        tasks = self._numbering.tasks
        return Counter((worker, tasks[task].stateful) for task, worker in self._holders.items())

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
        if source is None or source != self._holders.get(task) or self._numbering.workers[source].draining:
            return 0
        stateful = self._numbering.tasks[task].stateful
        return max(0, self._runs[source, stateful] - self._runs[destination, stateful])

    def _left(self, worker: int, task: int) -> int:
        if not self._numbering.tasks[task].stateful:
            return 0
        lag = self._lags.lag(worker, task)
        return self._numbering.tasks[task].end_offset_sum if lag == UNKNOWN_OFFSET_SUM else max(0, lag)
