"""Optimal: nothing moves without need, and what moves does so as soon as it can."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest
from assignor_groups import END, Group, a_group, once_hot
from assignor_inputs import configs, for_every, groups, staying
from assignor_scalings import MINUTE_MS, SCALINGS, Scaling
from hypothesis import strategies as st

from sluice_assignor import (
    AssignmentConfig,
    Copy,
    Degradation,
    GroupState,
    InvalidConfigError,
    Move,
    MoveReason,
    OptimalParameters,
    RackAwareStrategy,
    Task,
    Wish,
    Worker,
    decide,
)
from sluice_assignor.model import RUNNING
from sluice_protocol.ids import TaskId

OPTIMAL = AssignmentConfig("Optimal")


@pytest.mark.parametrize("row", SCALINGS, ids=str)
def test_moves_only_what_must_move(row: Scaling):
    timeline = row.run("Optimal", step_when_warm=True)

    assert len(timeline.moved) == row.needed
    assert len(timeline.stood_still_ms) == row.cold


@pytest.mark.parametrize("row", [row for row in SCALINGS if row.restore_minutes == 1], ids=str)
def test_converges_in_a_tenth_of_the_time_that_kafka_takes(row: Scaling):
    timeline = row.run("Optimal", step_when_warm=True)

    assert timeline.converged_at_ms is not None
    assert timeline.converged_at_ms <= row.probes * 10 * MINUTE_MS / 10


@pytest.mark.parametrize("row", SCALINGS, ids=str)
def test_at_kafkas_pace_it_is_still_quicker_than_kafka(row: Scaling):
    timeline = row.run("Optimal", step_when_warm=False)

    assert timeline.converged_at_ms is not None
    assert timeline.converged_at_ms <= row.probes * 10 * MINUTE_MS


@for_every(groups(), configs(strategy=st.just("Optimal")))
def test_every_worker_has_its_share_of_each_kind(group: GroupState, config: AssignmentConfig):
    target = decide(group, config).target

    workers = staying(group)
    threads = sum(worker.capacity for worker in workers)
    for kind in (True, False):
        tasks = {task.id for task in group.tasks.values() if task.stateful is kind}
        for worker in workers:
            share = len(tasks) * worker.capacity / threads
            assert abs(len(target.active[worker.process_id] & tasks) - share) < 1


@for_every(groups(may_drain=False))
def test_never_moves_more_than_balance_asks_for(group: GroupState):
    """Where every state is as big, and nobody has a copy of what another runs."""
    tasks = {id_: replace(task, stateful=True, end_offset_sum=END) for id_, task in group.tasks.items()}
    bare = {id_: replace(worker, standby=frozenset(), warmup=frozenset()) for id_, worker in group.workers.items()}
    workers = {
        id_: replace(worker, copies={task: Copy(RUNNING) for task in worker.active}) for id_, worker in bare.items()
    }

    target = decide(GroupState(tasks, workers), OPTIMAL).target

    stay = sum(len(worker.active & target.active[id_]) for id_, worker in workers.items())
    assert stay == most_that_can_stay(workers.values(), len(tasks))


@for_every(groups(), configs(strategy=st.sampled_from(["Balanced", "Incremental", "Optimal", "Sticky"])))
def test_no_fresh_warm_up_begins_while_one_that_has_begun_waits(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    moves = decision.moves
    slots = [move for move in moves if move.task in decision.next.warmup[move.destination]]
    fresh = [move for move in slots if not has_begun(move, group)]
    dropped = [move for move in moves if move.reason is MoveReason.WAITING_FOR_SLOT and has_begun(move, group)]
    assert not (fresh and dropped)


def test_a_hot_copy_takes_over_at_once():
    outcome = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_1").decide(strategy="Optimal")

    assert outcome.active == {"a": "0_0", "b": "0_1"}
    assert not outcome.follow_up


def test_a_started_warm_up_goes_on_though_another_copy_has_less_left():
    group = (
        a_group("0_0 0_1 0_2 0_3", workers="a b")
        .running(a="0_0 0_1 0_2 0_3")
        .warming(90_000, b="0_2")
        .on_disk(20_000, b="0_3")
    )

    outcome = group.decide(strategy="Optimal", warmups=1)

    assert outcome.target == {"a": "0_0 0_1", "b": "0_2 0_3"}
    assert outcome.warmup == {"b": "0_2"}


def test_who_was_just_given_a_task_keeps_it_before_having_reported_a_copy():
    group = a_group("0_0 0_1", workers="a b").running(a="0_1", b="0_0").state
    silent = {id_: replace(worker, copies={}) for id_, worker in group.workers.items()}

    assert decide(replace(group, workers=silent), OPTIMAL).moves == ()


def test_the_copy_with_the_least_left_comes_first():
    group = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1 0_2 0_3").on_disk(20_000, b="0_3")

    assert group.decide(strategy="Optimal", warmups=1).warmup == {"b": "0_3"}


def test_the_smallest_states_move():
    group = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1 0_2 0_3")

    outcome = sized(group, {"0_1": 10, "0_3": 20}, other=1000).decide(strategy="Optimal")

    assert outcome.target == {"a": "0_0 0_2", "b": "0_1 0_3"}


def test_a_caught_up_standby_stays_one_while_its_successor_warms_up():
    group = a_group("0_0 0_1", workers="a b c d").running(a="0_0", d="0_1").standing_by(b="0_0 0_1")

    outcome = group.decide(strategy="Optimal", standbys=1)

    assert outcome.active == {"a": "0_0", "d": "0_1"}
    assert outcome.standby == {"b": "0_0 0_1"}
    assert outcome.warmup.keys() == {"c"}


def test_who_ran_a_task_becomes_its_standby_rather_than_somebody_new():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_1")

    outcome = group.decide(strategy="Optimal", standbys=1)

    assert outcome.standby == {"a": "0_1", "b": "0_0"}


def test_a_lost_worker_is_replaced_by_its_standbys():
    group = a_group("0_0 0_1 0_2 0_3", workers="a b c").running(a="0_0", b="0_1").standing_by(a="0_2", b="0_3")

    outcome = group.without("c").decide(strategy="Optimal")

    assert outcome.active == {"a": "0_0 0_2", "b": "0_1 0_3"}


def test_of_what_moves_each_subtopology_gives_the_same_number():
    tasks = [f"{subtopology}_{partition}" for subtopology in (0, 1) for partition in range(10)]
    group = a_group(" ".join(tasks), workers="a b").running(a=" ".join(tasks))

    target = group.decide(strategy="Optimal").target

    assert Counter(task[0] for task in target["b"].split()) == {"0": 5, "1": 5}


def test_the_spread_is_worth_restoring_when_it_is_configured_so():
    group = a_group("0_0 0_1 1_0 1_1", workers="a b").running(a="0_0 0_1", b="1_0 1_1").state
    spread = replace(OPTIMAL, optimal=OptimalParameters(subtopology_spread=3000))

    assert decide(group, OPTIMAL).moves == ()
    assert all({task.subtopology for task in tasks} == {0, 1} for tasks in decide(group, spread).target.active.values())


NEAR = {TaskId(subtopology, partition): "ab"[subtopology] for subtopology in (0, 1) for partition in (0, 1)}
"""Each subtopology is read from a rack of its own: least traffic and an even spread pull in two directions."""


@pytest.mark.parametrize(
    ("strategy", "parts"), [(RackAwareStrategy.MIN_TRAFFIC, 1), (RackAwareStrategy.BALANCE_SUBTOPOLOGY, 2)]
)
@pytest.mark.parametrize("stateful", [True, False])
def test_balanced_subtopologies_are_worth_more_than_traffic(strategy: RackAwareStrategy, parts: int, stateful: bool):
    tasks = {id_: Task(id_, stateful, END if stateful else 0, (frozenset(rack),)) for id_, rack in NEAR.items()}
    workers = {UUID(int=number): Worker(UUID(int=number), 1, rack=rack) for number, rack in enumerate("ab")}

    target = decide(GroupState(tasks, workers), replace(OPTIMAL, rack_aware_strategy=strategy)).target

    assert [len({task.subtopology for task in held}) for held in target.active.values()] == [parts, parts]


def test_balanced_subtopologies_are_not_worth_restoring():
    group = a_group("0_0 0_1 1_0 1_1", workers="a b").running(a="0_0 0_1", b="1_0 1_1").state
    workers = {id_: replace(worker, rack="x") for id_, worker in group.workers.items()}
    racks = frozenset("x")
    tasks = {id_: replace(task, source_racks=(racks,), changelog_racks=(racks,)) for id_, task in group.tasks.items()}
    balanced = replace(OPTIMAL, rack_aware_strategy=RackAwareStrategy.BALANCE_SUBTOPOLOGY)

    decision = decide(GroupState(tasks, workers), balanced)

    assert (decision.moves, decision.degraded) == ((), ())


def test_a_spread_out_of_range_is_refused():
    with pytest.raises(InvalidConfigError, match="subtopologySpread is -1; it must be from 0"):
        OptimalParameters(subtopology_spread=-1)


def test_tasks_without_state_even_out_what_those_with_state_leave():
    group = a_group("0_0", stateless="1_0", workers="a b")

    target = group.decide(strategy="Optimal").target

    assert sorted(target) == ["a", "b"]


def test_a_task_that_must_move_goes_to_a_rack_that_has_its_partition():
    group = in_racks(a_group("0_0 0_1 0_2", workers="a b c").running(a="0_0 0_1 0_2"), {"a": "x", "b": "y", "c": "x"})

    target = decide(group, replace(OPTIMAL, rack_aware_strategy=RackAwareStrategy.MIN_TRAFFIC)).target

    assert [str(task) for task in target.active[UUID(int=2)]] == ["0_1"]


def test_racks_that_are_not_known_are_told():
    group = a_group("0_0", workers="a b").state

    decision = decide(group, replace(OPTIMAL, rack_aware_strategy=RackAwareStrategy.MIN_TRAFFIC))

    assert [degradation.wish for degradation in decision.degraded] == [Wish.RACKS]


def test_standbys_differ_in_their_tags():
    group = tagged(a_group("0_0 0_1", workers="a b c d").running(a="0_0", b="0_1"), a="x", b="x", c="y", d="y")

    decision = decide(group, replace(OPTIMAL, num_standby_replicas=1, rack_aware_tags=("zone",)))

    assert {task: zones_of(task, group, decision.target) for task in group.tasks} == {
        task: ["x", "y"] for task in group.tasks
    }
    assert decision.degraded == ()


def test_standbys_that_share_a_tag_though_there_are_other_values_are_told():
    """Each of the others shares the zone or the cluster with a."""
    group = tagged(a_group("0_0", workers="a b c d").running(a="0_0"), a="x/1", b="x/2", c="y/1", d="x/1")

    decision = decide(group, replace(OPTIMAL, num_standby_replicas=1, rack_aware_tags=("zone", "cluster")))

    assert decision.degraded == (
        Degradation(Wish.TAGS, "there are too few workers that differ in their tags for all copies of task 0_0"),
    )


def test_the_optimum_is_found_again_once_it_is_reached():
    group = a_group("0_0 0_1 0_2 0_3 0_4", workers="a b c").running(a="0_0 0_1 0_2 0_3 0_4").state
    while (decision := decide(group, OPTIMAL)).follow_up:
        group = once_hot(group, decision.next)

    assert decide(once_hot(group, decision.next), OPTIMAL).moves == ()


def test_without_the_solver_it_says_how_to_install_it():
    program = """
