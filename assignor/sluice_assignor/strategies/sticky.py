"""Sticky: as few tasks as possible leave their worker (the goals of Kafka's StickyAssignor).

A task stays with its owner as long as balance leaves that room; else it goes to who has the most of its state, else to
the least loaded. Kafka's answer hangs on the order of its maps and moves more than it must, because it first fills
every worker up to a whole number of tasks a thread; here the room of each worker is known beforehand.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from sluice_assignor.approach import approach
from sluice_assignor.copies import Copies, keep_owned
from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.kept_standbys import keep_standbys
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, GroupState


def sticky(group: GroupState, config: AssignmentConfig) -> Decision:
    """Place near the state, then step. Tasks with and without state share the room; lags decide only between copies."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    copies = Copies(numbering, lags)
    target = _place_active(numbering, copies)
    if config.num_standby_replicas:
        keep_standbys(target, numbering, copies, config.num_standby_replicas)
    return approach(target, lags, numbering, config)


def _place_active(numbering: Numbering, copies: Copies) -> Draft:
    draft = Draft(numbering)
    homeless = keep_owned(range(len(numbering.tasks)), draft, numbering)
    room = _Room(draft, numbering)
    for worker in numbering.staying:
        homeless.extend(_give_up(worker, draft, numbering, copies, room))
    strangers = [task for task in sorted(homeless) if not _move_to_state(task, draft, copies, room)]
    _move_to_least_loaded(strangers, draft, numbering)
    return draft


class _Room:
    """How many tasks each worker may run, so that no worker does more per thread than it must.

    With fewer tasks than threads that is one for each thread, as for Kafka: nothing moves while no task waits for
    another. Otherwise it is what comes of giving each task to the least loaded worker (so that nobody could give one
    away and be left with less than the taker had). Some workers may then have one more, but not all of them: those who
    already have it come first, and what is left goes to whoever asks.
    """

    def __init__(self, draft: Draft, numbering: Numbering) -> None:
        self._active = draft.active
        tasks = len(numbering.tasks)
        self._limit = {worker: draft.capacity[worker] for worker in numbering.staying}
        self._may_have_more: set[int] = set()
        self._spare = 0
        if tasks >= sum(self._limit.values()):
            self._share_out(tasks, draft.capacity)

    def is_left(self, worker: int) -> bool:
        held, limit = len(self._active[worker]), self._limit[worker]
        return held < limit or (held == limit and self._spare > 0 and worker in self._may_have_more)

    def excess(self, worker: int) -> int:
        """How many tasks the worker must give up."""
        return max(0, len(self._active[worker]) - self._limit[worker])

    def take(self, worker: int) -> None:
        """One task more for a worker that has room left."""
        if len(self._active[worker]) == self._limit[worker]:
            self._grant(worker)

    def _share_out(self, tasks: int, capacity: Sequence[int]) -> None:
        counts = _deal_to_least_loaded(tasks, {worker: capacity[worker] for worker in self._limit})
        last = max((count - 1) / capacity[worker] for worker, count in counts.items())
        for worker, count in counts.items():
            self._limit[worker] = count - 1 if (count - 1) / capacity[worker] == last else count
        self._may_have_more = {worker for worker, limit in self._limit.items() if limit / capacity[worker] == last}
        self._spare = tasks - sum(self._limit.values())
        for worker in sorted(self._may_have_more):
            if self._spare and self.excess(worker):
                self._grant(worker)

    def _grant(self, worker: int) -> None:
        self._spare -= 1
        self._may_have_more.remove(worker)
        self._limit[worker] += 1


def _deal_to_least_loaded(tasks: int, capacity: Mapping[int, int]) -> dict[int, int]:
    """How many tasks each worker gets, if every task goes to whom has the fewest a thread.

    All but one task a worker are dealt at once: nobody's load can end below that.
    """
    certain, threads = max(0, tasks - len(capacity)), sum(capacity.values())
    counts = {worker: ceil(Fraction(certain * own, threads)) for worker, own in capacity.items()}
    queue = [(counts[worker] / own, worker) for worker, own in capacity.items()]
    heapq.heapify(queue)
    for _ in range(tasks - sum(counts.values())):
        worker = queue[0][1]
        counts[worker] += 1
        heapq.heapreplace(queue, (counts[worker] / capacity[worker], worker))
    return counts


def _give_up(worker: int, draft: Draft, numbering: Numbering, copies: Copies, room: _Room) -> list[int]:
    """Take from a worker what it has too much: tasks without state, then those that others have state of."""

    def by_loss(task: int) -> tuple[bool, bool, int]:
        elsewhere = any(
            room.is_left(other) and copies.is_ready_or_warming(other, task) for other in copies.of(task) - {worker}
        )
        return numbering.tasks[task].stateful, not elsewhere, -task

    given = heapq.nsmallest(room.excess(worker), draft.active[worker], key=by_loss)
    draft.active[worker].difference_update(given)
    return given


def _move_to_state(task: int, draft: Draft, copies: Copies, room: _Room) -> bool:
    nearest = copies.nearest(task, room.is_left)
    if nearest:
        worker = min(nearest, key=lambda near: (draft.active_load(near), near))
        room.take(worker)
        draft.active[worker].add(task)
    return bool(nearest)


def _move_to_least_loaded(tasks: Sequence[int], draft: Draft, numbering: Numbering) -> None:
    """Of the least loaded, the one with the most threads; task by task, so that each subtopology spreads."""
    queue = [(draft.active_load(worker), -draft.capacity[worker], worker) for worker in numbering.staying]
    heapq.heapify(queue)
    for task in tasks:
        _, threads, worker = queue[0]
        draft.active[worker].add(task)
        heapq.heapreplace(queue, (draft.active_load(worker), threads, worker))
