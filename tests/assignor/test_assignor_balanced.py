"""Balanced: what the balance factor lets be, and what Elasticsearch's weights make of the rest."""

from __future__ import annotations

import math
from fractions import Fraction
from uuid import UUID

import pytest
from assignor_groups import Group, Outcome, a_group
from assignor_inputs import configs, for_every, groups, staying
from hypothesis import strategies as st

from sluice_assignor import AssignmentConfig, BalancedParameters, GroupState, InvalidConfigError, Worker, decide


def decided(group: Group, *, standbys: int = 0, warmups: int = 2, **parameters: float) -> Outcome:
    balanced = BalancedParameters(**parameters)
    return group.decide(strategy="Balanced", standbys=standbys, warmups=warmups, balanced=balanced)


@pytest.mark.parametrize(
    ("factor", "target"),
    [
        (1, {"a": "0_2 0_3", "b": "0_0 0_1"}),
        (2, {"a": "0_1 0_2 0_3", "b": "0_0"}),
        (4, {"a": "0_0 0_1 0_2 0_3"}),
    ],
)
def test_workers_differ_by_at_most_the_balance_factor(factor, target):
    group = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1 0_2 0_3")

    outcome = decided(group, balance_factor=factor)

    assert outcome.target == target


def test_a_new_node_gets_a_new_index_whole_when_only_shards_count():
    outcome = decided(a_new_node_and_a_new_index(), subtopology_balance=0, balance_factor=9)

    assert outcome.target == {"a": "0_0 0_1 0_2", "b": "0_3 0_4 0_5", "c": "1_0 1_1 1_2"}


def test_every_node_gets_a_shard_of_a_new_index_when_only_indices_count():
    outcome = decided(a_new_node_and_a_new_index(), stateful_balance=0, balance_factor=9)

    assert outcome.target == {"a": "0_0 0_1 0_2 1_0", "b": "0_3 0_4 0_5 1_1", "c": "1_2"}


def test_a_clean_assignment_balances_both():
    """KIP-441's own example of a spread that it prefers."""
    outcome = decided(a_group("0_0 0_1 0_2 1_0 1_1 1_2", workers="a b c"))

    assert outcome.active == {"a": "0_0 1_0", "b": "0_1 1_1", "c": "0_2 1_2"}


def test_weights_may_ask_for_a_better_spread_of_a_subtopology():
    group = a_group("0_0 0_1 1_0 1_1 1_2", workers="a b").running(a="0_0 0_1 1_0", b="1_1 1_2")

    assert decided(group).target == {"a": "0_1 1_0", "b": "0_0 1_1 1_2"}
    assert decided(group, subtopology_balance=0).moves == []


def test_a_worker_with_more_threads_holds_more():
    group = a_group("0_0 0_1 0_2 0_3 0_4 0_5", workers="a b").threads(a=1, b=2)

    assert decided(group).active == {"a": "0_2 0_4", "b": "0_0 0_1 0_3 0_5"}


def test_tasks_without_state_fill_the_gaps():
    group = a_group("0_0 0_1 0_2", stateless="1_0", workers="a b").running(a="0_0 0_1 1_0", b="0_2")

    outcome = decided(group)

    assert outcome.active == {"a": "0_0 0_1", "b": "0_2 1_0"}
    assert outcome.moves == ["1_0 a to b BALANCE"]


def test_what_is_caught_up_at_the_destination_moves_first():
    group = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1 0_2 0_3").on_disk(b="0_2 0_3")

    outcome = decided(group)

    assert outcome.active == {"a": "0_0 0_1", "b": "0_2 0_3"}
    assert not outcome.follow_up


def test_what_nobody_runs_goes_to_the_most_of_its_state_even_to_a_heavier_worker():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0").on_disk(a="0_1")

    outcome = decided(group, balance_factor=2)

    assert outcome.active == {"a": "0_0 0_1"}


def test_standbys_stay_where_they_are():
    group = a_group("0_0 0_1", workers="a b c d").running(a="0_0", b="0_1").standing_by(d="0_0", c="0_1")

    outcome = decided(group, standbys=1)

    assert (outcome.standby, outcome.moves) == ({"c": "0_1", "d": "0_0"}, [])


WEIGHTS = st.sampled_from([0.1, 0.45, 0.55, 1.0, 3.0])
PARAMETERS = st.builds(BalancedParameters, st.integers(1, 4), WEIGHTS, WEIGHTS, WEIGHTS)


@for_every(groups(), configs(strategy=st.just("Balanced"), balanced=PARAMETERS))
def test_no_target_exceeds_the_balance_factor(group: GroupState, config: AssignmentConfig):
    """Neither in tasks with state, nor in all tasks where somebody has one without state to give."""
    workers = staying(group)
    if not workers:
        return

    active = decide(group, config).target.active

    stateful = {
        worker.process_id: sum(group.tasks[task].stateful for task in active[worker.process_id]) for worker in workers
    }
    everything = {worker.process_id: len(active[worker.process_id]) for worker in workers}
    givers = [worker for worker in workers if stateful[worker.process_id] < everything[worker.process_id]]
    for held, sources in ((stateful, workers), (everything, givers)):
        ahead = {worker.process_id: tasks_ahead(worker, held, workers) for worker in workers}
        for source in sources:
            assert ahead[source.process_id] - min(ahead.values()) <= config.balanced.balance_factor


def tasks_ahead(worker: Worker, held: dict[UUID, int], workers: list[Worker]) -> Fraction:
    """How many tasks a worker has beyond what its threads are worth."""
    share = Fraction(worker.capacity, sum(each.capacity for each in workers))
    return held[worker.process_id] - sum(held.values()) * share


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"balance_factor": 0}, "balanceFactor is 0; it must be at least 1"),
        ({"stateful_balance": -0.5}, "statefulBalance is -0.5; it must be a number from 0 on"),
        ({"stateless_balance": math.inf}, "statelessBalance is inf"),
        ({"subtopology_balance": math.nan}, "subtopologyBalance is nan"),
        ({"stateless_balance": 0, "subtopology_balance": 0}, "one of each pair must be above 0"),
    ],
)
def test_parameters_out_of_range_are_named(parameters, complaint):
    with pytest.raises(InvalidConfigError, match=complaint):
        BalancedParameters(**parameters)


def a_new_node_and_a_new_index() -> Group:
    tasks = "0_0 0_1 0_2 0_3 0_4 0_5 1_0 1_1 1_2"
    return a_group(tasks, workers="a b c").running(a="0_0 0_1 0_2", b="0_3 0_4 0_5")
