"""Why tasks move: what a decision changes, told task by task (shown to people, and in metrics).

A task may have two moves: its active changes hands in this step, and a copy is still on its way to its place in the
target. Only the first kind changes who runs the task, and its reason is never WARMING, WAITING_FOR_SLOT or STANDBY.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from operator import itemgetter

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import Move, MoveReason
from sluice_assignor.warmups.step import Step


def moves_of(step: Step, lags: Lags, numbering: Numbering) -> tuple[Move, ...]:
    """All moves of a step by task: the change of the active first, then copies on their way, then new standbys."""
    telling = _Telling(step, lags, numbering)
    return _in_task_order([*telling.changes_of_active(), *telling.copies_on_their_way(), *telling.new_standbys()])


def first_owners(draft: Draft, numbering: Numbering) -> tuple[Move, ...]:
    """The tasks of a draft that nobody ran before."""
    ids, names, holders = numbering.task_ids, numbering.process_ids, numbering.holders
    return _in_task_order(
        [
            (task, Move(ids[task], None, names[worker], MoveReason.UNASSIGNED))
            for task, worker in draft.active_holders().items()
            if task not in holders
        ]
    )


_Told = tuple[int, Move]
"""A move behind the number of its task, which is quicker to compare than the id."""


def _in_task_order(moves: list[_Told]) -> tuple[Move, ...]:
    return tuple(move for _, move in sorted(moves, key=itemgetter(0)))


class _Telling:
    """What there is to say of one step."""

    def __init__(self, step: Step, lags: Lags, numbering: Numbering) -> None:
        self._step = step
        self._lags = lags
        self._numbering = numbering
        self._ids = numbering.task_ids
        self._names = numbering.process_ids
        self._holders = numbering.holders

    def changes_of_active(self) -> Iterator[_Told]:
        holders = self._holders
        for destination, tasks in enumerate(self._step.next.active):
            yield from self._from_nobody(
                [task for task in tasks if task not in holders], destination, MoveReason.UNASSIGNED
            )
            for task in tasks:
                source = holders.get(task, destination)
                if source != destination:
                    yield task, self._change_of_active(task, source, destination)

    def copies_on_their_way(self) -> Iterator[_Told]:
        ids, names, holds, left = self._ids, self._names, self._step.next.holds, self._lags.left_to_restore
        warming, waiting = MoveReason.WARMING, MoveReason.WAITING_FOR_SLOT
        holders, lead = self._holders, self._lead_with_state
        in_line = 0
        for (task, destination), stand_in in self._step.on_their_way.items():
            workers, lacks = (names[stand_in], names[destination]), left(destination, task)
            ahead = lead(stand_in, destination) if holders.get(task) == stand_in else 0
            if holds(destination, task):
                yield task, Move(ids[task], *workers, warming, lacks, 0, ahead)
            else:
                in_line += 1
                yield task, Move(ids[task], *workers, waiting, lacks, in_line, ahead)

    def new_standbys(self) -> Iterator[_Told]:
        ids, on_their_way = self._ids, self._step.on_their_way
        for worker in self._numbering.staying:
            held, standbys = self._numbering.held_now(worker), self._step.next.standby[worker]
            new = [task for task in standbys if ids[task] not in held and (task, worker) not in on_their_way]
            yield from self._from_nobody(new, worker, MoveReason.STANDBY)

    def _from_nobody(self, tasks: list[int], worker: int, reason: MoveReason) -> Iterator[_Told]:
        """Built column by column: in a first assignment there is nothing else to tell, and of it twice all tasks."""
        fields = zip(
            map(self._ids.__getitem__, tasks),
            repeat(None),
            repeat(self._names[worker]),
            repeat(reason),
            self._lags.left_to_restore_all(worker, tasks),
            repeat(0),
            repeat(0),
        )
        return zip(tasks, map(Move._make, fields), strict=True)

    def _change_of_active(self, task: int, source: int, destination: int) -> Move:
        lead = self._lead_with_state if self._numbering.tasks[task].stateful else self._lead_without_state
        return Move(
            self._ids[task],
            self._names[source],
            self._names[destination],
            self._why_active_changes(task, source, destination),
            self._lags.left_to_restore(destination, task),
            0,
            lead(source, destination),
        )

    def _why_active_changes(self, task: int, source: int, destination: int) -> MoveReason:
        if self._numbering.workers[source].draining:
            return MoveReason.DRAINING
        if task in self._step.swapped:
            return MoveReason.SWAPPED_WITH_STANDBY
        is_hot = self._numbering.tasks[task].stateful and self._lags.is_caught_up(destination, task)
        return MoveReason.HOT if is_hot else MoveReason.BALANCE

    @cached_property
    def _lead_with_state(self) -> _Lead:
        return _Lead(self._numbering.stateful, self._numbering)

    @cached_property
    def _lead_without_state(self) -> _Lead:
        return _Lead(self._numbering.stateless, self._numbering)


class _Lead:
    """How many more tasks of one kind, with state or without, one worker runs now than another; nobody drains ahead."""

    def __init__(self, tasks: Sequence[int], numbering: Numbering) -> None:
        self._run = Counter(map(numbering.holders.get, tasks))
        for worker in numbering.draining:
            self._run[worker] = 0

    def __call__(self, worker: int, other: int) -> int:
        return max(0, self._run[worker] - self._run[other])
