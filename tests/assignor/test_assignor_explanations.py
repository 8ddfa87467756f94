"""Every move carries its reason as data, and can be told in a sentence that fits an event."""

from __future__ import annotations

import pytest
from assignor_groups import Outcome, a_group
from assignor_inputs import configs, for_every, groups

from sluice_assignor import AssignmentConfig, GroupState, MoveReason, decide, explain

EVENT_MESSAGE = 1024
"""As many characters as Kubernetes takes."""


def sentences(outcome: Outcome) -> list[str]:
    return [explain(move, outcome.names) for move in outcome.decision.moves]


@pytest.mark.parametrize("strategy", ["HighAvailability", "Optimal"])
def test_what_warms_up_and_what_waits_its_turn_is_told(strategy: str):
    group = (
        a_group("0_0 0_1 0_2 0_3 0_4 0_5", workers="a b").running(a="0_0 0_1 0_2 0_3 0_4 0_5").warming(40_000, b="0_5")
    )

    told = sentences(group.decide(strategy=strategy, warmups=1))

    assert len(told) == 3
    assert sum("warms up on b" in sentence for sentence in told) == 1
    assert [sentence.split(" is ")[1].split(" to ")[0] for sentence in told if "in line" in sentence] == [
        "number 1 in line",
        "number 2 in line",
    ]
    assert all(sentence.endswith("until then a has it (a runs 6 tasks more than b)") for sentence in told)


def test_offsets_that_are_left_are_told():
    outcome = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(40_000, b="0_1").decide()

    assert sentences(outcome) == [
        "0_1 warms up on b, 40,000 offsets left; until then a has it (a runs 2 tasks more than b)"
    ]


def test_a_hot_copy_that_takes_over_is_told():
    outcome = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_1").decide()

    assert sentences(outcome) == ["0_1 goes from a to b, which has caught up (a runs 2 tasks more than b)"]


def test_a_swap_with_a_standby_is_told():
    outcome = a_group("0_0", workers="a b").restoring(50_000, a="0_0").standing_by(b="0_0").decide(standbys=1)

    assert sentences(outcome) == [
        "0_0 goes from a to b, its caught-up standby (a runs 1 task more than b)",
        "0_0 warms up on a, 50,000 offsets left; until then b has it",
    ]


def test_new_tasks_and_standbys_are_told():
    outcome = a_group("0_0", workers="a b").decide(standbys=1)

    assert sentences(outcome) == [
        "0_0 goes to a: nobody held it",
        "b becomes a standby of 0_0, 100,000 offsets left",
    ]


def test_a_task_without_state_moves_because_of_balance():
    outcome = a_group(stateless="0_0 0_1", workers="a b").running(a="0_0 0_1").decide()

    assert sentences(outcome) == ["0_1 goes from a to b (a runs 2 tasks more than b)"]


def test_a_draining_worker_is_told_as_the_reason():
    outcome = a_group(stateless="0_0", workers="a b").running(b="0_0").draining("b").decide()

    assert sentences(outcome) == ["0_0 goes from b to a: b is draining"]


@for_every(groups(), configs())
def test_every_move_can_be_told_in_an_event(group: GroupState, config: AssignmentConfig):
    moves = decide(group, config).moves

    assert all(len(explain(move, {})) <= EVENT_MESSAGE for move in moves)
    waiting = sorted(move.in_line for move in moves if move.reason is MoveReason.WAITING_FOR_SLOT)
    assert waiting == list(range(1, len(waiting) + 1))
