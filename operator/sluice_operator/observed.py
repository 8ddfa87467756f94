"""What is seen of one application at one moment: its StreamsApp, pods, claims and group, read from the API's JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any

from sluice_operator.names import (
    REPLACE_ANNOTATION,
    REVISION_ANNOTATION,
    WORKER_CONTAINER,
    WORKER_LABEL,
    claim_name,
    pod_name,
)
from sluice_operator.nodes import Node, Standing, standing
from sluice_operator.reasons import Reason
from sluice_operator.spec.model import Condition, Footprint, StreamsAppSpec
from sluice_operator.spec.template import forbidden
from sluice_protocol.heartbeat import StatusCode
from sluice_protocol.ids import worker_name, worker_slot
from sluice_protocol.view import GroupView, MemberView
from sluice_protocol.wire import MalformedMessageError, from_json

FINALIZER = "sluice.dev/workers"
"""Kept on a StreamsApp until no worker of it runs any more."""

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The scheduler's annotation on a claim: the node for which its volume was made."""

UNSCHEDULABLE = "Unschedulable"
"""The scheduler's word for a pod that finds no node."""

_WAITING_IS_NORMAL = ("ContainerCreating", "PodInitializing")

_REFUSALS = {
    StatusCode.KAFKA_CLUSTER_CHANGED: Reason.KAFKA_CLUSTER_CHANGED,
    StatusCode.APPLICATION_ID_TAKEN: Reason.APPLICATION_ID_TAKEN,
}


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
    finalizers: tuple[str, ...]
    deleted_at: datetime | None = None
    """When its end was asked for."""
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The settings that its Secret holds."""
    secret_version: str = ""
    """Another one whenever its Secret is another one; says nothing about what that holds."""

    @property
    def is_going(self) -> bool:
        return self.deleted_at is not None

    @property
    def may_be_coordinated(self) -> bool:
        """A template that may not be used is an obstacle to pods, not to the workers that run."""
        is_runnable = self.problem is None or self.problem.reason is Reason.TEMPLATE_NOT_ALLOWED
        return self.spec is not None and is_runnable and not self.is_going

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """Those that were made for it, as last recorded."""
        return tuple(self.status.get("internalTopics") or ())

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

    @property
    def cluster_id(self) -> str | None:
        """Its Kafka's, once that has been reached: then its applicationId there is its own."""
        return self.footprint.cluster_id


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an application may not run, as a condition says it."""

    reason: Reason
    message: str


def refusal_of(group: GroupView) -> Problem | None:
    """Why a group does not go on, whatever its workers do."""
    for status in group.statuses:
        if status.code in _REFUSALS:
            return Problem(_REFUSALS[status.code], f"{status.message.rstrip('.')}.")
    return None


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a pod's container from running, in its node's or the scheduler's words. `exit_code`: that of its last
    end, if it has ended."""

    reason: str
    message: str
    exit_code: int | None = None


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
    trouble: Trouble | None = None
    membership: Membership = Membership.UNKNOWN
    node: str | None = None
    standing: Standing = Standing.SOUND
    """That of its node; SOUND before it has one."""
    is_asked_to_go: bool = False
    """Somebody has asked for its replacement by an annotation."""

    @property
    def worker(self) -> str:
        return worker_name(self.slot)


@dataclass(frozen=True, slots=True)
class Claim:
    """The volume claim of a slot. `standing`: of the node for which its volume was made, if that is known."""

    slot: int
    uid: str
    is_going: bool
    node: str | None = None
    standing: Standing = Standing.SOUND


class Part(Enum):
    """What the workers of an application share, by its kind."""

    SERVICE = "Service"
    BUDGET = "PodDisruptionBudget"


