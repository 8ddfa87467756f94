"""What is true of an application, in sentences: conditions as a pure function of what is observed.

Each always exists, in the same order. A message names what to do and no number that changes by the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from enum import Enum

from sluice_operator.names import REPLACE_ANNOTATION
from sluice_operator.observed import UNSCHEDULABLE, Cleanup, Membership, Observed, Phase, Pod, Problem, Trouble
from sluice_operator.reasons import Reason
from sluice_operator.spec.model import Condition
from sluice_operator.workers.replacement import is_away
from sluice_protocol.heartbeat import Role, StatusCode
from sluice_protocol.launch import EXIT_NOT_ADMITTED
from sluice_protocol.view import GroupView, TaskView

_NAMED = 5
"""So many things are named in a message; of the others only their number."""


class Truth(Enum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition without its bookkeeping."""

    truth: Truth
    reason: Reason
    message: str


def conditions(observed: Observed) -> tuple[Condition, ...]:
    """All of them. The time of a transition is kept for as long as the status stays the same.

    What was true stays so while a coordinator that has just begun has not heard of it yet.
    """
    before = {condition.type: condition for condition in observed.app.conditions}
    now = observed.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for kind, judge in JUDGES.items():
        fact = judge(observed)
        former = before.get(kind)
        if former is not None and former.status == Truth.TRUE.value and _is_unheard(fact, observed):
            found.append(former)
            continue
        is_same = former is not None and former.status == fact.truth.value
        since = former.last_transition_time if former is not None and is_same else now
        found.append(Condition(kind, fact.truth.value, fact.reason.word, fact.message, since, observed.app.generation))
    return tuple(found)


def _is_unheard(fact: Fact, observed: Observed) -> bool:
    """Is it said only because workers and Kafka have not told the new coordinator anything else yet?"""
    return observed.group is not None and observed.group.state == "adopting" and fact.reason in _UNHEARD


def ready(observed: Observed) -> Fact:
    """Does every task run?"""
    for judge in _OBSTACLES:
        obstacle = judge(observed)
        if obstacle is not None:
            return obstacle
    group = _group(observed)
    actives = [task for task in group.tasks if task.role is Role.ACTIVE]
    if not actives:
        return Fact(Truth.FALSE, Reason.NO_WORKER_YET, "No worker has joined yet; see the events and logs of its pod.")
    idle = _idle(group)
    if idle:
        which = _some(f"{task.task} {task.state}" for task in idle)
        message = f"{len(idle)} of {len(actives)} tasks don't run yet: {which}."
        return Fact(Truth.FALSE, Reason.TASKS_NOT_RUNNING, message)
    return Fact(Truth.TRUE, Reason.ALL_TASKS_RUNNING, f"All {len(actives)} tasks run.")


def all_run(group: GroupView) -> bool:
    """Does every task run, as far as a status is concerned?"""
    return any(task.role is Role.ACTIVE for task in group.tasks) and not _idle(group)


def kafka_reachable(observed: Observed) -> Fact:
    """Does Kafka answer?"""
    group = observed.group
    if group is None:
        return Fact(Truth.UNKNOWN, Reason.NOT_ASKED, "Kafka has not been asked.")
    for code, reason in _KAFKA_REASONS.items():
        message = _status(group, code)
        if message is not None:
            return Fact(Truth.FALSE, reason, message)
    if not observed.reaches_kafka:
        return Fact(Truth.UNKNOWN, Reason.NOT_ANSWERED_YET, "Kafka has not answered yet.")
    return Fact(Truth.TRUE, Reason.KAFKA_ANSWERS, "Kafka answers.")


def topology_valid(observed: Observed) -> Fact:
    """Do the topics that the pipeline needs exist, in the form that it needs?"""
    group = observed.group
    for code, reason in _TOPIC_REASONS.items():
        message = None if group is None else _status(group, code)
        if message is not None:
            return Fact(Truth.FALSE, reason, message)
    if group is None or group.topology is None:
        return Fact(Truth.UNKNOWN, Reason.NO_WORKER_YET, "No worker has joined yet to say what its pipeline needs.")
    return Fact(Truth.TRUE, Reason.TOPICS_FIT, "The topics fit the pipeline.")


