"""The loop of each application: fetch, decide once, carry out.

Level-triggered: an event of the API only says that it is time to look again, and what is looked at is fetched, not
remembered. One application's failure is its own: each has a task, and backs off by itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sluice_coordinator.group import events as group_events
from sluice_operator.coordination import Coordination, Key
from sluice_operator.kube import paths
from sluice_operator.kube.client import ConflictError, Json, Kube, KubeError
from sluice_operator.kube.nodes import Nodes
from sluice_operator.metrics import OperatorMetrics
from sluice_operator.observed import FINALIZER, App, Observed, Part, located, observe, read_app
from sluice_operator.reconcile import AddFinalizer, Plan, RemoveFinalizer, plan
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_operator.status import Event, event_of
from sluice_operator.uniqueness import find_elder
from sluice_operator.workers.actions import (
    Action,
    CreateClaim,
    CreatePart,
    CreatePod,
    DeleteClaim,
    DeletePart,
    DeletePod,
    Drain,
    ReportGone,
    ReportReturn,
    RestartPod,
    Undrain,
)
from sluice_operator.workers.manifests import claim_manifest, pod_manifest
from sluice_operator.workers.names import claim_name, pod_name, selector
from sluice_operator.workers.shared import part_manifest
from sluice_protocol.ids import worker_name
from sluice_protocol.wire import to_json

_BUSY_SECONDS = 0.5
_IDLE_SECONDS = 15.0
_PARTS_SECONDS = 60.0
"""How often it is looked whether Service and budget are there: nobody but people touches them."""
_FIRST_BACKOFF_SECONDS = 0.5
_LAST_BACKOFF_SECONDS = 30.0
_COMPONENT = "sluice-operator"
_REFUSED = (400, 403, 422)
"""Admission, quota, schema: it will be refused again until somebody changes something."""

log = logging.getLogger("sluice.operator")


@dataclass(slots=True)
class _Loop:
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    refusal: str | None = None
    """What the API said when it last refused a pod or volume."""
    parts: dict[Part, str] = field(default_factory=dict)
    parts_due: float = 0.0
    restarted: dict[int, datetime] = field(default_factory=dict)


class Apps:
    """All applications; belongs to the loop in which `kube` was entered."""

    def __init__(
        self, kube: Kube, coordination: Coordination, metrics: OperatorMetrics, namespaces: tuple[str, ...]
    ) -> None:
        """No namespaces = the whole cluster."""
        self._kube = kube
        self._coordination = coordination
        self._metrics = metrics
        self._namespaces = namespaces
        self._loops: dict[Key, _Loop] = {}
        self.nodes = Nodes(kube)

    def wake_all(self) -> None:
        """Something has changed that may matter to each application."""
        for loop in self._loops.values():
            loop.changed.set()

    def wake(self, key: Key) -> None:
        """Something about the application has changed."""
        loop = self._loops.get(key)
        if loop is None:
            loop = self._loops[key] = _Loop()
            loop.task = asyncio.create_task(self._run(key, loop))
        loop.changed.set()

    async def _run(self, key: Key, loop: _Loop) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            loop.changed.clear()
            try:
                with self._metrics.reconcile():
                    pause = await self._reconcile(key, loop)
            except ConflictError:
                continue  # somebody has written in between: look again
            except Exception as error:
                expected = isinstance(error, KubeError)
                log.log(logging.WARNING if expected else logging.ERROR, "%s: %s", "/".join(key), error,
                        exc_info=not expected)  # fmt: skip
                pause, backoff = backoff * random.uniform(0.5, 1.0), min(_LAST_BACKOFF_SECONDS, backoff * 2)
                await asyncio.sleep(pause)
                continue
            backoff = _FIRST_BACKOFF_SECONDS
            if pause is None and not loop.changed.is_set():
                del self._loops[key]
                return
            try:
                async with asyncio.timeout(pause):
                    await loop.changed.wait()
            except TimeoutError:
                pass

    async def _reconcile(self, key: Key, loop: _Loop) -> float | None:
        """Seconds until the next look; None if the application is gone."""
        observed = await self._observe(key, loop)
        if observed is None:
            await self._coordination.drop(key)
            return None
        decided = plan(observed, self._coordination.address)
        app = await self._report(observed.app, decided)
        try:
            for action in decided.actions:
                await self._carry_out(app, action, loop)
        except KubeError as error:
            loop.refusal = str(error) if error.status in _REFUSED else None
            raise
        loop.refusal = None
        return _IDLE_SECONDS * random.uniform(0.8, 1.2) if decided.is_settled else _BUSY_SECONDS

    async def _observe(self, key: Key, loop: _Loop) -> Observed | None:
        item = await self._kube.get(paths.app(key))
        if item is None:
            return None
        app = await self._refuse_twins(read_app(item))
        look = await self._coordination.look(app)  # before the pods: a member without one is then gone
        selected = selector(app.name)
        pods, claims = await asyncio.gather(
            self._kube.list(paths.pods(app.namespace), selected), self._kube.list(paths.claims(app.namespace), selected)
        )
        if app.is_going or time.monotonic() >= loop.parts_due:
            loop.parts = await self._find_parts(app)
            loop.parts_due = time.monotonic() + _PARTS_SECONDS
        seen = observe(app, look.group, look.reaches_kafka, pods, claims, datetime.now(UTC), loop.refusal)
        seen = replace(seen, parts=loop.parts, restarted=dict(loop.restarted), knows_nodes=self.nodes.is_readable)
        named = {pod.node for pod in seen.pods} | {claim.node for claim in seen.claims}
        return located(seen, await self.nodes.of(named))

    async def _find_parts(self, app: App) -> dict[Part, str]:
        """The uid of each that is there and is the application's own."""
        items = await asyncio.gather(*(self._kube.get(paths.part(part, app.name, app.namespace)) for part in Part))
        found = zip(Part, items, strict=True)
        return {part: item["metadata"]["uid"] for part, item in found if item is not None and _is_owned(item, app.uid)}

    async def _refuse_twins(self, app: App) -> App:
        """Asked only until the application has had its first worker: its elders are older than that."""
        if app.footprint.slots or app.is_going or app.problem is not None:
            return app
        lists = await asyncio.gather(*(self._kube.list(path) for path in paths.all_apps(self._namespaces)))
        return replace(app, problem=find_elder(app, [read_app(item) for items in lists for item in items]))

    async def _carry_out(self, app: App, action: Action | AddFinalizer | RemoveFinalizer, loop: _Loop) -> None:
        match action:
            case AddFinalizer():
                await self._set_finalizers(app, (*app.finalizers, FINALIZER))
                return
            case RemoveFinalizer():
                await self._set_finalizers(app, tuple(each for each in app.finalizers if each != FINALIZER))
                return
        if await self._do(app, action, loop):
            event = event_of(action)
            log.info("%s: %s", "/".join(app.key), event.message if event is not None else action)
            if event is not None:
                await self._post(app, event)

    async def _do(self, app: App, action: Action, loop: _Loop) -> bool:
        """Whether it was still to be done."""
        match action:
            case CreatePart() | CreateClaim() | CreatePod():
                loop.parts_due = 0.0
                await self._create(*self._wanted(app, action))
            case DeletePart() | DeleteClaim() | DeletePod() | RestartPod():
                if isinstance(action, RestartPod):
                    loop.restarted[action.slot] = datetime.now(UTC)
                return await self._kube.delete(_path_of(app, action), action.uid)
            case ReportReturn(slot):
                del loop.restarted[slot]
            case Drain(slot):
                await self._coordination.tell(app.key, group_events.DrainRequested(worker_name(slot)))
            case Undrain(slot):
                await self._coordination.tell(app.key, group_events.DrainCancelled(worker_name(slot)))
            case ReportGone(worker, incarnation):
                await self._coordination.tell(app.key, group_events.MemberGone(worker, incarnation))
        return True

    def _wanted(self, app: App, action: CreatePart | CreateClaim | CreatePod) -> tuple[str, Json]:
        """Where to create what."""
        if app.spec is None:
            raise ValueError("nothing is created for a spec that can't be read")
        match action:
            case CreatePart(part):
                return paths.parts(part, app.namespace), part_manifest(part, app.name, app.uid)
            case CreateClaim(slot):
                return paths.claims(app.namespace), claim_manifest(app.name, app.uid, slot, app.spec)
            case CreatePod(slot):
                body = pod_manifest(app.name, app.namespace, app.uid, slot, app.spec, self._coordination.address)
                return paths.pods(app.namespace), body

    async def _create(self, path: str, body: Json) -> None:
        """Raises KubeError if the name is taken: what is ours was seen, so that it is somebody else's."""
        if not await self._kube.create(path, body):
            name = f"{body['kind']} {body['metadata']['name']}"
            raise KubeError(403, "NameTaken", f"{name} exists and is not this StreamsApp's; delete or rename it")

    async def _set_finalizers(self, app: App, finalizers: tuple[str, ...]) -> None:
        metadata = {"resourceVersion": app.resource_version, "finalizers": list(finalizers)}
        await self._kube.patch(paths.app(app.key), {"metadata": metadata})

    async def _report(self, app: App, decided: Plan) -> App:
        """Write what has changed of the status, and only then say so in events: a conflict must not repeat them."""
        wanted: dict[str, Any] = to_json(decided.status)
        changed = {name: value for name, value in wanted.items() if app.status.get(name) != value}
        if not changed:
            return app
        body = {"metadata": {"resourceVersion": app.resource_version, "uid": app.uid}, "status": changed}
        written = await self._kube.patch(paths.app_status(app.key), body)
        for event in decided.events:
            await self._post(app, event)
        return replace(app, resource_version=written["metadata"]["resourceVersion"])

    async def _post(self, app: App, event: Event) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "metadata": {"name": f"{app.name}.{uuid.uuid4().hex[:16]}", "namespace": app.namespace},
            "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, "namespace": app.namespace, "name": app.name,
                               "uid": app.uid, "resourceVersion": app.resource_version},
            "type": event.kind, "reason": event.reason, "message": event.message[:1024],
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "source": {"component": _COMPONENT}, "reportingComponent": _COMPONENT,
        }  # fmt: skip
        await self._kube.create(paths.events(app.namespace), body)


def _path_of(app: App, action: DeletePart | DeleteClaim | DeletePod | RestartPod) -> str:
    match action:
        case DeletePart(part):
            return paths.part(part, app.name, app.namespace)
        case DeleteClaim(slot):
            return f"{paths.claims(app.namespace)}/{claim_name(app.name, slot)}"
        case DeletePod(slot) | RestartPod(slot):
            return f"{paths.pods(app.namespace)}/{pod_name(app.name, slot)}"


def _is_owned(item: Json, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))
