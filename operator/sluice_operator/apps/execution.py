"""Carries out what was decided for an application: one call of the API, the coordinator or Kafka an action."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluice_coordinator.group import events as group_events
from sluice_coordinator.topics.admin import KafkaRefusedError, KafkaUnreachableError
from sluice_operator.coordination import Coordination
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Json, Kube
from sluice_operator.kube.ownership import all_apps
from sluice_operator.names import claim_name, pod_name
from sluice_operator.observed import App, Cleanup, Membership, Part, membership
from sluice_operator.uniqueness import find_twin
from sluice_operator.workers.actions import (
    Action,
    CreateClaim,
    CreatePart,
    CreatePod,
    DeleteClaim,
    DeletePart,
    DeletePod,
    DeleteTopics,
    Drain,
    ReportGone,
    ReportReturn,
    RestartPod,
    Undrain,
)
from sluice_operator.workers.manifests import claim_manifest, pod_manifest
from sluice_operator.workers.shared import part_manifest
from sluice_protocol.ids import worker_name


@dataclass(slots=True)
class Progress:
    """What is remembered of an application from one look to the next; nothing is lost with it but words."""

    refusal: str | None = None
    """What the API said when it last refused a pod or volume."""
    parts: dict[Part, str] = field(default_factory=dict)
    parts_due: float = 0.0
    restarted: dict[int, datetime] = field(default_factory=dict)
    cleanup: Cleanup = Cleanup.DUE
    cleanup_problem: str = ""


class Execution:
    """Belongs to the loop in which `kube` was entered."""

    def __init__(self, kube: Kube, coordination: Coordination, namespaces: tuple[str, ...]) -> None:
        self._kube = kube
        self._coordination = coordination
        self._namespaces = namespaces

    async def do(self, app: App, action: Action, progress: Progress) -> bool:
        """Whether it was still to be done. Raises KubeError."""
        match action:
            case CreatePart() | CreateClaim() | CreatePod():
                progress.parts_due = 0.0
                if isinstance(action, CreatePod):  # its predecessor is gone, and so is the reason for a drain
                    await self._coordination.tell(app.key, group_events.DrainCancelled(worker_name(action.slot)))
                await self._create(*self._wanted(app, action))
            case DeletePod(slot, uid, unless_joined=True) if not await self._stays_out(app, slot, uid):
                return False
            case DeletePart() | DeleteClaim() | DeletePod() | RestartPod():
                if isinstance(action, RestartPod):
                    progress.restarted[action.slot] = datetime.now(UTC)
                return await self._kube.delete(_path_of(app, action), action.uid)
            case ReportReturn(slot):
                del progress.restarted[slot]
            case DeleteTopics(topics):
                await self._clean_up(app, topics, progress)
            case Drain(slot):
                await self._coordination.tell(app.key, group_events.DrainRequested(worker_name(slot)))
            case Undrain(slot):
                await self._coordination.tell(app.key, group_events.DrainCancelled(worker_name(slot)))
            case ReportGone(worker, incarnation):
                await self._coordination.tell(app.key, group_events.MemberGone(worker, incarnation))
        return True

    async def all_apps(self) -> list[App]:
        """Every StreamsApp that the operator looks after. Raises KubeError."""
        return await all_apps(self._kube, self._namespaces)

    async def _stays_out(self, app: App, slot: int, uid: str) -> bool:
        """Is the worker no member, and will it be given nothing if it becomes one before its process has ended?"""
        await self._coordination.tell(app.key, group_events.DrainRequested(worker_name(slot)))
        look = await self._coordination.look(app)
        return membership(worker_name(slot), uid, look.group) is Membership.ABSENT

    def _wanted(self, app: App, action: CreatePart | CreateClaim | CreatePod) -> tuple[str, Json]:
        """Where to create what."""
        if app.spec is None:
            raise ValueError("nothing is created for a spec that can't be read")
        match action:
            case CreatePart(part):
                return paths.parts(part, app.namespace), part_manifest(part, app.name, app.uid)
            case CreateClaim(slot):
                return paths.claims(app.namespace), claim_manifest(app.name, slot, app.spec)
            case CreatePod(slot):
                coordinator = self._coordination.address
                body = pod_manifest(app.name, app.namespace, app.uid, slot, app.spec, coordinator, app.secret_version)
                return paths.pods(app.namespace), body

    async def _create(self, path: str, body: Json) -> None:
        """Raises KubeError if the name is taken: what is ours was seen, so that it is somebody else's."""
        if not await self._kube.create(path, body):
            name = f"{body['kind']} {body['metadata']['name']}"
            raise KubeError(403, "NameTaken", f"{name} exists and is not this StreamsApp's; delete or rename it")

    async def _clean_up(self, app: App, topics: tuple[str, ...], progress: Progress) -> None:
        """What another StreamsApp uses too is its own now."""
        others = await self.all_apps()
        if find_twin(app, others) is None:
            try:
                await self._coordination.clean_up(app, topics, others)
            except (KafkaUnreachableError, KafkaRefusedError) as error:
                progress.cleanup, progress.cleanup_problem = Cleanup.FAILED, f"{error}."
                return
        progress.cleanup, progress.cleanup_problem = Cleanup.DONE, ""


def _path_of(app: App, action: DeletePart | DeleteClaim | DeletePod | RestartPod) -> str:
    match action:
        case DeletePart(part):
            return paths.part(part, app.name, app.namespace)
        case DeleteClaim(slot):
            return f"{paths.claims(app.namespace)}/{claim_name(app.name, slot)}"
        case DeletePod(slot) | RestartPod(slot):
            return f"{paths.pods(app.namespace)}/{pod_name(app.name, slot)}"
