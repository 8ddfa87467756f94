"""Kafka's convergence tests, with its limits, for every strategy: one thread a worker, any membership change.

Between two steps every copy warms up, as in Kafka's harness. A worker that is gone keeps what it had, and may return.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import product
from uuid import UUID

import pytest
from assignor_groups import once_hot

from sluice_assignor import Assignment, AssignmentConfig, GroupState, RackAwareStrategy, Task, Worker, decide
from sluice_assignor.strategies import STRATEGIES
from sluice_protocol.ids import TaskId

END = 150_000
ACCEPTABLE_LAG = 100
SEEDS = 60

RACKS = ("rack-0", "rack-1", "rack-2")
HEED_RACKS = ("HighAvailability", "Optimal")

every_strategy = pytest.mark.parametrize(
    ("strategy", "racks"),
    [
        *((strategy, RackAwareStrategy.NONE) for strategy in sorted(STRATEGIES)),
        *product(HEED_RACKS, (RackAwareStrategy.MIN_TRAFFIC, RackAwareStrategy.BALANCE_SUBTOPOLOGY)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.value,
)


@dataclass
class Cluster:
    """A group and those that have left it."""

    state: GroupState
    config: AssignmentConfig
    gone: dict[UUID, Worker] = field(default_factory=dict)

    def converge(self, limit: int) -> None:
        """Step until no follow-up is wanted. Raises AssertionError after so many steps."""
        for _ in range(limit):
            decision = decide(self.state, self.config)
            self.state = once_hot(self.state, decision.next)
            if not decision.follow_up:
                self.assert_valid(decision.next)
                return
        raise AssertionError(f"{self.config.strategy} has not converged after {limit} steps")

    def join(self, *workers: Worker) -> None:
        self._with({**self.state.workers, **{worker.process_id: worker for worker in workers}})

    def lose(self, *process_ids: UUID) -> None:
        self.gone |= {id_: self.state.workers[id_] for id_ in process_ids}
        self._with({id_: worker for id_, worker in self.state.workers.items() if id_ not in process_ids})

    def bring_back(self, process_id: UUID) -> None:
        """With its copies, but without its roles."""
        nothing: frozenset[TaskId] = frozenset()
        self.join(replace(self.gone.pop(process_id), active=nothing, standby=nothing, warmup=nothing))

    def assert_valid(self, assignment: Assignment) -> None:
        wanted = min(len(self.state.workers), 1 + self.config.num_standby_replicas)
        assert not any(assignment.warmup.values())
        for task in self.state.tasks.values():
            holders = [id_ for role in (assignment.active, assignment.standby) for id_ in role if task.id in role[id_]]
            assert len(holders) == len(set(holders)) == (wanted if task.stateful else 1)

    def _with(self, workers: dict[UUID, Worker]) -> None:
        self.state = replace(self.state, workers=workers)


def a_cluster(
    strategy: str,
    racks: RackAwareStrategy,
    *,
    stateless: int,
    stateful: int,
    workers: int,
    partitions: int = 5,
    warmups: int = 2,
    standbys: int = 0,
) -> Cluster:
    """So many partitions a subtopology, in one or two racks each; those with state come first."""
    tasks = {}
    for first, count, with_state in ((0, stateful, True), (stateful, stateless, False)):
        for number in range(count):
            id_ = TaskId(first + number // partitions, number % partitions)
            replicas = (frozenset((RACKS[id_.partition % 3], RACKS[number % 2])),)
            tasks[id_] = Task(id_, with_state, END if with_state else 0, replicas, replicas if with_state else ())
    members = {worker.process_id: worker for worker in map(a_worker, range(workers))}
    return Cluster(GroupState(tasks, members), AssignmentConfig(strategy, ACCEPTABLE_LAG, warmups, standbys, racks))


def a_worker(number: int) -> Worker:
    return Worker(UUID(int=number), capacity=1, rack=RACKS[number % 3])


@every_strategy
def test_a_first_assignment_is_final(strategy: str, racks: RackAwareStrategy):
    a_cluster(strategy, racks, stateless=1, stateful=1, workers=1).converge(limit=1)


@every_strategy
def test_a_worker_joins(strategy: str, racks: RackAwareStrategy):
    cluster = a_cluster(strategy, racks, stateless=7, stateful=11, workers=1)
    cluster.converge(limit=1)

    cluster.join(a_worker(1))

    cluster.converge(limit=11 // 2 + 1)


@every_strategy
def test_a_worker_is_lost(strategy: str, racks: RackAwareStrategy):
    cluster = a_cluster(strategy, racks, stateless=11, stateful=13, workers=7)
    cluster.converge(limit=1)

    cluster.lose(UUID(int=0))

    cluster.converge(limit=13 // 2 + 2)


@every_strategy
@pytest.mark.parametrize("seed", range(SEEDS))
def test_workers_come_and_go(strategy: str, racks: RackAwareStrategy, seed: int):
    rng = random.Random(seed)
    stateless, stateful, workers = (rng.randint(1, 10) for _ in range(3))
    standbys, warmups, partitions = rng.randint(0, workers), rng.randint(1, stateful), rng.randint(1, 10)
    cluster = a_cluster(
        strategy,
        racks,
        stateless=stateless,
        stateful=stateful,
        workers=workers,
        partitions=partitions,
        warmups=warmups,
        standbys=standbys,
    )
    cluster.converge(limit=1)
    for _ in range(rng.randint(1, 10)):
        come_and_go(cluster, rng, workers)
        cluster.converge(limit=2 * (stateful + stateful * standbys))


def come_and_go(cluster: Cluster, rng: random.Random, workers: int) -> None:
    """Lose some of the workers but not all, or get some: old ones back, or new ones."""
    members = sorted(cluster.state.workers)
    if rng.random() < 0.5:
        cluster.lose(*rng.sample(members, rng.randint(0, len(members) - 1)))
        return
    for _ in range(rng.randint(0, max(0, workers - 1))):
        if cluster.gone and rng.random() < 0.5:
            cluster.bring_back(rng.choice(sorted(cluster.gone)))
        else:
            cluster.join(a_worker(len(cluster.state.workers) + len(cluster.gone) + 1))
