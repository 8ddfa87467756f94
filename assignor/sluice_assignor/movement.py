"""The step: the next safe assignment on the way to the target (KIP-441, "Iterative Balancing Assignments").

Where the target gives a task to a worker that is not caught up, while another is closer, the task runs on the other
one for now and the worker of the target warms up. It knows nothing of time: whoever calls it decides when the next
step is due. The rules are Kafka's, in Kafka's order; what is ours is the draining worker, which keeps what it holds
for as long as nobody else is caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from heapq import heappush
from typing import NamedTuple

from sluice_assignor.candidates import Candidates, LeastLoaded, OrderUnknown, Replay
from sluice_assignor.draft import Draft, Numbering, holders_by_task
from sluice_assignor.java_order import poll
from sluice_assignor.lags import Lags


class Movement(NamedTuple):
    """A copy that the target wants at a worker that is not ready for it, and those who are.

    `keepers` are draining workers that hold the task: they are asked last. Movements of different tasks compare by
    urgency: the fewest caught-up workers first, then the first task.
    """

    caught_up: int
    task: int
    destination: int
    ready: frozenset[int]
    keepers: tuple[int, ...]


class _Queued:
    """A movement behind its urgency in a queue: equal to all others, so that only the urgency counts."""

    __slots__ = ("movement",)

    def __init__(self, movement: Movement) -> None:
        self.movement = movement

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Queued)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Step:
    """The next assignment, and what in it is not yet as in the target."""

    next: Draft
    warmup_slots: int
    movements: list[tuple[Movement, int]] = field(default_factory=list)
    """Each copy on its way to its place in the target, and who stands in for it."""
    swapped: set[int] = field(default_factory=set)

    @property
    def follow_up(self) -> bool:
        """Is another step wanted, once copies have warmed up?"""
        return bool(self.movements)


def next_step(target: Draft, lags: Lags, numbering: Numbering, max_warmup_replicas: int) -> Step:
    """Come as close to the target as the copies allow, with at most so many warm-ups in the whole group."""
    try:
        return _step(target, lags, numbering, max_warmup_replicas, LeastLoaded)
    except OrderUnknown:
        return _step(target, lags, numbering, max_warmup_replicas, Replay)


def _step(
    target: Draft,
    lags: Lags,
    numbering: Numbering,
    max_warmup_replicas: int,
    candidates: Callable[[Draft, Numbering], Candidates],
) -> Step:
    step = Step(target.copy(), max_warmup_replicas)
    mover = _Mover(step, lags, numbering)
    mover.move_actives(candidates(step.next, numbering))
    mover.move_standbys(candidates(step.next, numbering))
    return step


class _Mover:
    """Carries the movements out on the draft of a step: actives first, standbys with the slots that are left."""

    def __init__(self, step: Step, lags: Lags, numbering: Numbering) -> None:
        self._step = step
        self._draft = step.next
        self._lags = lags
        self._numbering = numbering
        self._draining = frozenset(numbering.draining)
        self._known_ready: dict[int, tuple[frozenset[int], tuple[int, ...]]] = {}

    def move_actives(self, candidates: Candidates) -> None:
        for movement in sorted(self._late(self._draft.active)):
            source = self._stand_in_for_active(movement, candidates)
            self._carried_out(movement, source, candidates)

    def move_standbys(self, candidates: Candidates) -> None:
        late = self._late(self._draft.standby)
        if not late:
            return
        copies = holders_by_task(self._draft.active, self._draft.standby, self._draft.warmup)
        for movement in _by_urgency(late):
            source = self._stand_in_for_standby(movement, copies[movement.task], candidates)
            if source is not None:
                self._carried_out(movement, source, candidates)

    def _late(self, role: list[set[int]]) -> list[Movement]:
        """What must not simply go where the target says, by worker, then task."""
        return [
            self._movement(task, worker)
            for worker in self._numbering.staying
            for task in sorted(self._lags.behind_another(worker, role[worker]))
        ]

    def _movement(self, task: int, destination: int) -> Movement:
        known = self._known_ready.get(task)
        if known is None:
            known = self._known_ready[task] = self._ready(task)
        ready, keepers = known
        return Movement(len(ready) + len(keepers), task, destination, ready, keepers)

    def _ready(self, task: int) -> tuple[frozenset[int], tuple[int, ...]]:
        """Who is caught up: those who may receive the task, and those who may only keep it."""
        ready = frozenset(self._lags.caught_up(task))
        if ready.isdisjoint(self._draining):
            return ready, ()
        return ready - self._draining, self._keepers(task, ready & self._draining)

    def _keepers(self, task: int, draining: Set[int]) -> tuple[int, ...]:
        """The worker that runs the task comes first: keeping it costs nothing."""
        runs = self._numbering.holders.get(task)
        return tuple(sorted(draining, key=lambda worker: (worker != runs, worker)))

    def _stand_in_for_active(self, movement: Movement, candidates: Candidates) -> int:
        """Let the best worker run the task until the destination is ready, and return it."""
        standby = self._draft.standby
        source = candidates.poll({worker for worker in movement.ready if movement.task in standby[worker]})
        if source is None:
            source = candidates.poll(movement.ready)
        if source is None:
            source = movement.keepers[0] if movement.keepers else self._lags.most_caught_up(movement.task)
        if movement.task in standby[source]:
            self._swap(movement, source)
        else:
            self._draft.active[movement.destination].remove(movement.task)
            self._draft.active[source].add(movement.task)
            self._warm_up(movement)
        return source

    def _stand_in_for_standby(self, movement: Movement, copies: set[int], candidates: Candidates) -> int | None:
        """Let another worker, without a copy, be the standby until the destination is ready; None when nobody can."""
        task, destination = movement.task, movement.destination
        source = candidates.poll(movement.ready - copies)
        if source is None:
            source = next((worker for worker in movement.keepers if worker not in copies), None)
        if source is None:
            source = self._lags.most_caught_up_before(destination, task, lambda worker: worker not in copies)
        if source is not None:
            self._draft.standby[destination].remove(task)
            self._draft.standby[source].add(task)
            copies.add(source)
            if not self._warm_up(movement):
                copies.remove(destination)
        return source

    def _swap(self, movement: Movement, source: int) -> None:
        """The destination restores as a standby in the source's place; that takes no warm-up slot."""
        self._draft.standby[source].remove(movement.task)
        self._draft.active[movement.destination].remove(movement.task)
        self._draft.active[source].add(movement.task)
        self._draft.standby[movement.destination].add(movement.task)
        self._step.swapped.add(movement.task)

    def _warm_up(self, movement: Movement) -> bool:
        """Let the destination warm up, if there is a slot left."""
        if not self._step.warmup_slots:
            return False
        self._step.warmup_slots -= 1
        self._draft.warmup[movement.destination].add(movement.task)
        return True

    def _carried_out(self, movement: Movement, source: int, candidates: Candidates) -> None:
        self._step.movements.append((movement, source))
        if source not in self._draining:
            candidates.put_back(source, movement.destination)
        else:
            candidates.put_back(movement.destination)


def _by_urgency(late: list[Movement]) -> Iterable[Movement]:
    """Where several workers are late with the same task, the slots of Java's queue decide who is first."""
    if len({movement.task for movement in late}) == len(late):
        return sorted(late)
    queue: list[tuple[int, int, _Queued]] = []
    for movement in late:
        heappush(queue, (movement.caught_up, movement.task, _Queued(movement)))
    return [poll(queue)[2].movement for _ in late]