def rebalancing(observed: Observed) -> Fact:
    """Are tasks on their way to another worker?"""
    group = observed.group
    if group is None or group.state in ("empty", "not-ready"):
        return Fact(Truth.FALSE, Reason.NO_TASKS, "There are no tasks to move yet.")
    if group.state == "adopting":
        return Fact(Truth.TRUE, Reason.ADOPTING, "The coordinator has restarted and hears what each worker holds.")
    if group.state == "reconciling" or group.pending_moves:
        return Fact(Truth.TRUE, Reason.TASKS_MOVING, "Tasks are being handed over, or their copies warm up.")
    return Fact(Truth.FALSE, Reason.TASKS_IN_PLACE, "Every task is where it should be.")


def warming_up(observed: Observed) -> Fact:
    """Are copies being made so that tasks can move?"""
    warmups = [] if observed.group is None else [task for task in observed.group.tasks if task.role is Role.WARMUP]
    if not warmups:
        return Fact(Truth.FALSE, Reason.NO_WARMUPS, "No copy warms up.")
    return Fact(Truth.TRUE, Reason.RESTORING, _some(f"{task.task} on {task.worker}" for task in warmups) + ".")


def draining(observed: Observed) -> Fact:
    """Are workers being emptied?"""
    leaving = [
        pod.worker
        for pod in observed.pods
        if pod.membership in (Membership.DRAINING, Membership.DRAINED) and pod.phase is not Phase.STOPPING
    ]
    if not leaving and not observed.knows_nodes:
        return Fact(
            Truth.FALSE,
            Reason.NODES_NOT_READABLE,
            "No worker is being drained. The operator may not read nodes, so it won't see that one is cordoned: "
            f"annotate the pods there with {REPLACE_ANNOTATION}=true, or let it get, list and watch nodes.",
        )
    if not leaving:
        return Fact(Truth.FALSE, Reason.NOBODY_LEAVES, "No worker is being drained.")
    return Fact(Truth.TRUE, Reason.HANDING_OVER, f"Emptied before their pods are deleted: {_some(sorted(leaving))}.")


def paused(observed: Observed) -> Fact:
    """Does the operator keep its hands off?"""
    if observed.app.spec is not None and observed.app.spec.paused:
        return Fact(Truth.TRUE, Reason.SPEC_PAUSED, "spec.paused is true: no pod is created, drained or deleted.")
    return Fact(Truth.FALSE, Reason.ACTING, "The operator acts.")


JUDGES: dict[str, Callable[[Observed], Fact]] = {
    "Ready": ready,
    "KafkaReachable": kafka_reachable,
    "TopologyValid": topology_valid,
    "Rebalancing": rebalancing,
    "WarmingUp": warming_up,
    "Draining": draining,
    "Paused": paused,
}
"""Every condition, in the order in which it is shown."""

_UNHEARD = (Reason.NOT_ANSWERED_YET, Reason.NO_WORKER_YET, Reason.TASKS_NOT_RUNNING)

_KAFKA_REASONS = {
    StatusCode.KAFKA_UNREACHABLE: Reason.KAFKA_UNREACHABLE,
    StatusCode.KAFKA_REFUSED: Reason.KAFKA_REFUSED,
    StatusCode.KAFKA_CLUSTER_CHANGED: Reason.KAFKA_CLUSTER_CHANGED,
}

_IMAGE_TROUBLES = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")

_TOPIC_REASONS = {
    StatusCode.MISSING_SOURCE_TOPICS: Reason.MISSING_SOURCE_TOPICS,
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS: Reason.INCORRECTLY_PARTITIONED_TOPICS,
    StatusCode.MISSING_INTERNAL_TOPICS: Reason.MISSING_INTERNAL_TOPICS,
}


# What stands in the way of Ready, in the order in which it is looked for.


def _idle(group: GroupView) -> list[TaskView]:
    return [task for task in group.tasks if task.role is Role.ACTIVE and not _runs(task, group.acceptable_recovery_lag)]


