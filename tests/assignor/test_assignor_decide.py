"""What a decision says besides where tasks go: reasons, and mistakes in what it was given."""

from __future__ import annotations

from uuid import UUID

import pytest
from assignor_groups import a_group

from sluice_assignor import AssignmentConfig, GroupState, InvalidConfigError, Worker, decide


def test_a_hot_warm_up_takes_over_at_once():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_1")

    outcome = group.decide()

    assert outcome.active == {"a": "0_0", "b": "0_1"}
    assert outcome.moves == ["0_1 a to b HOT"]
    assert not outcome.follow_up


def test_a_warm_up_goes_on_while_it_is_cold():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(10_001, b="0_1")

    outcome = group.decide(lag=10_000)

    assert (outcome.active, outcome.warmup) == ({"a": "0_0 0_1"}, {"b": "0_1"})
    assert outcome.moves == ["0_1 a to b WARMING"]
    assert outcome.follow_up


def test_what_finds_no_slot_says_so():
    outcome = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1 0_2 0_3").decide(warmups=1)

    assert outcome.moves == ["0_1 a to b WARMING", "0_3 a to b WAITING_FOR_SLOT"]


def test_a_standby_takes_over_from_an_active_that_is_not_caught_up():
    """0_0 belongs on a, which restores it; b stands by and is ready."""
    group = a_group("0_0", workers="a b").restoring(50_000, a="0_0").standing_by(b="0_0")

    outcome = group.decide(standbys=1)

    assert (outcome.active, outcome.standby) == ({"b": "0_0"}, {"a": "0_0"})
    assert outcome.moves == ["0_0 a to b SWAPPED_WITH_STANDBY", "0_0 b to a WARMING"]


def test_new_tasks_and_standbys_are_told():
    outcome = a_group("0_0", workers="a b").decide(standbys=1)

    assert outcome.moves == ["0_0 - to a UNASSIGNED", "0_0 - to b STANDBY"]


def test_a_task_without_state_moves_for_balance():
    outcome = a_group(stateless="0_0 0_1", workers="a b").running(a="0_0 0_1").decide()

    assert outcome.moves == ["0_1 a to b BALANCE"]


def test_a_task_of_which_all_copies_are_as_far_behind_moves_for_balance():
    outcome = a_group("0_0 0_1", workers="a b").restoring(50_000, a="0_1").on_disk(50_000, b="0_1").decide()

    assert outcome.moves == ["0_0 - to a UNASSIGNED", "0_1 a to b BALANCE"]


def test_tasks_that_the_topology_no_longer_has_are_dropped():
    group = a_group("0_0", workers="a").running(a="0_0 7_7").standing_by(a="7_8")

    outcome = group.decide()

    assert (outcome.active, outcome.standby) == ({"a": "0_0"}, {})


def test_a_group_without_workers_has_no_assignment():
    decision = decide(a_group("0_0", workers="").state, AssignmentConfig())

    assert (decision.next.active, decision.moves, decision.follow_up) == ({}, (), False)


def test_a_group_without_tasks_leaves_its_workers_empty():
    outcome = a_group(workers="a b").decide(standbys=1)

    assert (outcome.active, outcome.standby, outcome.follow_up) == ({}, {}, False)


def test_an_unknown_strategy_is_named():
    with pytest.raises(InvalidConfigError, match=r"'Elastic' does not exist; use one of: Balanced, HighAvailability"):
        decide(GroupState({}, {}), AssignmentConfig(strategy="Elastic"))


def test_a_worker_without_threads_is_refused():
    with pytest.raises(ValueError, match="has 0 threads; it must have at least 1"):
        Worker(UUID(int=1), capacity=0)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("acceptable_recovery_lag", -1, "acceptableRecoveryLag is -1"),
        ("acceptable_recovery_lag", 2**63, "acceptableRecoveryLag is 9223372036854775808"),
        ("max_warmup_replicas", 0, "maxWarmupReplicas is 0; it must be at least 1"),
        ("num_standby_replicas", -1, "numStandbyReplicas is -1"),
    ],
)
def test_parameters_out_of_range_are_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        AssignmentConfig(**{field: value})
