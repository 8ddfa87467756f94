"""What is said of an application, as a table of what is seen; when conditions change, and what that is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import (
    NOW,
    a_group,
    a_member,
    a_pod,
    active,
    an_app,
    observed,
    warmup,
)

from sluice_operator.conditions import JUDGES, conditions
from sluice_operator.nodes import Standing
from sluice_operator.observed import UNSCHEDULABLE, App, Membership, Observed, Phase, Problem, Trouble
from sluice_operator.reasons import Reason
from sluice_operator.spec.model import Condition
from sluice_operator.status import Event, events_of, status_of
from sluice_protocol.heartbeat import FailedTask, StatusCode
from sluice_protocol.ids import TaskId
from sluice_protocol.wire import to_json

PODS = (a_pod(0), a_pod(1))
MEMBERS = (a_member(0), a_member(1))
FAILED = FailedTask(TaskId(0, 1), "TransformationFailed", "13 brings bad luck", "input", 1, 42)


def running(**changes: Any) -> Observed:
    return observed(pods=PODS, group=a_group(active(0, 0), active(1, 1), members=MEMBERS, **changes))


def failing(trouble: Trouble) -> Observed:
    return observed(pods=[a_pod(0, Membership.ABSENT, Phase.RESTARTING, trouble=trouble)], group=a_group())


def said(seen: Observed, kind: str) -> tuple[str, str]:
    condition = next(each for each in conditions(seen) if each.type == kind)
    return condition.status, condition.reason


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (running(), ("True", "AllTasksRunning")),
        (observed(), ("False", "NotAsked")),
        (replace(running(), reaches_kafka=False), ("False", "NotAnsweredYet")),
        (running(code=StatusCode.KAFKA_UNREACHABLE), ("False", "KafkaUnreachable")),
        (running(code=StatusCode.KAFKA_REFUSED), ("False", "KafkaRefused")),
        (running(code=StatusCode.KAFKA_CLUSTER_CHANGED), ("False", "KafkaClusterChanged")),
        (running(code=StatusCode.MISSING_SOURCE_TOPICS), ("False", "MissingSourceTopics")),
        (running(code=StatusCode.INCORRECTLY_PARTITIONED_TOPICS), ("False", "IncorrectlyPartitionedTopics")),
        (replace(running(), app=an_app(0)), ("False", "ScaledToZero")),
        (replace(running(), app=an_app(is_going=True)), ("False", "Deleting")),
        (
            replace(running(), app=an_app(problem=Problem(Reason.APPLICATION_ID_TAKEN, "…"))),
            ("False", "ApplicationIdTaken"),
        ),
        (failing(Trouble("ErrImagePull", "no such image")), ("False", "ImageNotPulled")),
        (failing(Trouble("CrashLoopBackOff", "exit code 1; it can't be divided", 1)), ("False", "WorkerCrashing")),
        (failing(Trouble("Error", "exit code 3; refused this worker (HTTP 400)", 3)), ("False", "WorkerNotAdmitted")),
        (failing(Trouble(UNSCHEDULABLE, "0/4 nodes are available")), ("False", "WorkerUnschedulable")),
        (failing(Trouble("CreateContainerConfigError", "no such secret")), ("False", "WorkersFailing")),
        (observed(pods=PODS, group=a_group(active(0, 0), active(1, 1, "waiting"))), ("False", "TasksNotRunning")),
        (observed(pods=PODS, group=a_group(active(0, 0, "releasing"))), ("True", "AllTasksRunning")),
        (observed(group=a_group()), ("False", "NoWorkerYet")),
        (observed(pods=PODS, group=a_group(active(0, 0, "restoring"))), ("False", "TasksNotRunning")),
        (observed(pods=PODS, group=a_group(replace(active(0, 0, "restoring"), lag=10))), ("True", "AllTasksRunning")),
        (replace(observed(group=a_group()), refusal="exceeded quota"), ("False", "PodsRefused")),
        (
            observed(pods=PODS, group=a_group(active(1, 0, "failed"), members=[a_member(0, failed=(FAILED,))])),
            ("False", "TasksFailed"),
        ),
    ],
)
def test_ready_says_what_stands_in_its_way(seen: Observed, expected: tuple[str, str]):
    assert said(seen, "Ready") == expected


def begun(**changes: Any) -> Observed:
    """What the coordinator of a new leader knows before Kafka and the workers have told it anything."""
    unheard = replace(a_group(state="adopting"), topology=None)
    return replace(observed(pods=PODS, group=unheard), **{"reaches_kafka": False, **changes})


def after(known: tuple[Condition, ...]) -> App:
    """An application of which that was said last."""
    return an_app(status={"conditions": to_json(known)})


def test_what_was_true_stays_true_until_a_new_coordinator_has_heard_of_it():
    known = conditions(running())

    now = conditions(begun(app=after(known)))

    assert [was.type for was, is_now in zip(known, now, strict=True) if was != is_now] == ["Rebalancing"]
    assert [event.reason for event in events_of(known, now)] == ["Adopting"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (begun(group=a_group(state="adopting", code=StatusCode.KAFKA_UNREACHABLE)), ("False", "KafkaUnreachable")),
        (begun(refusal="exceeded quota", reaches_kafka=True), ("False", "PodsRefused")),
        (replace(begun(), group=a_group(state="empty"), reaches_kafka=True), ("False", "NoWorkerYet")),
    ],
)
def test_what_a_new_coordinator_has_heard_is_said_at_once(seen: Observed, expected: tuple[str, str]):
    assert said(replace(seen, app=after(conditions(running()))), "Ready") == expected


@pytest.mark.parametrize(
    ("kind", "seen", "expected"),
    [
        ("KafkaReachable", running(), ("True", "KafkaAnswers")),
        ("KafkaReachable", observed(), ("Unknown", "NotAsked")),
        ("TopologyValid", running(), ("True", "TopicsFit")),
        ("TopologyValid", observed(), ("Unknown", "NoWorkerYet")),
        ("Rebalancing", running(), ("False", "TasksInPlace")),
        ("Rebalancing", running(state="reconciling"), ("True", "TasksMoving")),
        ("Rebalancing", running(state="adopting"), ("True", "Adopting")),
        ("Rebalancing", observed(group=a_group(state="empty")), ("False", "NoTasks")),
        ("WarmingUp", running(), ("False", "NoWarmups")),
        ("WarmingUp", observed(group=a_group(warmup(1, 1, 5, 5))), ("True", "Restoring")),
        ("Draining", running(), ("False", "NobodyLeaves")),
        ("Draining", observed(pods=[a_pod(1, Membership.DRAINING)]), ("True", "HandingOver")),
        ("Draining", observed(pods=[a_pod(1, Membership.DRAINED, Phase.STOPPING)]), ("False", "NobodyLeaves")),
        ("Draining", replace(running(), knows_nodes=False), ("False", "NodesNotReadable")),
        ("Paused", observed(an_app(paused=True)), ("True", "SpecPaused")),
        ("Paused", running(), ("False", "Acting")),
    ],
)
def test_each_condition_says_what_is_seen(kind: str, seen: Observed, expected: tuple[str, str]):
    assert said(seen, kind) == expected


def test_what_a_worker_went_through_before_it_joined_is_past():
    trouble = Trouble("Error", "exit code 70", 70)
    pods = (a_pod(0, trouble=trouble), a_pod(1))
    seen = replace(running(), pods=pods)

    assert said(seen, "Ready") == ("True", "AllTasksRunning")
    assert said(replace(seen, pods=(replace(pods[0], membership=Membership.ABSENT),)), "Ready")[0] == "False"


def test_a_worker_that_is_stood_in_for_does_not_make_the_application_unready():
    lost = replace(a_pod(1, Membership.ABSENT), node="node-x", standing=Standing.LOST, trouble=Trouble("Error", "", 1))

    assert said(replace(running(), pods=(a_pod(0), lost, a_pod(2))), "Ready") == ("True", "AllTasksRunning")


def test_every_reason_belongs_to_a_condition_and_bad_ones_say_what_to_do():
    assert {reason.condition for reason in Reason} == set(JUDGES)
    assert len({reason.word for reason in Reason}) == len(Reason)


def test_a_failed_task_is_named_with_the_record_that_stopped_it_and_what_to_do():
    group = a_group(active(1, 0, "failed"), members=[a_member(0, failed=(FAILED,))])

    message = conditions(observed(pods=PODS, group=group))[0].message
    assert message == (
        "0_1 on worker-0 at input-1 offset 42: 13 brings bad luck — mend it, then `sluice resume flights --namespace "
        "default --coordinator URL`."
    )


def test_all_conditions_exist_always_in_the_same_order():
    assert [condition.type for condition in conditions(observed())] == list(JUDGES)


def test_a_condition_keeps_its_time_until_its_status_changes():
    earlier = tuple(
        replace(condition, last_transition_time="2026-01-01T00:00:00Z") for condition in conditions(observed())
    )
    app = replace(an_app(), status={"conditions": to_json(earlier)})
    later = conditions(replace(running(), app=app))

    times = {condition.type: condition.last_transition_time for condition in later}
    assert times["Ready"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert times["Paused"] == "2026-01-01T00:00:00Z"


def test_what_has_not_changed_is_worth_no_event():
    assert events_of(conditions(running()), conditions(running())) == ()


def test_a_change_is_worth_one_event():
    lost = conditions(running(code=StatusCode.KAFKA_UNREACHABLE))

    assert events_of(conditions(running()), lost) == (
        Event("Warning", "KafkaUnreachable", "Ready: KAFKA_UNREACHABLE it is"),
        Event("Warning", "KafkaUnreachable", "KafkaReachable: KAFKA_UNREACHABLE it is"),
    )


def test_numbers_are_rounded_so_that_the_status_rests():
    assert to_json(status_of(observed(group=a_group(warmup(1, 1, 1_234_567, 41)))))["warmups"] == [
        {"task": "0_1", "worker": "worker-1", "lag": 2_000_000, "eta": "<1m"}
    ]


def test_a_status_says_how_many_workers_belong_to_the_group():
    status = status_of(observed(pods=[*PODS, a_pod(2, Membership.ABSENT, Phase.STARTING)], group=a_group()))

    assert (status.replicas, status.ready_replicas, status.selector) == (3, 2, "sluice.dev/app=flights")
