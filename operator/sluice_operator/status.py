"""The status of an application, and the events that its changes are worth. Pure.

Numbers that change by the second are rounded so far that the status rarely changes; exact ones are metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice_coordinator.topics.plan import internal_topics
from sluice_operator.conditions import Truth, conditions
from sluice_operator.names import selector
from sluice_operator.observed import App, Membership, Observed
from sluice_operator.spec.model import Condition, StreamsAppStatus, SubtopologyStatus, WarmupStatus
from sluice_operator.workers.actions import (
    Action,
    CreatePod,
    DeletePod,
    Drain,
    LeaveTopics,
    ReportReturn,
    RestartPod,
    Undrain,
)
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import worker_name
from sluice_protocol.view import GroupView

_ETA_STEPS = ((60, "1m"), (300, "5m"), (900, "15m"), (3_600, "1h"))
_WORKING = (Membership.MEMBER, Membership.DRAINING, Membership.DRAINED)

ALARMING = {"Ready": Truth.FALSE, "KafkaReachable": Truth.FALSE, "TopologyValid": Truth.FALSE}
"""Conditions whose turn to this value is a Warning."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of Kubernetes about a StreamsApp. `kind`: Normal or Warning."""

    kind: str
    reason: str
    message: str


def status_of(observed: Observed) -> StreamsAppStatus:
    """What `kubectl get -o yaml` shows; the footprint has another writer."""
    group = observed.group
    return StreamsAppStatus(
        observed_generation=observed.app.generation,
        replicas=len(observed.pods),
        ready_replicas=sum(pod.membership in _WORKING for pod in observed.pods),
        selector=selector(observed.app.name),
        epoch=None if group is None else str(group.epoch),
        subtopologies=() if group is None else tuple(_subtopologies(group)),
        warmups=() if group is None else tuple(_warmups(group)),
        conditions=conditions(observed),
        internal_topics=_internal_topics(observed.app, group),
    )


def events_of(before: Sequence[Condition], after: Sequence[Condition]) -> tuple[Event, ...]:
    """One for each condition that has changed its status or its reason; nothing for what is so from the beginning."""
    former = {condition.type: condition for condition in before}
    return tuple(_transition(condition) for condition in after if _has_changed(former.get(condition.type), condition))


def event_of(action: Action) -> Event | None:  # noqa: PLR0911 - one case an action
    """What people are told of an action that was carried out."""
    match action:
        case CreatePod(slot):
            return Event("Normal", "WorkerCreated", f"Created the pod of {worker_name(slot)}")
        case Drain(slot, reason):
            return Event("Normal", "DrainStarted", f"{worker_name(slot)} hands its tasks over ({reason})")
        case Undrain(slot):
            return Event("Normal", "DrainCancelled", f"{worker_name(slot)} stays")
        case DeletePod(slot, _, reason):
            return Event("Normal", "WorkerDeleted", f"Deleted the pod of {worker_name(slot)} ({reason})")
        case RestartPod(slot):
            return Event("Normal", "WorkerRestarting", f"Deleted the pod of {worker_name(slot)} to restart it in place")
        case ReportReturn(slot, seconds):
            return Event(
                "Normal", "WorkerRestarted", f"{worker_name(slot)} is back and all tasks run, {seconds} s after"
            )
        case LeaveTopics(topics, problem):
            names = ", ".join(topics) or "the consumer group"
            return Event("Warning", "TopicsLeft", f"Left behind in Kafka: {names}. {problem}")
        case _:
            return None


def _has_changed(former: Condition | None, condition: Condition) -> bool:
    if former is None:
        return ALARMING.get(condition.type) is Truth(condition.status) and condition.type != "Ready"
    return (former.status, former.reason) != (condition.status, condition.reason)


def _transition(condition: Condition) -> Event:
    is_bad = ALARMING.get(condition.type) is Truth(condition.status)
    return Event("Warning" if is_bad else "Normal", condition.reason, f"{condition.type}: {condition.message}")


def _subtopologies(group: GroupView) -> Iterable[SubtopologyStatus]:
    if group.topology is None:
        return
    for subtopology in group.topology.subtopologies:
        tasks = {task.task for task in group.tasks if task.task.subtopology == subtopology.id}
        yield SubtopologyStatus(subtopology.id, subtopology.is_stateful, len(tasks))


def _internal_topics(app: App, group: GroupView | None) -> tuple[str, ...]:
    """None is forgotten while it may still be there."""
    topology = None if group is None else group.topology
    return tuple(sorted({*app.internal_topics, *(() if topology is None else internal_topics(topology))}))


def _warmups(group: GroupView) -> Iterable[WarmupStatus]:
    for task in group.tasks:
        if task.role is Role.WARMUP:
            yield WarmupStatus(str(task.task), task.worker, _rounded(task.lag), _eta(task.eta_seconds))


def _rounded(number: int | None) -> int | None:
    """Up to one significant digit."""
    if number is None or number < 10:
        return number
    unit = int("1".ljust(len(str(number)), "0"))
    return -(-number // unit) * unit


def _eta(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return next((f"<{text}" for limit, text in _ETA_STEPS if seconds < limit), ">1h")
