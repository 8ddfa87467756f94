"""Optimal against every assignment that there is: on small groups nothing balanced is cheaper.

What a placement costs is written down here once more, from its definition, with exact fractions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import ceil, floor
from uuid import UUID

import pytest
from assignor_inputs import for_every
from hypothesis import assume
from hypothesis import strategies as st

from sluice_assignor import AssignmentConfig, Copy, GroupState, RackAwareStrategy, Task, Worker, decide
from sluice_assignor.model import RUNNING
from sluice_assignor.optimum import standbys
from sluice_protocol.ids import TaskId

RACKS = ("x", "y", "z")

Place = tuple[TaskId, UUID]


@st.composite
def small_groups(draw: st.DrawFn, *, stateful: bool, most_tasks: int, most_workers: int) -> GroupState:
    """Few enough for every assignment to be tried."""
    names = [TaskId(draw(st.integers(0, 1)), place) for place in range(draw(st.integers(1, most_tasks)))]
    some_racks = st.lists(st.frozensets(st.sampled_from(RACKS), min_size=1), min_size=1, max_size=2).map(tuple)
    tasks = {
        name: Task(
            name,
            stateful,
            end_offset_sum=draw(st.sampled_from([0, 70, 1000, 1000, 50_000])) if stateful else 0,
            source_racks=draw(some_racks),
            changelog_racks=draw(some_racks),
        )
        for name in names
    }
    ids = [UUID(int=number + 1) for number in range(draw(st.integers(1, most_workers)))]
    holder = {name: draw(st.sampled_from([None, *ids])) for name in names}
    workers = {}
    for id_ in ids:
        active = frozenset(name for name in names if holder[name] == id_)
        others = [name for name in names if stateful and name not in active and draw(st.booleans())]
        standby = frozenset(name for name in others if draw(st.booleans()))
        copies = {name: Copy(draw(st.integers(0, tasks[name].end_offset_sum))) for name in others}
        running = {name: Copy(RUNNING) for name in active if stateful}
        workers[id_] = Worker(
            id_,
            draw(st.integers(1, 3)),
            False,
            active,
            standby,
            copies=copies | running,
            rack=draw(st.sampled_from(RACKS)),
        )
    return GroupState(tasks, workers)


EXACT = (RackAwareStrategy.NONE, RackAwareStrategy.MIN_TRAFFIC)
"""With BALANCE_SUBTOPOLOGY the spread of what moves is judged by what is there, and not counted exactly."""


def configs(racks: Iterable[RackAwareStrategy] = RackAwareStrategy) -> st.SearchStrategy[AssignmentConfig]:
    return st.builds(
        AssignmentConfig,
        strategy=st.just("Optimal"),
        num_standby_replicas=st.integers(0, 2),
        rack_aware_strategy=st.sampled_from(list(racks)),
        traffic_cost=st.sampled_from([None, 0, 7, 400, 3000]),
        non_overlap_cost=st.sampled_from([None, 0, 5, 2000]),
    )


@for_every(small_groups(stateful=True, most_tasks=6, most_workers=4), configs(EXACT))
def test_no_balanced_placement_of_actives_costs_less(group: GroupState, config: AssignmentConfig):
    target = decide(group, config).target

    placed = [(task, id_) for id_, tasks in target.active.items() for task in tasks]
    assert cost_of_actives(placed, group, config) == min(
        cost_of_actives(places, group, config) for places in balanced_actives(group)
    )


@for_every(small_groups(stateful=False, most_tasks=6, most_workers=4), configs(EXACT))
def test_no_balanced_placement_of_tasks_without_state_costs_less(group: GroupState, config: AssignmentConfig):
    target = decide(group, config).target

    placed = [(task, id_) for id_, tasks in target.active.items() for task in tasks]
    assert cost_of_actives(placed, group, config) == min(
        cost_of_actives(places, group, config) for places in balanced_actives(group)
    )


@for_every(small_groups(stateful=True, most_tasks=6, most_workers=4), configs([RackAwareStrategy.BALANCE_SUBTOPOLOGY]))
def test_no_balanced_first_placement_costs_less_with_its_spread(group: GroupState, config: AssignmentConfig):
    group = GroupState(group.tasks, {id_: Worker(id_, it.capacity, rack=it.rack) for id_, it in group.workers.items()})
    decision = decide(group, config)
    assume(not decision.degraded)

    placed = [(task, id_) for id_, tasks in decision.target.active.items() for task in tasks]
    assert cost_with_spread(placed, group, config) == min(
        cost_with_spread(places, group, config) for places in balanced_actives(group)
    )


@pytest.mark.parametrize("most_pairs", [0, 200_000], ids=["over racks", "by pair"])
def test_no_balanced_placement_of_standbys_costs_less_given_the_actives(most_pairs: int):
    @for_every(small_groups(stateful=True, most_tasks=4, most_workers=4), configs())
    def rule(group: GroupState, config: AssignmentConfig):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(standbys, "_PAIRS", most_pairs)
            target = decide(group, config).target
        choices = balanced_standbys(group, target.active, config.num_standby_replicas)
        costs = [cost_of_standbys(places, group, config) for places in choices]
        assume(costs)

        placed = [(task, id_) for id_, tasks in target.standby.items() for task in tasks]
        assert cost_of_standbys(placed, group, config) == min(costs)

    rule()


def cost_of_actives(places: Iterable[Place], group: GroupState, config: AssignmentConfig) -> int:
    total = 0
    for task_id, id_ in places:
        task, worker = group.tasks[task_id], group.workers[id_]
        away = 0 if task_id in worker.active else non_overlap(config)
        total += restoring(task, worker, group) + traffic(task.source_racks, worker, config) + away
    return total


def cost_of_standbys(places: Iterable[Place], group: GroupState, config: AssignmentConfig) -> int:
    total = 0
    for task_id, id_ in places:
        task, worker = group.tasks[task_id], group.workers[id_]
        away = 0 if task_id in worker.active | worker.standby else non_overlap(config)
        total += restoring(task, worker, group) + traffic(task.changelog_racks, worker, config) + away
    return total


def restoring(task: Task, worker: Worker, group: GroupState) -> int:
    """In thousandths of a task of mean size, rounded up."""
    mean = Fraction(sum(each.end_offset_sum for each in group.tasks.values()), len(group.tasks))
    read = worker.copies.get(task.id, Copy(0)).offset_sum
    left = 0 if read == RUNNING else task.end_offset_sum - read
    return ceil(1000 * left / mean) if mean else 0


def traffic(partitions: Sequence[frozenset[str]], worker: Worker, config: AssignmentConfig) -> int:
    if config.rack_aware_strategy is RackAwareStrategy.NONE:
        return 0
    cost = 100 if config.traffic_cost is None else config.traffic_cost
    return cost * sum(worker.rack not in racks for racks in partitions)


def non_overlap(config: AssignmentConfig) -> int:
    return 1 if config.non_overlap_cost is None else config.non_overlap_cost


def balanced_actives(group: GroupState) -> Iterator[list[Place]]:
    for owners in product(group.workers, repeat=len(group.tasks)):
        if is_balanced(Counter(owners), len(group.tasks), group):
            yield list(zip(group.tasks, owners, strict=True))


def balanced_standbys(group: GroupState, active: dict[UUID, frozenset[TaskId]], replicas: int) -> Iterator[list[Place]]:
    """All of which every worker has its share of copies.

    Nothing where the actives make that impossible, or where one worker's share is more than a copy of each task.
    """
    owner = {task: id_ for id_, tasks in active.items() for task in tasks}
    wanted = min(replicas, len(group.workers) - 1)
    threads = [worker.capacity for worker in group.workers.values()]
    if (1 + wanted) * max(threads) > sum(threads):
        return
    choices = [combinations([id_ for id_ in group.workers if id_ != owner[task]], wanted) for task in group.tasks]
    for chosen in product(*choices):
        copies = Counter([*owner.values(), *(id_ for ids in chosen for id_ in ids)])
        if is_balanced(copies, (1 + wanted) * len(group.tasks), group):
            yield [(task, id_) for task, ids in zip(group.tasks, chosen, strict=True) for id_ in ids]


def is_balanced(counts: Counter[UUID], total: int, group: GroupState) -> bool:
    threads = sum(worker.capacity for worker in group.workers.values())
    shares = {id_: Fraction(total * worker.capacity, threads) for id_, worker in group.workers.items()}
    return all(floor(share) <= counts[id_] <= ceil(share) for id_, share in shares.items())


def cost_with_spread(places: Sequence[Place], group: GroupState, config: AssignmentConfig) -> int:
    """A task above an even share costs more than the traffic of two."""
    traffic_cost = 100 if config.traffic_cost is None else config.traffic_cost
    racks = {worker.rack for worker in group.workers.values()}
    most = max(sum(rack not in it for it in task.source_racks) for task in group.tasks.values() for rack in racks)
    threads = sum(worker.capacity for worker in group.workers.values())
    sizes = Counter(task.subtopology for task in group.tasks)
    held = Counter((task.subtopology, id_) for task, id_ in places)
    above = sum(
        max(0, count - ceil(Fraction(sizes[subtopology] * group.workers[id_].capacity, threads)))
        for (subtopology, id_), count in held.items()
    )
    return cost_of_actives(places, group, config) + above * (1 + 2 * most * traffic_cost)
