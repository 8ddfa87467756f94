"""Incremental: learners, and the band of so many percent around a worker's share."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest
from assignor_groups import Group, Outcome, a_group
from assignor_inputs import configs, for_every, groups, staying
from hypothesis import strategies as st

from sluice_assignor import AssignmentConfig, GroupState, IncrementalParameters, InvalidConfigError, decide

EIGHTY = [f"0_{partition}" for partition in range(80)]
"""The group of the draft: 80 tasks, and instances with capacities of 5, 10, 10 and 15."""


def the_drafts_group(*counts: int) -> Group:
    """Its instances running so many of the tasks; those that are left run nowhere."""
    group = a_group(" ".join(EIGHTY), workers="a b c d").threads(a=5, b=10, c=10, d=15)
    rest = iter(EIGHTY)
    for name, count in zip("abcd", counts, strict=False):
        group = group.running(**{name: " ".join(next(rest) for _ in range(count))})
    return group


def decided(group: Group, percentage: int = 20, *, warmups: int = 2, standbys: int = 0) -> Outcome:
    incremental = IncrementalParameters(percentage)
    return group.decide(strategy="Incremental", warmups=warmups, standbys=standbys, incremental=incremental)


def counts(held: dict[str, str]) -> dict[str, int]:
    return {name: len(tasks.split()) for name, tasks in held.items()}


def test_the_perfect_balance_is_by_capacity():
    assert counts(decided(the_drafts_group()).active) == {"a": 10, "b": 20, "c": 20, "d": 30}


def test_within_twenty_percent_of_their_share_workers_are_stable():
    outcome = decided(the_drafts_group(12, 18, 23, 27), percentage=20)

    assert (outcome.moves, outcome.follow_up) == ([], False)


def test_a_smaller_percentage_is_stricter():
    outcome = decided(the_drafts_group(12, 18, 23, 27), percentage=10)

    assert counts(outcome.target) == {"a": 11, "b": 19, "c": 22, "d": 28}
    assert outcome.moves == ["0_0 a to b WARMING", "0_30 c to d WARMING"]


def test_without_imbalance_every_worker_holds_its_share():
    outcome = decided(the_drafts_group(12, 18, 23, 27), percentage=0)

    assert counts(outcome.target) == {"a": 10, "b": 20, "c": 20, "d": 30}


def test_a_worker_that_joins_learns_from_the_heaviest():
    group = a_group("0_0 0_1 0_2 0_3 0_4", workers="a b c").running(a="0_0 0_1 0_2", b="0_3 0_4")

    outcome = decided(group)

    assert outcome.active == {"a": "0_0 0_1 0_2", "b": "0_3 0_4"}
    assert outcome.warmup == {"c": "0_0"}
    assert outcome.moves == ["0_0 a to c WARMING"]


def test_learners_that_have_begun_go_on_unchanged():
    group = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1 0_2 0_3").warming(60_000, b="0_3")

    outcome = decided(group, warmups=1)

    assert outcome.warmup == {"b": "0_3"}
    assert outcome.moves == ["0_0 a to b WAITING_FOR_SLOT", "0_3 a to b WARMING"]


def test_a_ready_learner_becomes_the_active():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_1")

    outcome = decided(group)

    assert outcome.active == {"a": "0_0", "b": "0_1"}
    assert outcome.moves == ["0_1 a to b HOT"]


def test_a_learner_that_balance_no_longer_needs_is_dropped():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0", b="0_1").warming(0, b="0_0")

    outcome = decided(group, percentage=0)

    assert (outcome.active, outcome.warmup) == ({"a": "0_0", "b": "0_1"}, {})


def test_an_unready_learner_runs_what_has_lost_its_owner():
    group = a_group("0_0 0_1", workers="a b").running(a="0_1").warming(60_000, b="0_0")

    assert decided(group).active == {"a": "0_1", "b": "0_0"}


def test_a_standby_runs_what_has_lost_its_owner():
    group = a_group("0_0 0_1", workers="a b").running(a="0_1").standing_by(b="0_0")

    outcome = decided(group)

    assert outcome.active == {"a": "0_1", "b": "0_0"}
    assert not outcome.follow_up


def test_the_previous_owner_becomes_the_standby_after_the_transfer():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_1").standing_by(b="0_0")

    outcome = decided(group.joined_by("c"), standbys=1)

    assert outcome.active == {"a": "0_0", "b": "0_1"}
    assert outcome.standby == {"a": "0_1", "b": "0_0"}


def test_tasks_without_state_are_balanced_by_themselves():
    group = a_group("0_0 0_1", stateless="1_0 1_1", workers="a b").running(a="0_0 0_1", b="1_0 1_1")

    outcome = decided(group)

    assert outcome.target == {"a": "0_1 1_0", "b": "0_0 1_1"}
    assert outcome.active == {"a": "0_0 0_1 1_0", "b": "1_1"}


PARAMETERS = st.builds(IncrementalParameters, st.sampled_from([0, 10, 20, 50, 100]))


@for_every(groups(), configs(strategy=st.just("Incremental"), incremental=PARAMETERS))
def test_every_target_is_within_the_band_of_each_worker(group: GroupState, config: AssignmentConfig):
    workers = staying(group)
    target = decide(group, config).target if workers else None
    percentage = config.incremental.imbalance_percentage

    for stateful in (True, False):
        kind = {id_ for id_, task in group.tasks.items() if task.stateful is stateful}
        for worker in workers:
            share = Fraction(len(kind) * worker.capacity, sum(each.capacity for each in workers))
            fewest = min(floor(share), ceil(share * (100 - percentage) / 100))
            most = max(ceil(share), floor(share * (100 + percentage) / 100))
            assert fewest <= len(target.active[worker.process_id] & kind) <= most


@pytest.mark.parametrize("percentage", [-1, 101])
def test_a_percentage_out_of_range_is_named(percentage):
    with pytest.raises(InvalidConfigError, match=f"imbalancePercentage is {percentage}; it must be from 0"):
        IncrementalParameters(percentage)
