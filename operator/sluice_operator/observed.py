"""What is seen of one application at one moment: its StreamsApp, pods, claims and group, read from the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from sluice_operator.spec.model import Condition, Footprint, StreamsAppSpec
from sluice_operator.workers.names import REVISION_ANNOTATION, WORKER_CONTAINER, WORKER_LABEL
from sluice_protocol.ids import worker_name, worker_slot
from sluice_protocol.view import GroupView, MemberView
from sluice_protocol.wire import MalformedMessageError, from_json

FINALIZER = "sluice.dev/workers"
"""Kept on a StreamsApp until no worker of it runs any more."""

_WAITING_IS_NORMAL = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class App:
    """A StreamsApp. `spec` is None if it can't be read; `problem` says why, or why it may not run."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: str
    spec: StreamsAppSpec | None
    problem: Problem | None
    status: Mapping[str, Any]
    is_going: bool
    finalizers: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """As they were last written."""
        return tuple(from_json(Condition, each) for each in self.status.get("conditions") or ())

    @property
    def footprint(self) -> Footprint:
        """What was recorded before the last grant."""
        recorded = self.status.get("footprint")
        return from_json(Footprint, recorded) if recorded else Footprint(0, 0)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an application may not run, as a condition says it."""

    reason: str
    message: str


class Phase(Enum):
    """The process of a pod."""

    STARTING = "starting"
    """There is none yet, as far as its node has said."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """It has ended, and its node starts it again."""
    STOPPING = "stopping"
    """The pod is going; until it is gone its process may still be there."""
    ENDED = "ended"
    """It will never run again."""


class Membership(Enum):
    """A pod in the eyes of the group."""

    UNKNOWN = "unknown"
    """The coordinator doesn't know its members yet."""
    ABSENT = "absent"
    MEMBER = "member"
    DRAINING = "draining"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a slot. `trouble` is what keeps its container from running, if something does."""

    slot: int
    uid: str
    phase: Phase
    revision: str
    trouble: Problem | None = None
    membership: Membership = Membership.UNKNOWN

    @property
    def worker(self) -> str:
        return worker_name(self.slot)


@dataclass(frozen=True, slots=True)
class Claim:
    """The volume claim of a slot."""

    slot: int
    uid: str
    is_going: bool


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that is decided from. `reaches_kafka`: whether the last call to Kafka succeeded. `refusal`: what the
    API said when it last refused a pod or volume."""

    app: App
    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...]
    group: GroupView | None
    reaches_kafka: bool
    now: datetime
    refusal: str | None = None


def observe(
    app: App,
    group: GroupView | None,
    reaches_kafka: bool,
    pods: list[Any],
    claims: list[Any],
    now: datetime,
    refusal: str | None = None,
) -> Observed:
    """Put it together. The group must have been looked at before the pods: a member without a pod is then gone."""
    read = tuple(replace(pod, membership=_membership(pod, group)) for pod in map(read_pod, pods))
    return Observed(app, read, tuple(map(read_claim, claims)), group, reaches_kafka, now, refusal)


def read_app(item: Mapping[str, Any]) -> App:
    """Read a StreamsApp."""
    meta = item["metadata"]
    spec, problem = _read_spec(item, meta["name"])
    return App(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        generation=meta.get("generation", 0),
        created=meta["creationTimestamp"],
        spec=spec,
        problem=problem,
        status=item.get("status") or {},
        is_going="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers", ())),
    )


def _read_spec(item: Mapping[str, Any], name: str) -> tuple[StreamsAppSpec | None, Problem | None]:
    try:
        spec = from_json(StreamsAppSpec, item["spec"], "spec")
        spec.coordinator_settings("", name)
    except MalformedMessageError as error:
        return None, Problem("InvalidSpec", f"{error}. Apply the CRD of this operator's version.")
    except ValueError as error:
        return None, Problem("InvalidSpec", str(error))
    return spec, None


def read_pod(item: Mapping[str, Any]) -> Pod:
    """Read a pod; its group is not known yet."""
    meta, status = item["metadata"], item.get("status") or {}
    container: Mapping[str, Any] = _container(status)
    return Pod(
        slot=worker_slot(meta["labels"][WORKER_LABEL]),
        uid=meta["uid"],
        phase=_phase(meta, status, container),
        revision=meta.get("annotations", {}).get(REVISION_ANNOTATION, ""),
        trouble=_trouble(status, container),
    )


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the node says of the worker's container; empty if nothing yet."""
    named = {container["name"]: container for container in status.get("containerStatuses", ())}
    found: Mapping[str, Any] = named.get(WORKER_CONTAINER, {})
    return found


def _phase(meta: Mapping[str, Any], status: Mapping[str, Any], container: Mapping[str, Any]) -> Phase:
    if "deletionTimestamp" in meta:
        return Phase.STOPPING
    if status.get("phase") in ("Failed", "Succeeded"):
        return Phase.ENDED
    if "running" in container.get("state", {}):
        return Phase.RUNNING
    has_ended = "terminated" in container.get("state", {}) or "terminated" in container.get("lastState", {})
    return Phase.RESTARTING if has_ended else Phase.STARTING


def _trouble(status: Mapping[str, Any], container: Mapping[str, Any]) -> Problem | None:
    waiting = container.get("state", {}).get("waiting")
    if waiting and waiting.get("reason") not in _WAITING_IS_NORMAL:
        last = container.get("lastState", {}).get("terminated", {})
        said = waiting.get("message") or last.get("message") or ""
        exited = f"exit code {last['exitCode']}" if "exitCode" in last else ""
        return Problem(waiting.get("reason", "Waiting"), "; ".join(part for part in (exited, said.strip()) if part))
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Problem(condition.get("reason", "Unschedulable"), condition.get("message", ""))
    return None


def read_claim(item: Mapping[str, Any]) -> Claim:
    """Read a volume claim."""
    meta = item["metadata"]
    return Claim(worker_slot(meta["labels"][WORKER_LABEL]), meta["uid"], "deletionTimestamp" in meta)


def _membership(pod: Pod, group: GroupView | None) -> Membership:
    """A member of another incarnation is the slot's former process."""
    if group is None:
        return Membership.UNKNOWN
    found = [each for each in group.members if each.worker == pod.worker and each.incarnation == pod.uid]
    if not found:
        return Membership.UNKNOWN if group.state == "adopting" else Membership.ABSENT
    return _state_of(found[0])


def _state_of(member: MemberView) -> Membership:
    if not member.draining:
        return Membership.MEMBER
    return Membership.DRAINED if member.state == "drained" else Membership.DRAINING