class Cleanup(Enum):
    """What becomes of an application's topics and group in Kafka, at its end."""

    DUE = "due"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that is decided from. `reaches_kafka`: whether the last call to Kafka succeeded. `refusal`: what the
    API said when it last refused a pod or volume. `parts`: the uid of each that is there. `restarted`: the slots whose
    pods were deleted to be made anew in their place, and when. `knows_nodes`: whether nodes may be read here.
    `cleanup`: how the last try went, `cleanup_problem` why it failed."""

    app: App
    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...]
    group: GroupView | None
    reaches_kafka: bool
    now: datetime
    refusal: str | None = None
    parts: Mapping[Part, str] = field(default_factory=dict)
    restarted: Mapping[int, datetime] = field(default_factory=dict)
    knows_nodes: bool = True
    cleanup: Cleanup = Cleanup.DUE
    cleanup_problem: str = ""


def located(observed: Observed, nodes: Mapping[str, Node | None]) -> Observed:
    """With the standing of each pod's and claim's node; None = there is no such node."""
    standings = {name: standing(node, observed.now) for name, node in nodes.items()}
    pods = (replace(pod, standing=standings.get(pod.node or "", Standing.SOUND)) for pod in observed.pods)
    claims = (replace(claim, standing=standings.get(claim.node or "", Standing.SOUND)) for claim in observed.claims)
    return replace(observed, pods=tuple(pods), claims=tuple(claims))


def observe(
    app: App,
    group: GroupView | None,
    reaches_kafka: bool,
    pods: list[Any],
    claims: list[Any],
    now: datetime,
    refusal: str | None = None,
) -> Observed:
    """Put it together. The group must have been looked at before the pods: a member without a pod is then gone.

    Anybody may give a pod or claim the labels of ours, as whoever copies one does: ours also bear the name of their
    slot, and pods belong to this very StreamsApp.
    """
    own_pods = (read_pod(item) for item in pods if _is_named(item, app, pod_name) and is_owned(item, app.uid))
    own_claims = (read_claim(item) for item in claims if _is_named(item, app, claim_name))
    read = tuple(replace(pod, membership=membership(pod.worker, pod.uid, group)) for pod in own_pods)
    return Observed(app, read, tuple(own_claims), group, reaches_kafka, now, refusal)


def is_owned(item: Mapping[str, Any], uid: str) -> bool:
    """Does it belong to the object of this uid?"""
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))


def _is_named(item: Mapping[str, Any], app: App, name_of: Callable[[str, int], str]) -> bool:
    meta = item["metadata"]
    try:
        slot = worker_slot(meta.get("labels", {}).get(WORKER_LABEL, ""))
    except ValueError:
        return False
    named: bool = meta["name"] == name_of(app.name, slot)
    return named


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
        finalizers=tuple(meta.get("finalizers", ())),
        deleted_at=datetime.fromisoformat(meta["deletionTimestamp"]) if "deletionTimestamp" in meta else None,
    )


def with_credentials(app: App, secret: Mapping[str, Any] | None) -> App:
    """The application with what its Secret holds, or with the problem that it doesn't; None = there is no such one."""
    reference = None if app.spec is None else app.spec.kafka.secret_ref
    if app.spec is None or reference is None or app.problem is not None:
        return app
    name = f"Secret {app.namespace}/{reference.name}"
    if secret is None:
        problem = Problem(Reason.SECRET_NOT_FOUND, f"{name} of spec.kafka.secretRef is not there; create it.")
        return replace(app, problem=problem)
    data = secret.get("data") or {}
    credentials = {}
    for setting, key in reference.settings.items():
        try:
            credentials[setting] = base64.b64decode(data[key]).decode()
        except (KeyError, ValueError):
            said = f"{name} has no text under the key {key!r}, which spec.kafka.secretRef.settings names for {setting}"
            return replace(app, problem=Problem(Reason.SECRET_KEY_MISSING, f"{said}; add it."))
    try:
        app.spec.coordinator_settings(app.namespace, app.name, credentials)
    except ValueError as error:
        return replace(app, problem=Problem(Reason.INVALID_SPEC, f"{name}: {error}."))
    meta = secret["metadata"]
    return replace(app, credentials=credentials, secret_version=f"{meta['uid']}/{meta['resourceVersion']}")


def _read_spec(item: Mapping[str, Any], name: str) -> tuple[StreamsAppSpec | None, Problem | None]:
    try:
        spec = from_json(StreamsAppSpec, item["spec"], "spec")
        spec.coordinator_settings("", name)
    except MalformedMessageError as error:
        return None, Problem(Reason.INVALID_SPEC, f"{error}. Apply the CRD of this operator's version.")
    except ValueError as error:
        return None, Problem(Reason.INVALID_SPEC, str(error))
    unwanted = forbidden(spec.workers.template)
    return spec, None if unwanted is None else Problem(Reason.TEMPLATE_NOT_ALLOWED, f"{unwanted}.")


def read_pod(item: Mapping[str, Any]) -> Pod:
    """Read a pod; its group is not known yet."""
    meta, status = item["metadata"], item.get("status") or {}
    annotations = meta.get("annotations", {})
    container: Mapping[str, Any] = _container(status)
    return Pod(
        slot=worker_slot(meta["labels"][WORKER_LABEL]),
        uid=meta["uid"],
        phase=_phase(meta, status, container),
        revision=annotations.get(REVISION_ANNOTATION, ""),
        trouble=_trouble(status, container),
        node=item["spec"].get("nodeName"),
        is_asked_to_go=annotations.get(REPLACE_ANNOTATION) == "true",
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


def _trouble(status: Mapping[str, Any], container: Mapping[str, Any]) -> Trouble | None:
    waiting = container.get("state", {}).get("waiting")
    last = container.get("lastState", {}).get("terminated") or container.get("state", {}).get("terminated") or {}
    if waiting and waiting.get("reason") not in _WAITING_IS_NORMAL:
        return _failure(waiting.get("reason", "Waiting"), waiting.get("message", ""), last)
    if last.get("exitCode"):
        return _failure(last.get("reason", "Error"), "", last)
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Trouble(condition.get("reason", UNSCHEDULABLE), condition.get("message", ""))
    return None


def _failure(reason: str, message: str, last: Mapping[str, Any]) -> Trouble:
    """The last line of the container says more than what its node thinks of it; what stands above is for its log."""
    exit_code = last.get("exitCode")
    exited = "" if exit_code is None else f"exit code {exit_code}"
    said = (last.get("message") or message).strip().splitlines()
    return Trouble(reason, "; ".join(part for part in (exited, *said[-1:]) if part), exit_code)


def read_claim(item: Mapping[str, Any]) -> Claim:
    """Read a volume claim."""
    meta = item["metadata"]
    node = meta.get("annotations", {}).get(_SELECTED_NODE)
    return Claim(worker_slot(meta["labels"][WORKER_LABEL]), meta["uid"], "deletionTimestamp" in meta, node)


def membership(worker: str, incarnation: str, group: GroupView | None) -> Membership:
    """Of a worker's pod. A member of another incarnation is the slot's former process."""
    if group is None:
        return Membership.UNKNOWN
    found = [each for each in group.members if each.worker == worker and each.incarnation == incarnation]
    if not found:
        return Membership.UNKNOWN if group.state == "adopting" else Membership.ABSENT
    return _state_of(found[0])


def _state_of(member: MemberView) -> Membership:
    if not member.draining:
        return Membership.MEMBER
    return Membership.DRAINED if member.state == "drained" else Membership.DRAINING
