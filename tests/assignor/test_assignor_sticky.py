"""Sticky: the scenarios with which Kafka tests its StickyAssignor, as far as it looks at neither racks nor tags.

Where several answers are as good, Kafka's tests count, and so do these.
"""

from __future__ import annotations

from collections import Counter

import pytest
from assignor_groups import END, Group, Outcome, a_group, is_balanced
from assignor_inputs import configs, for_every, groups, staying
from hypothesis import strategies as st

from sluice_assignor import AssignmentConfig, GroupState, decide
from sluice_assignor.model import UNKNOWN_OFFSET_SUM

TWELVE = "0_0 0_1 0_2 0_3 1_0 1_1 1_2 1_3 2_0 2_1 2_2 2_3"


def tasks(count: int) -> str:
    return " ".join(f"0_{partition}" for partition in range(count))


def decided(group: Group, *, standbys: int = 0) -> Outcome:
    return group.decide(strategy="Sticky", standbys=standbys)


def counts(outcome: Outcome, *roles: str) -> dict[str, int]:
    held: Counter[str] = Counter(dict.fromkeys(outcome.names.values(), 0))
    for role in roles:
        held.update({name: len(given.split()) for name, given in getattr(outcome, role).items()})
    return dict(held)


@pytest.mark.parametrize(
    ("stateful", "threads", "expected"),
    [
        (tasks(3), {"P1": 1, "P2": 1, "P3": 1}, {"P1": 1, "P2": 1, "P3": 1}),
        (tasks(3), {"P1": 1, "P2": 2}, {"P1": 1, "P2": 2}),
        (tasks(3), {"P1": 3, "P2": 1, "P3": 1}, {"P1": 1, "P2": 1, "P3": 1}),
        (TWELVE, {"P1": 2, "P2": 1}, {"P1": 8, "P2": 4}),
        (tasks(16), dict.fromkeys(["P1", "P2", "P3", "P4"], 4), dict.fromkeys(["P1", "P2", "P3", "P4"], 4)),
    ],
)
def test_a_fresh_group_is_balanced_by_capacity(stateful, threads, expected):
    outcome = decided(a_group(stateful, workers=" ".join(threads)).threads(**threads))

    assert counts(outcome, "active") == expected


@pytest.mark.parametrize(
    ("running", "threads", "expected"),
    [
        ({"P1": "0_0 0_2", "P2": "0_1"}, {"P3": 1}, {"P1": "0_0", "P2": "0_1", "P3": "0_2"}),
        ({"P1": "0_0", "P2": "0_2", "P3": "0_1"}, {"P4": 1, "P5": 1}, {"P1": "0_0", "P2": "0_2", "P3": "0_1"}),
        (
            {"P1": "0_0 0_1 0_2", "P2": "0_3 0_4 0_5"},
            {"P3": 1},
            {"P1": "0_0 0_1", "P2": "0_3 0_4", "P3": "0_2 0_5"},
        ),
        ({"P1": "0_0 0_1 0_2 0_3"}, {"P2": 1, "P3": 1}, {"P1": "0_0 0_1", "P2": "0_2", "P3": "0_3"}),
        ({"P1": "0_0 0_1 0_2 0_3"}, {"P2": 1, "P3": 1, "P4": 1}, {"P1": "0_0", "P2": "0_1", "P3": "0_2", "P4": "0_3"}),
        ({"P1": "0_0 0_2 0_3"}, {"P2": 2}, {"P1": "0_0", "P2": "0_2 0_3"}),
        ({"P1": "0_0 0_2", "P2": "0_1 0_3"}, {"P3": 1}, {"P1": "0_0 0_2", "P2": "0_1", "P3": "0_3"}),
    ],
)
def test_no_more_tasks_move_to_newcomers_than_balance_asks_for(running, threads, expected):
    stateful = " ".join(sorted(" ".join(running.values()).split()))
    group = a_group(stateful, workers=" ".join([*running, *threads])).running(**running).threads(**threads)

    assert decided(group).target == expected


def test_no_task_moves_while_every_task_has_a_thread_to_itself():
    group = a_group(tasks(4), workers="P1 P2").running(P1=tasks(4)).threads(P1=4, P2=4)

    assert decided(group).moves == []


def test_seven_tasks_split_into_three_and_four():
    outcome = decided(a_group(tasks(7), workers="P1 P2").running(P1=tasks(7)))

    assert outcome.target == {"P1": "0_0 0_1 0_2 0_3", "P2": "0_4 0_5 0_6"}


def test_previous_standbys_become_active():
    group = a_group(tasks(3), workers="P1 P2 P3").standing_by(P1="0_2", P2="0_1", P3="0_0")

    assert decided(group).active == {"P1": "0_2", "P2": "0_1", "P3": "0_0"}


def test_of_several_previous_standbys_the_one_with_room_becomes_active():
    group = a_group(tasks(3), workers="P1 P2").threads(P2=2).running(P1="0_0", P2="0_2").standing_by(P1="0_1", P2="0_1")

    assert decided(group).active == {"P1": "0_0", "P2": "0_1 0_2"}