def _runs(task: TaskView, acceptable_lag: int) -> bool:
    """A hot task that is being handed over stands still for less than a status is worth."""
    is_hot = not task.stateful or (task.lag is not None and task.lag <= acceptable_lag)
    return task.state in ("running", "releasing") or (task.state == "restoring" and is_hot)


def _gone(observed: Observed) -> Fact | None:
    if not observed.app.is_going:
        return None
    if observed.cleanup is Cleanup.FAILED:
        return Fact(Truth.FALSE, Reason.TOPICS_NOT_DELETED, observed.cleanup_problem)
    return Fact(Truth.FALSE, Reason.DELETING, f"{len(observed.pods)} worker pods are still to end.")


def _refused(observed: Observed) -> Fact | None:
    problem = observed.app.problem
    return None if problem is None else _as_fact(problem)


def _no_kafka(observed: Observed) -> Fact | None:
    return _unless_true(kafka_reachable(observed))


def _no_topology(observed: Observed) -> Fact | None:
    fact = topology_valid(observed)
    return fact if fact.truth is Truth.FALSE else None


def _no_workers(observed: Observed) -> Fact | None:
    if observed.app.spec is not None and observed.app.spec.workers.replicas == 0:
        return Fact(Truth.FALSE, Reason.SCALED_TO_ZERO, "spec.workers.replicas is 0; scale it up to process records.")
    return None


def _refused_parts(observed: Observed) -> Fact | None:
    return None if observed.refusal is None else Fact(Truth.FALSE, Reason.PODS_REFUSED, observed.refusal)


def _failing_workers(observed: Observed) -> Fact | None:
    failing = [(pod.worker, pod.trouble) for pod in observed.pods if pod.trouble is not None and _fails(pod, observed)]
    if not failing:
        return None
    sentences = (f"{worker}: {trouble.reason} {trouble.message}".strip() for worker, trouble in failing)
    return Fact(Truth.FALSE, _reason_of(failing[0][1]), _some(sentences))


def _fails(pod: Pod, observed: Observed) -> bool:
    """What happened to a worker before it joined is past, and one that is away is stood in for."""
    claim = next((claim for claim in observed.claims if claim.slot == pod.slot), None)
    is_working = pod.phase is Phase.RUNNING and pod.membership is not Membership.ABSENT
    return not is_working and not is_away(pod, claim)


def _reason_of(trouble: Trouble) -> Reason:
    if trouble.reason in _IMAGE_TROUBLES:
        return Reason.IMAGE_NOT_PULLED
    if trouble.reason == UNSCHEDULABLE:
        return Reason.WORKER_UNSCHEDULABLE
    if trouble.exit_code is None:
        return Reason.WORKERS_FAILING
    return Reason.WORKER_NOT_ADMITTED if trouble.exit_code == EXIT_NOT_ADMITTED else Reason.WORKER_CRASHING


def _failed_tasks(observed: Observed) -> Fact | None:
    failed = [
        f"{task.task} on {member.worker} at {task.topic}-{task.partition} offset {task.offset}: {task.message}"
        for member in _group(observed).members
        for task in member.failed
    ]
    if not failed:
        return None
    app = observed.app
    resume = f"sluice resume {app.name} --namespace {app.namespace} --coordinator URL"
    return Fact(Truth.FALSE, Reason.TASKS_FAILED, f"{_some(failed)} — mend it, then `{resume}`.")


def _unless_true(fact: Fact) -> Fact | None:
    return None if fact.truth is Truth.TRUE else Fact(Truth.FALSE, fact.reason, fact.message)


def _as_fact(problem: Problem) -> Fact:
    return Fact(Truth.FALSE, problem.reason, problem.message)


def _group(observed: Observed) -> GroupView:
    if observed.group is None:
        raise ValueError("Kafka can't have been reached without a group")
    return observed.group


def _status(group: GroupView, code: StatusCode) -> str | None:
    return next((status.message for status in group.statuses if status.code is code), None)


def _some(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


_OBSTACLES = (
    _gone, _refused, _no_kafka, _no_topology, _no_workers, _refused_parts, _failing_workers, _failed_tasks,
)  # fmt: skip
