"""The step: the next safe assignment on the way to the target (KIP-441, "Iterative Balancing Assignments").

Where the target gives a task to a worker that is not caught up, while another is closer, the task runs on the other
one for now and the worker of the target warms up. It knows nothing of time: whoever calls it decides when the next
step is due. The rules are Kafka's, in Kafka's order; what is ours is the draining worker, which keeps what it holds
for as long as nobody else is caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappush

from sluice_assignor.draft import Draft, Numbering, holders_of
from sluice_assignor.java_order import poll
from sluice_assignor.lags import Lags
from sluice_assignor.warmups.candidates import Candidates, LeastLoaded, OrderUnknown, Replay
from sluice_assignor.warmups.step import Step

Late = tuple[int, int, int]
"""A copy that the target wants at a worker that is not ready for it: how many are caught up, the task, the worker.

Those of different tasks compare by urgency: the fewest caught-up workers first, then the first task.
"""


class _Queued:
    """The destination of a late copy in a queue: equal to all others, so that only the urgency counts."""

    __slots__ = ("destination",)

    def __init__(self, destination: int) -> None:
        self.destination = destination

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Queued)

    __hash__ = None  # type: ignore[assignment]


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
    step = Step(target.copy())
    mover = _Mover(step, lags, numbering, max_warmup_replicas)
    mover.move_actives(candidates(step.next, numbering))
    mover.move_standbys(candidates(step.next, numbering))
    return step


class _Mover:
    """Carries the movements out on the draft of a step: actives first, standbys with the slots that are left."""

    def __init__(self, step: Step, lags: Lags, numbering: Numbering, max_warmup_replicas: int) -> None:
        self._step = step
        self._draft = step.next
        self._lags = lags
        self._numbering = numbering
        self._slots = max_warmup_replicas
        self._draining = frozenset(numbering.draining)
        self._caught_up: dict[int, list[int]] = {}

    def move_actives(self, candidates: Candidates) -> None:
        for _, task, destination in sorted(self._late(self._draft.active)):
            source = self._stand_in_for_active(task, destination, candidates)
            self._carried_out(task, destination, source, candidates)

    def move_standbys(self, candidates: Candidates) -> None:
        if self._everybody_has_everything():
            return  # so that nobody could stand in
        late = self._late(self._draft.standby)
        tasks = {task for _, task, _ in late}
        copies = holders_of(tasks, self._draft.active, self._draft.standby, self._draft.warmup)
        for _, task, destination in _by_urgency(late) if len(tasks) < len(late) else sorted(late):
            source = self._stand_in_for_standby(task, destination, copies[task], candidates)
            if source is not None:
                self._carried_out(task, destination, source, candidates)

    def _everybody_has_everything(self) -> bool:
        held = sum(map(self._draft.count, range(len(self._numbering.workers))))
        return held == len(self._numbering.stateful) * len(self._numbering.workers)

    def _late(self, role: list[set[int]]) -> list[Late]:
        """What must not simply go where the target says, by worker, then task."""
        late = []
        for worker in self._numbering.staying:
            for task in sorted(self._lags.behind_another(worker, role[worker])):
                caught_up = self._caught_up.get(task)
                if caught_up is None:
                    caught_up = self._caught_up[task] = self._lags.caught_up(task)
                late.append((len(caught_up), task, worker))
        return late

    def _stand_in_for_active(self, task: int, destination: int, candidates: Candidates) -> int:
        """Let the best worker run the task until the destination is ready, and return it."""
        standby, ready = self._draft.standby, self._ready(task)
        source = candidates.poll([worker for worker in ready if task in standby[worker]])
        if source is None:
            source = candidates.poll(ready)
        if source is None:
            source = next(self._keepers(task), None)
        if source is None:
            source = self._lags.most_caught_up(task)
        self._draft.active[destination].remove(task)
        self._draft.active[source].add(task)
        if task in standby[source]:
            self._swap(task, destination, source)
        else:
            self._warm_up(task, destination)
        return source

    def _stand_in_for_standby(
        self, task: int, destination: int, copies: set[int], candidates: Candidates
    ) -> int | None:
        """Let another worker, without a copy, be the standby until the destination is ready; None when nobody can."""
        source = candidates.poll([worker for worker in self._ready(task) if worker not in copies])
        if source is None:
            source = next((worker for worker in self._keepers(task) if worker not in copies), None)
            if source is None:
                source = self._lags.most_caught_up_before(destination, task, copies)
        if source is not None:
            self._draft.standby[destination].remove(task)
            self._draft.standby[source].add(task)
            copies.add(source)
            if not self._warm_up(task, destination):
                copies.remove(destination)
        return source

    def _ready(self, task: int) -> Sequence[int]:
        """Those who are caught up and may receive the task."""
        caught_up = self._caught_up[task]
        return [worker for worker in caught_up if worker not in self._draining] if self._draining else caught_up

    def _keepers(self, task: int) -> Iterator[int]:
        """Those who are caught up and may only keep the task; who runs it comes first, for that costs nothing."""
        keepers = self._draining.intersection(self._caught_up[task])
        runs = self._numbering.holders.get(task)
        yield from sorted(keepers, key=lambda worker: (worker != runs, worker))

    def _swap(self, task: int, destination: int, source: int) -> None:
        """The destination restores as a standby in the source's place; that takes no warm-up slot."""
        self._draft.standby[source].remove(task)
        self._draft.standby[destination].add(task)
        self._step.swapped.add(task)

    def _warm_up(self, task: int, destination: int) -> bool:
        """Let the destination warm up, if there is a slot left."""
        if not self._slots:
            return False
        self._slots -= 1
        self._draft.warmup[destination].add(task)
        return True

    def _carried_out(self, task: int, destination: int, source: int, candidates: Candidates) -> None:
        self._step.on_their_way.setdefault((task, destination), source)
        if source not in self._draining:
            candidates.put_back(source, destination)
        else:
            candidates.put_back(destination)


def _by_urgency(late: list[Late]) -> list[Late]:
    """Where several workers are late with the same task, the slots of Java's queue decide who is first."""
    queue: list[tuple[int, int, _Queued]] = []
    for caught_up, task, destination in late:
        heappush(queue, (caught_up, task, _Queued(destination)))
    polled = (poll(queue) for _ in late)
    return [(caught_up, task, queued.destination) for caught_up, task, queued in polled]