def test_a_newcomer_takes_no_more_than_its_share_from_standbys_and_owners():
    group = a_group(tasks(7), workers="P1 P2 P3").running(P1="0_0 0_1 0_2 0_6").standing_by(P2="0_3 0_4 0_5")

    outcome = decided(group)

    assert outcome.target == {"P1": "0_0 0_1 0_2", "P2": "0_3 0_4", "P3": "0_5 0_6"}


def test_new_tasks_go_to_a_new_worker():
    group = a_group(tasks(6), workers="P1 P2 P3").running(P1="0_0 0_1", P2="0_2 0_3")

    assert decided(group).active == {"P1": "0_0 0_1", "P2": "0_2 0_3", "P3": "0_4 0_5"}


def test_a_bounced_worker_takes_up_what_it_stood_by_for():
    group = (
        a_group(TWELVE, workers="P1 P2 P3 P4")
        .running(P1="0_1 1_2 1_3", P2="0_0 1_1 2_2")
        .standing_by(P3="2_0 2_1 2_3", P4="0_2 0_3 1_0")
    )

    outcome = decided(group)

    assert outcome.active == {"P1": "0_1 1_2 1_3", "P2": "0_0 1_1 2_2", "P3": "2_0 2_1 2_3", "P4": "0_2 0_3 1_0"}


def test_a_worker_with_standbys_of_everything_takes_what_nobody_runs():
    group = (
        a_group(TWELVE, workers="P1 P2 P3 P4")
        .running(P1="0_1 1_2 1_3", P2="0_0 1_1 2_2", P3="2_0 2_1 2_3")
        .standing_by(P4=TWELVE)
    )

    assert decided(group).active["P4"] == "0_2 0_3 1_0"


@pytest.mark.parametrize(
    ("stateful", "workers", "standbys", "expected"),
    [
        (tasks(3), "P1 P2 P3", 2, {"P1": "0_1 0_2", "P2": "0_0 0_2", "P3": "0_0 0_1"}),
        (tasks(3), "P1", 1, {}),
        (tasks(3), "P1 P2 P3 P4 P5 P6", 1, {"P4": "0_0", "P5": "0_1", "P6": "0_2"}),
        ("0_0 0_1 1_0 1_1", "P1 P2", 1, {"P1": "0_1 1_1", "P2": "0_0 1_0"}),
    ],
)
def test_standbys_spread_over_workers_without_a_copy(stateful, workers, standbys, expected):
    assert decided(a_group(stateful, workers=workers), standbys=standbys).standby == expected


def test_standbys_and_actives_of_a_scale_out_are_balanced():
    group = (
        a_group(tasks(4), workers="P1 P2 P3")
        .running(P1="0_0 0_1", P2="0_2 0_3")
        .standing_by(P1="0_2 0_3", P2="0_0 0_1")
    )

    outcome = decided(group, standbys=1)
    settled = decided(group.once_hot(outcome), standbys=1)

    assert set(counts(settled, "active").values()) <= {1, 2}
    assert max(counts(settled, "active", "standby").values()) <= 3
    assert not decided(group.once_hot(outcome).once_hot(settled), standbys=1).follow_up


def test_tasks_without_state_are_given_up_first():
    group = a_group("0_0 0_1", stateless="1_0 1_1", workers="a b").running(a="0_0 0_1 1_0 1_1")

    outcome = decided(group)

    assert outcome.active == {"a": "0_0 0_1", "b": "1_0 1_1"}
    assert not outcome.follow_up


def test_a_task_with_a_caught_up_copy_elsewhere_is_given_up_before_others():
    group = a_group(tasks(4), workers="a b").running(a=tasks(4)).standing_by(b="0_0 0_1")

    outcome = decided(group)

    assert outcome.active == {"a": "0_2 0_3", "b": "0_0 0_1"}
    assert not outcome.follow_up


def test_a_copy_whose_position_is_not_known_is_worth_nothing():
    group = a_group("0_0", workers="a b").on_disk(END - UNKNOWN_OFFSET_SUM, a="0_0").on_disk(60_000, b="0_0")

    assert decided(group).target == {"b": "0_0"}


def test_a_warm_up_that_has_begun_is_not_dropped_for_a_fresh_one():
    group = a_group(tasks(4), workers="a b").running(a=tasks(4)).warming(60_000, b="0_1")

    outcome = group.decide(strategy="Sticky", warmups=1)

    assert outcome.warmup == {"b": "0_1"}


def test_racks_and_tags_that_are_asked_for_are_reported_as_left_out():
    group = a_group(tasks(2), workers="a b")

    outcome = group.decide(strategy="Sticky", rack_aware_tags=("zone",))

    assert [(left_out.wish.name, left_out.why) for left_out in outcome.decision.degraded] == [
        ("TAGS", "Sticky looks at copies and capacity only; HighAvailability and Optimal look at more")
    ]


@for_every(groups(), configs(strategy=st.just("Sticky")))
def test_every_target_is_balanced_over_threads(group: GroupState, config: AssignmentConfig):
    if staying(group):
        assert is_balanced(group, decide(group, config).target.active)
