"""Decision tables of the supervisor: desired number and what is seen in, actions out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_cli.local.membership import Membership
from sluice_cli.local.plan import (
    Action,
    Drain,
    Forget,
    ObservedWorker,
    Phase,
    Start,
    Stop,
    Undrain,
    WaitUntil,
    plan_workers,
)

RUNNING, STOPPING, DEAD = Phase.RUNNING, Phase.STOPPING, Phase.DEAD
UNKNOWN, ABSENT, MEMBER, DRAINING, DRAINED = (
    Membership.UNKNOWN, Membership.ABSENT, Membership.MEMBER, Membership.DRAINING, Membership.DRAINED,
)  # fmt: skip
NOW = 100.0


@pytest.mark.parametrize(
    ("phase", "membership", "action"),
    [
        (RUNNING, UNKNOWN, None),
        (RUNNING, ABSENT, None),
        (RUNNING, MEMBER, None),
        (RUNNING, DRAINING, Undrain(0)),
        (RUNNING, DRAINED, Undrain(0)),
        (STOPPING, DRAINED, None),
        (STOPPING, ABSENT, None),
        (DEAD, UNKNOWN, Start(0)),
        (DEAD, MEMBER, Start(0)),
    ],
)
def test_a_wanted_worker(phase: Phase, membership: Membership, action: Action | None):
    assert plan_workers(1, [ObservedWorker(0, phase, membership)], NOW) == ((action,) if action else ())


@pytest.mark.parametrize(
    ("phase", "membership", "action"),
    [
        (RUNNING, UNKNOWN, None),
        (RUNNING, ABSENT, Drain(1)),
        (RUNNING, MEMBER, Drain(1)),
        (RUNNING, DRAINING, None),
        (RUNNING, DRAINED, Stop(1)),
        (STOPPING, DRAINED, None),
        (DEAD, UNKNOWN, Forget(1)),
    ],
)
def test_a_leaving_worker(phase: Phase, membership: Membership, action: Action | None):
    stays = ObservedWorker(0, RUNNING, MEMBER)

    assert plan_workers(1, [stays, ObservedWorker(1, phase, membership)], NOW) == ((action,) if action else ())


def test_a_leaving_worker_that_never_joined_ends_once_it_would_be_given_nothing():
    stays, leaves = ObservedWorker(0, RUNNING, MEMBER), ObservedWorker(1, RUNNING, ABSENT, is_shut_out=True)

    assert plan_workers(1, [stays, leaves], NOW) == (Stop(1),)
    assert plan_workers(2, [stays, leaves], NOW) == (Undrain(1),)


def test_a_first_start_fills_every_slot_from_the_lowest():
    assert plan_workers(3, [], NOW) == (Start(0), Start(1), Start(2))


def test_a_dead_worker_waits_for_its_pause():
    dead = ObservedWorker(0, DEAD, restart_at=NOW + 4)

    assert plan_workers(1, [dead], NOW) == (WaitUntil(NOW + 4),)
    assert plan_workers(1, [dead], NOW + 4) == (Start(0),)


def test_a_scale_in_drains_all_leaving_workers_highest_first():
    four = [ObservedWorker(slot, RUNNING, MEMBER) for slot in range(4)]

    assert plan_workers(2, four, NOW) == (Drain(3), Drain(2))


def test_a_leaving_worker_stops_without_waiting_for_another_that_still_drains():
    three = [
        ObservedWorker(0, RUNNING, MEMBER),
        ObservedWorker(1, RUNNING, DRAINED),
        ObservedWorker(2, RUNNING, DRAINING),
    ]

    assert plan_workers(1, three, NOW) == (Stop(1),)


def test_scaling_out_again_takes_a_drain_back():
    three = [
        ObservedWorker(0, RUNNING, MEMBER),
        ObservedWorker(1, RUNNING, MEMBER),
        ObservedWorker(2, RUNNING, DRAINING),
    ]

    assert plan_workers(3, three, NOW) == (Undrain(2),)


def test_scaling_to_nothing_doesnt_drain_since_nobody_could_take_the_tasks():
    two = [ObservedWorker(0, RUNNING, MEMBER), ObservedWorker(1, RUNNING, DRAINING)]

    assert plan_workers(0, two, NOW) == (Stop(1), Stop(0))


observed = st.lists(
    st.builds(
        ObservedWorker,
        st.integers(0, 6),
        st.sampled_from(Phase),
        st.sampled_from(Membership),
        st.sampled_from([0.0, NOW - 1, NOW + 1]),
        st.booleans(),
    ),
    unique_by=lambda worker: worker.slot,
)


@given(st.integers(0, 6), observed)
def test_rules_that_hold_for_all_observations(desired: int, workers: list[ObservedWorker]):
    by_slot = {worker.slot: worker for worker in workers}
    actions = plan_workers(desired, workers, NOW)
    slots = [action.slot for action in actions if not isinstance(action, WaitUntil)]

    assert len(slots) == len(set(slots)), "one action a slot"
    for action in actions:
        match action:
            case Start(slot):
                assert slot < desired
                assert slot not in by_slot or by_slot[slot].phase is DEAD
            case Stop(slot):
                assert slot >= desired
                seen = by_slot[slot]
                is_out = seen.membership is ABSENT and seen.is_shut_out
                assert desired == 0 or seen.membership is DRAINED or is_out, "nobody leaves with tasks"
            case Drain(slot):
                assert 0 < desired <= slot
            case Undrain(slot):
                assert slot < desired
            case Forget(slot):
                assert slot >= desired
                assert by_slot[slot].phase is DEAD
