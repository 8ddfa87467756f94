"""Which pods and volumes come and go, as a table of what is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_builders import a_group, a_member, a_pod, claims

from sluice_operator.nodes import Standing
from sluice_operator.observed import UNSCHEDULABLE, Claim, Membership, Part, Phase, Pod, Trouble
from sluice_operator.workers.actions import (
    CreateClaim,
    CreatePart,
    CreatePod,
    DeleteClaim,
    DeletePart,
    DeletePod,
    Drain,
    ReportGone,
    RestartPod,
    Undrain,
)
from sluice_operator.workers.plan import plan_deletion, plan_parts, plan_workers, report_deaths
from sluice_operator.workers.replacement import Wanted

MEMBER, DRAINING, DRAINED = Membership.MEMBER, Membership.DRAINING, Membership.DRAINED
ABSENT, UNKNOWN = Membership.ABSENT, Membership.UNKNOWN
SCALE_IN = "scale-in: it holds nothing"


def plan(
    desired: int, pods: Any, volumes: Any = None, *, deletes_volumes: bool = False, in_place: bool = False
) -> list[Any]:
    volumes = claims(*(pod.slot for pod in pods)) if volumes is None else volumes
    return list(plan_workers(Wanted(desired, "new", in_place, deletes_volumes), pods, volumes))


def test_first_workers_get_a_volume_and_a_pod_each():
    assert plan(2, []) == [CreateClaim(0), CreatePod(0), CreateClaim(1), CreatePod(1)]


def test_a_worker_that_comes_back_uses_its_volume_again():
    assert plan(2, [a_pod(0)], claims(0, 1)) == [CreatePod(1)]


def test_a_worker_waits_for_a_volume_of_its_name_to_be_gone():
    assert plan(1, [], [Claim(0, "claim-0", is_going=True)]) == []


def test_scaling_out_creates_pods_and_leaves_the_others_alone():
    assert plan(3, [a_pod(0), a_pod(1)]) == [CreateClaim(2), CreatePod(2)]


@pytest.mark.parametrize(
    ("membership", "phase", "expected"),
    [
        (MEMBER, Phase.RUNNING, [Drain(1, "scale-in")]),
        (DRAINING, Phase.RUNNING, []),
        (DRAINED, Phase.RUNNING, [DeletePod(1, "uid-1", SCALE_IN)]),
        (ABSENT, Phase.STARTING, [DeletePod(1, "uid-1", SCALE_IN, unless_joined=True)]),
        (UNKNOWN, Phase.RUNNING, []),
        (DRAINED, Phase.STOPPING, []),
        (ABSENT, Phase.ENDED, [DeletePod(1, "uid-1", "its pod has ended")]),
    ],
)
def test_scaling_in_drains_first_and_deletes_what_holds_nothing(
    membership: Membership, phase: Phase, expected: list[Any]
):
    assert plan(1, [a_pod(0), a_pod(1, membership, phase)]) == expected


def test_leaving_workers_go_all_at_once_highest_first():
    assert plan(1, [a_pod(0), a_pod(1), a_pod(2)]) == [Drain(2, "scale-in"), Drain(1, "scale-in")]


@pytest.mark.parametrize("membership", [DRAINING, DRAINED])
def test_a_drain_is_taken_back_until_the_pod_is_deleted(membership: Membership):
    assert plan(2, [a_pod(0), a_pod(1, membership)]) == [Undrain(1)]


def test_a_slot_whose_pod_is_still_going_waits():
    assert plan(2, [a_pod(0), a_pod(1, DRAINED, Phase.STOPPING)]) == []


def test_scaling_to_zero_does_not_wait_for_somebody_to_take_the_tasks():
    assert plan(0, [a_pod(0)]) == [DeletePod(0, "uid-0", "scaled to 0")]


def test_a_pod_that_has_ended_makes_room_for_the_next():
    assert plan(1, [a_pod(0, ABSENT, Phase.ENDED)]) == [DeletePod(0, "uid-0", "its pod has ended")]


@pytest.mark.parametrize(("deletes", "expected"), [(True, [DeleteClaim(1, "claim-1")]), (False, [])])
def test_the_volume_of_a_worker_that_left_is_kept_unless_told(deletes: bool, expected: list[Any]):
    assert plan(1, [a_pod(0)], claims(0, 1), deletes_volumes=deletes) == expected


def test_a_volume_in_use_is_never_deleted():
    assert plan(1, [a_pod(0), a_pod(1, DRAINING)], deletes_volumes=True) == []


def old(slot: int, membership: Membership = MEMBER, phase: Phase = Phase.RUNNING) -> Any:
    return a_pod(slot, membership, phase, revision="old")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([old(0), old(1)], [Drain(1, "its spec has changed")]),
        ([old(0), old(1, DRAINING)], []),
        ([old(0), old(1, DRAINED)], [DeletePod(1, "uid-1", "its spec has changed: it holds nothing")]),
        ([old(0), old(1, DRAINED, Phase.STOPPING)], []),
        ([old(0), a_pod(1, ABSENT, Phase.STARTING)], []),
        ([old(0), a_pod(1)], [Drain(0, "its spec has changed")]),
        ([a_pod(0), a_pod(1)], []),
    ],
)
def test_outdated_pods_are_replaced_one_at_a_time(pods: list[Any], expected: list[Any]):
    assert plan(2, pods) == expected


def test_an_outdated_pod_that_holds_nothing_is_replaced_at_once():
    assert plan(2, [a_pod(0, UNKNOWN), old(1, ABSENT, Phase.STARTING)]) == [
        DeletePod(1, "uid-1", "its spec has changed: it holds nothing", unless_joined=True)
    ]


def test_a_single_outdated_worker_is_helped_out_by_a_surge_worker():
    assert plan(1, [old(0)]) == [CreateClaim(1), CreatePod(1)]
    assert plan(1, [old(0), a_pod(1)]) == [Drain(0, "its spec has changed")]
    assert plan(1, [a_pod(0), a_pod(1)]) == [Drain(1, "scale-in")]


def test_a_single_outdated_worker_that_holds_nothing_needs_no_help():
    assert plan(1, [old(0, ABSENT)]) == [
        DeletePod(0, "uid-0", "its spec has changed: it holds nothing", unless_joined=True)
    ]


# Restarted in place.


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([old(0), old(1)], [RestartPod(1, "uid-1")]),
        ([old(0), old(1, DRAINING)], [RestartPod(1, "uid-1")]),
        ([old(0), a_pod(1, MEMBER, Phase.STOPPING)], [RestartPod(0, "uid-0")]),
        ([old(0), a_pod(1, ABSENT, Phase.STARTING)], []),
        ([old(0), a_pod(1)], [RestartPod(0, "uid-0")]),
        ([old(0, UNKNOWN), a_pod(1)], []),
        ([a_pod(0), a_pod(1)], []),
    ],
)
def test_pods_are_restarted_in_their_place_one_at_a_time(pods: list[Any], expected: list[Any]):
    assert plan(2, pods, in_place=True) == expected


def test_a_single_worker_that_is_restarted_gets_no_help():
    assert plan(1, [old(0)], in_place=True) == [RestartPod(0, "uid-0")]


def test_a_node_is_left_by_a_drain_whatever_the_rollout():
    assert plan(2, [a_pod(0), on(LEAVING, 1)], in_place=True) == [Drain(1, "node node-x is being emptied")]


# Nodes.

SOUND, LEAVING, LOST = Standing.SOUND, Standing.LEAVING, Standing.LOST
UNPLACED = Trouble(UNSCHEDULABLE, "0/4 nodes are available")


def on(standing: Standing, slot: int, membership: Membership = MEMBER, phase: Phase = Phase.RUNNING) -> Pod:
    return replace(a_pod(slot, membership, phase), node="node-x", standing=standing)


def unplaced(slot: int, standing: Standing) -> tuple[Pod, Claim]:
    """A pod that finds no node, and its claim, whose volume is on a node of this standing."""
    pod = replace(a_pod(slot, ABSENT, Phase.STARTING), trouble=UNPLACED)
    return pod, replace(claims(slot)[0], node="node-x", standing=standing)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([a_pod(0), on(LEAVING, 1)], [Drain(1, "node node-x is being emptied")]),
        ([on(LEAVING, 0), on(LEAVING, 1)], [Drain(1, "node node-x is being emptied")]),
        ([a_pod(0), on(LEAVING, 1, DRAINING)], []),
        (
            [a_pod(0), on(LEAVING, 1, DRAINED)],
            [DeletePod(1, "uid-1", "node node-x is being emptied: it holds nothing")],
        ),
        ([a_pod(0), on(SOUND, 1, DRAINING)], [Undrain(1)]),
        ([a_pod(0), on(LOST, 1)], [Drain(1, "node node-x does not answer")]),
        ([a_pod(0), replace(a_pod(1), is_asked_to_go=True)], [Drain(1, "its replacement is asked for")]),
    ],
)
def test_workers_leave_a_node_as_they_leave_for_a_rollout(pods: list[Any], expected: list[Any]):
    assert plan(2, pods) == expected


def test_a_worker_leaves_its_node_although_one_of_the_others_fails():
    pods = [a_pod(0), a_pod(1, ABSENT, Phase.RESTARTING), on(LEAVING, 2)]

    assert plan(3, pods) == [Drain(2, "node node-x is being emptied")]


def test_a_single_worker_on_a_cordoned_node_is_helped_out():
    assert plan(1, [on(LEAVING, 0)]) == [CreateClaim(1), CreatePod(1)]
    assert plan(1, [on(LEAVING, 0), a_pod(1)]) == [Drain(0, "node node-x is being emptied")]


@pytest.mark.parametrize(
    "away", [on(LOST, 1, ABSENT), on(LOST, 1, MEMBER, Phase.STOPPING), on(LOST, 1, DRAINED, Phase.STOPPING)]
)
def test_a_lost_worker_is_stood_in_for_and_its_pod_is_left_to_its_node(away: Pod):
    assert plan(2, [a_pod(0), away]) == [CreateClaim(2), CreatePod(2)]
    assert plan(2, [a_pod(0), away, a_pod(2)]) == []


def test_a_lost_stand_in_is_stood_in_for_too():
    assert plan(1, [on(LOST, 0, ABSENT), on(LOST, 1, ABSENT)]) == [CreateClaim(2), CreatePod(2)]


def test_a_stand_in_leaves_when_the_worker_is_back():
    assert plan(2, [a_pod(0), a_pod(1), a_pod(2)]) == [Drain(2, "scale-in")]


def test_a_slot_whose_volume_is_out_of_reach_is_stood_in_for_until_its_node_is_back():
    pod, claim = unplaced(1, LEAVING)
    assert plan(2, [a_pod(0), pod], [*claims(0), claim]) == [CreateClaim(2), CreatePod(2)]

    pod, claim = unplaced(1, SOUND)
    assert plan(2, [a_pod(0), pod, a_pod(2)], [*claims(0, 2), claim]) == [Drain(2, "scale-in")]


def test_a_pod_for_which_there_is_no_room_is_not_stood_in_for():
    pod, claim = unplaced(1, SOUND)

    assert plan(2, [a_pod(0), pod], [*claims(0), claim]) == []


# What the workers share.


def test_what_the_workers_share_is_made_and_kept():
    assert list(plan_parts({})) == [CreatePart(Part.SERVICE), CreatePart(Part.BUDGET)]
    assert list(plan_parts({Part.BUDGET: "uid"})) == [CreatePart(Part.SERVICE)]


any_pods = st.dictionaries(
    st.integers(0, 5),
    st.builds(
        Pod,
        slot=st.just(0),
        uid=st.just("uid"),
        phase=st.sampled_from(Phase),
        revision=st.sampled_from(["new", "old"]),
        membership=st.sampled_from(Membership),
        trouble=st.sampled_from([None, UNPLACED]),
        node=st.sampled_from([None, "node-x"]),
        standing=st.sampled_from(Standing),
        is_asked_to_go=st.booleans(),
    ),
).map(lambda pods: [replace(pod, slot=slot, uid=f"uid-{slot}") for slot, pod in pods.items()])


@given(desired=st.integers(1, 4), pods=any_pods, in_place=st.booleans(), standing=st.sampled_from(Standing))
def test_no_pod_that_may_hold_tasks_is_ever_deleted_but_one_that_is_restarted(
    desired: int, pods: list[Pod], in_place: bool, standing: Standing
):
    volumes = [replace(claim, standing=standing) for claim in claims(*(pod.slot for pod in pods))]
    actions = plan(desired, pods, volumes, in_place=in_place)
    by_slot = {pod.slot: pod for pod in pods}
    deleted = [by_slot[action.slot] for action in actions if isinstance(action, DeletePod)]
    restarted = [by_slot[action.slot] for action in actions if isinstance(action, RestartPod)]

    assert all(pod.membership in (DRAINED, ABSENT) or pod.phase is Phase.ENDED for pod in deleted)
    unless_joined = {action.slot for action in actions if isinstance(action, DeletePod) and action.unless_joined}
    assert unless_joined == {pod.slot for pod in deleted if pod.membership is ABSENT and pod.phase is not Phase.ENDED}
    assert len(restarted) <= in_place
    assert all(pod.standing is SOUND and pod.revision == "old" for pod in restarted)


@given(
    desired=st.integers(0, 4),
    pods=st.dictionaries(st.integers(0, 5), st.tuples(st.sampled_from(Membership), st.sampled_from(Phase))),
)
def test_a_slot_never_has_two_pods(desired: int, pods: dict[int, Any]):
    seen = [a_pod(slot, membership, phase) for slot, (membership, phase) in pods.items()]

    assert not {action.slot for action in plan(desired, seen) if isinstance(action, CreatePod)} & pods.keys()


def test_the_end_takes_everything():
    pods = [a_pod(0), a_pod(1, MEMBER, Phase.STOPPING)]

    assert list(plan_deletion(pods, claims(0, 1), {Part.SERVICE: "service-uid"}, deletes_volumes=True)) == [
        DeletePod(0, "uid-0", "the StreamsApp is deleted"), DeletePart(Part.SERVICE, "service-uid"),
        DeleteClaim(0, "claim-0"), DeleteClaim(1, "claim-1"),
    ]  # fmt: skip


def test_volumes_that_are_to_be_retained_outlive_the_end():
    assert list(plan_deletion([], claims(0), {}, deletes_volumes=False)) == []


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], [ReportGone("worker-0", "uid-0")]),
        ([a_pod(0, phase=Phase.RESTARTING)], [ReportGone("worker-0", "uid-0")]),
        ([a_pod(0, phase=Phase.ENDED)], [ReportGone("worker-0", "uid-0")]),
        ([a_pod(0)], []),
        ([a_pod(0, phase=Phase.STARTING)], []),
        ([a_pod(0, phase=Phase.STOPPING)], []),
    ],
)
def test_only_a_death_that_was_seen_is_reported(pods: list[Any], expected: list[Any]):
    assert list(report_deaths(a_group(members=[a_member(0)]), pods)) == expected


def test_a_death_is_reported_once():
    assert report_deaths(a_group(members=[a_member(0, state="fencing")]), []) == ()