import sys
sys.modules["ortools"] = None
from sluice_assignor import AssignmentConfig, GroupState, MissingSolverError, Task, Worker, decide
from sluice_protocol.ids import TaskId
from uuid import UUID
task, worker = Task(TaskId(0, 0), stateful=True), Worker(UUID(int=1), capacity=1)
group = GroupState({task.id: task}, {worker.process_id: worker})
decide(group, AssignmentConfig("HighAvailability"))
try:
    decide(group, AssignmentConfig("Optimal"))
except MissingSolverError as error:
    print(error)
"""

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert told == (
        "the strategy Optimal needs the package ortools, which is not installed; install it with: "
        "pip install 'sluice[assignor]', or choose another strategy\n"
    )


def has_begun(move: Move, group: GroupState) -> bool:
    worker = group.workers[move.destination]
    return move.task in worker.active | worker.standby | worker.warmup


def most_that_can_stay(workers, tasks: int) -> int:
    """As many as the fewest that each must have, and one more for as many workers as get more than that."""
    threads = sum(worker.capacity for worker in workers)
    fewest = {worker.process_id: tasks * worker.capacity // threads for worker in workers}
    may_have_more = [worker for worker in workers if tasks * worker.capacity % threads]
    has_more = sum(len(worker.active) > fewest[worker.process_id] for worker in may_have_more)
    return sum(min(len(worker.active), fewest[worker.process_id]) for worker in workers) + min(
        has_more, tasks - sum(fewest.values())
    )


def sized(group: Group, ends: dict[str, int], *, other: int) -> Group:
    tasks = {
        id_: replace(task, state_bytes=ends.get(str(id_), other) * 1_000_000) for id_, task in group.state.tasks.items()
    }
    return replace(group, state=replace(group.state, tasks=tasks))


def in_racks(group: Group, racks: dict[str, str]) -> GroupState:
    """Partition 0 is in rack x, partition 1 in rack y, partition 2 in x."""
    workers = {
        group.ids[name]: replace(group.state.workers[group.ids[name]], rack=rack) for name, rack in racks.items()
    }
    tasks = {
        id_: replace(task, source_racks=(frozenset({"xyx"[id_.partition]}),), changelog_racks=(frozenset({"x"}),))
        for id_, task in group.state.tasks.items()
    }
    return GroupState(tasks, workers)


def tagged(group: Group, **zones: str) -> GroupState:
    workers = {
        group.ids[name]: replace(
            group.state.workers[group.ids[name]], tags=dict(zip(("zone", "cluster"), zone.split("/"), strict=False))
        )
        for name, zone in zones.items()
    }
    return replace(group.state, workers=workers)


def zones_of(task, group: GroupState, assignment) -> list[str]:
    return sorted(
        worker.tags["zone"]
        for id_, worker in group.workers.items()
        if task in assignment.active[id_] | assignment.standby[id_]
    )
