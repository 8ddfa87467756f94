"""Groups in the moment of a rebalance, as large as one likes: what assignors are timed on.

Tasks belong to ten subtopologies and all have state. Workers stand in three racks in turn, and every partition has
replicas in one or two of them, so that there is traffic to save.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from uuid import UUID

from sluice_assignor import (
    Assignment,
    AssignmentConfig,
    Copy,
    GroupState,
    RackAwareStrategy,
    Task,
    Worker,
    decide,
)
from sluice_assignor.model import RUNNING
from sluice_protocol.ids import TaskId

END = 100_000
RACKS = ("rack-0", "rack-1", "rack-2")
SUBTOPOLOGIES = 10
STAYS = 0.8


class Moment(Enum):
    """What the group has behind it; in the last two everybody who held something is caught up."""

    SCRATCH = "from scratch"
    STEADY = "nothing new"
    SCALE_OUT = "scale-out"
    """One worker in five is new."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One group and its configuration. `needed`: how many times as fast as Kafka we promise to be, at least."""

    tasks: int
    workers: int
    moment: Moment
    standbys: int = 0
    racks: RackAwareStrategy = RackAwareStrategy.NONE
    threads: int = 1
    needed: float = 1.0

    def __str__(self) -> str:
        parts = [f"{self.tasks:,} x {self.workers:,}", self.moment.value]
        if self.standbys:
            parts.append(f"{self.standbys} standby{'s' if self.standbys > 1 else ''}")
        if self.threads > 1:
            parts.append(f"{self.threads:,} threads")
        if self.racks is not RackAwareStrategy.NONE:
            parts.append(self.racks.value)
        return ", ".join(parts)

    def config(self, strategy: str = "HighAvailability") -> AssignmentConfig:
        """Kafka's defaults for the rest."""
        return AssignmentConfig(strategy, num_standby_replicas=self.standbys, rack_aware_strategy=self.racks)

    def group(self) -> GroupState:
        """The same group for the same numbers."""
        rng = random.Random(1)
        tasks = {task.id: task for task in self._tasks(rng)}
        workers = list(self._workers(rng))
        if self.moment is Moment.SCRATCH:
            return _group(tasks, workers)
        rng.shuffle(workers)
        stay = len(workers) if self.moment is Moment.STEADY else int(len(workers) * STAYS)
        plain = replace(self.config(), rack_aware_strategy=RackAwareStrategy.NONE)
        held = decide(_group(tasks, workers[:stay]), plain).target
        return _group(tasks, [*(_at_rest(worker, held) for worker in workers[:stay]), *workers[stay:]])

    def _tasks(self, rng: random.Random) -> Iterable[Task]:
        for number in range(self.tasks):
            subtopology, partition = divmod(number, -(-self.tasks // SUBTOPOLOGIES))
            source, changelog = (frozenset(rng.sample(RACKS, rng.choice((1, 2)))) for _ in range(2))
            yield Task(TaskId(subtopology, partition), True, END, (source,), (changelog,))

    def _workers(self, rng: random.Random) -> Iterable[Worker]:
        for number in range(self.workers):
            yield Worker(UUID(int=rng.getrandbits(128)), self.threads, rack=RACKS[number % len(RACKS)])


def _group(tasks: dict[TaskId, Task], workers: Iterable[Worker]) -> GroupState:
    return GroupState(tasks, {worker.process_id: worker for worker in workers})


def _at_rest(worker: Worker, held: Assignment) -> Worker:
    active, standby = held.active[worker.process_id], held.standby[worker.process_id]
    copies = {**dict.fromkeys(active, Copy(RUNNING)), **dict.fromkeys(standby, Copy(END))}
    return replace(worker, active=active, standby=standby, copies=copies)


def _of(sizes: Iterable[tuple[int, int, int]], moments: Iterable[Moment], needed: float) -> list[Rebalance]:
    return [
        Rebalance(tasks, workers, moment, standbys, needed=needed)
        for tasks, workers, standbys in sizes
        for moment in moments
    ]


_MIN, _SPREAD = RackAwareStrategy.MIN_TRAFFIC, RackAwareStrategy.BALANCE_SUBTOPOLOGY

QUICK: tuple[Rebalance, ...] = (
    *_of([(1_000, 100, 0), (1_000, 100, 1)], Moment, needed=20),
    *_of([(3_000, 300, 1), (10_000, 100, 0), (10_000, 100, 1)], [Moment.SCALE_OUT], needed=20),
    *_of([(6_000, 2, 1)], Moment, needed=1),
    *_of([(1_000, 100, 50)], [Moment.SCALE_OUT], needed=1.5),
    *(Rebalance(1_000, 10, moment, 1, threads=1_000) for moment in Moment),
    Rebalance(100, 10, Moment.SCALE_OUT, racks=_MIN),
    Rebalance(100, 10, Moment.SCALE_OUT, 1, racks=_MIN),
    Rebalance(300, 30, Moment.SCALE_OUT, racks=_MIN, needed=200),
    Rebalance(100, 10, Moment.SCALE_OUT, racks=_SPREAD),
    Rebalance(300, 30, Moment.SCALE_OUT, racks=_SPREAD, needed=50),
)
"""What Kafka gets through in about two minutes."""

FULL: tuple[Rebalance, ...] = (
    *QUICK,
    *_of([(1_000, 100, 50)], [Moment.SCRATCH, Moment.STEADY], needed=1.5),
    *_of([(3_000, 300, 0)], Moment, needed=20),
    *_of([(3_000, 300, 1), (10_000, 100, 0), (10_000, 100, 1)], [Moment.SCRATCH, Moment.STEADY], needed=20),
    *_of([(1_000, 1_000, 1)], Moment, needed=20),
    *_of([(10_000, 1_000, 0)], [Moment.SCRATCH, Moment.STEADY], needed=20),
    *_of([(10_000, 1_000, 0)], [Moment.SCALE_OUT], needed=200),
    Rebalance(300, 30, Moment.SCALE_OUT, 1, racks=_MIN, needed=200),
    Rebalance(500, 50, Moment.SCALE_OUT, racks=_MIN, needed=200),
)
"""With those on which Kafka needs minutes, and 10 GB of heap."""

ALONE: tuple[tuple[Rebalance, float], ...] = (
    (Rebalance(10_000, 1_000, Moment.SCALE_OUT, racks=_MIN), 0.5),
    (Rebalance(100_000, 10_000, Moment.SCALE_OUT, racks=_MIN), 5.0),
)
"""Too large for Kafka; and the seconds that Optimal may take on one core."""
