"""The loop of each application: fetch, decide once, carry out.

Level-triggered: an event of the API only says that it is time to look again, and what is looked at is fetched, not
remembered. One application's failure is its own: each has a task, and backs off by itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sluice_operator.apps.event_log import EventLog
from sluice_operator.apps.execution import Execution, Progress
from sluice_operator.coordination import Coordination, Key
from sluice_operator.errors import ConflictError, KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.kube.nodes import Nodes
from sluice_operator.metrics import OperatorMetrics
from sluice_operator.names import selector
from sluice_operator.observed import (
    FINALIZER,
    App,
    Observed,
    Part,
    is_owned,
    located,
    observe,
    read_app,
    with_credentials,
)
from sluice_operator.reconcile import AddFinalizer, Plan, RemoveFinalizer, plan
from sluice_operator.status import event_of
from sluice_operator.uniqueness import find_elder
from sluice_operator.workers.actions import Action
from sluice_protocol.wire import to_json

_BUSY_SECONDS = 0.5
_QUIET_SECONDS = 3.0
"""Between looks at something that is not settled, and does not move either: Kafka, a topic or a Secret is missing."""
_IDLE_SECONDS = 15.0
_PARTS_SECONDS = 60.0
"""How often it is looked whether Service and budget are there: nobody but people touches them."""
_FIRST_BACKOFF_SECONDS = 0.5
_LAST_BACKOFF_SECONDS = 30.0
_REFUSED = (400, 403, 422)
"""Admission, quota, schema: it will be refused again until somebody changes something."""

log = logging.getLogger("sluice.operator")


@dataclass(slots=True)
class _Loop:
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    quiet_looks: int = 0
    task: asyncio.Task[None] | None = None
    uid: str = ""
    progress: Progress = field(default_factory=Progress)


class Apps:
    """All applications; belongs to the loop in which `kube` was entered."""

    def __init__(
        self, kube: Kube, coordination: Coordination, metrics: OperatorMetrics, namespaces: tuple[str, ...]
    ) -> None:
        """No namespaces = the whole cluster."""
        self._kube = kube
        self._coordination = coordination
        self._execution = Execution(kube, coordination, namespaces)
        self._events = EventLog(kube)
        self._metrics = metrics
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
                await asyncio.sleep(_FIRST_BACKOFF_SECONDS)
                await _changed_within(loop, pause)
                continue
            backoff = _FIRST_BACKOFF_SECONDS
            if pause is None and not loop.changed.is_set():
                del self._loops[key]
                return
            await _changed_within(loop, pause)

    async def _reconcile(self, key: Key, loop: _Loop) -> float | None:
        """Seconds until the next look; None if the application is gone."""
        observed = await self._observe(key, loop)
        if observed is None:
            self._events.forget(loop.uid)
            await self._coordination.drop(key)
            return None
        decided = plan(observed, self._coordination.address)
        app = await self._report(observed.app, decided)
        try:
            for action in decided.actions:
                await self._carry_out(app, action, loop.progress)
        except KubeError as error:
            loop.progress.refusal = str(error) if error.status in _REFUSED else None
            raise
        loop.progress.refusal = None
        has_moved = bool(decided.actions) or app is not observed.app
        loop.quiet_looks = 0 if has_moved else loop.quiet_looks + 1
        busy = min(_QUIET_SECONDS, _BUSY_SECONDS * 2 ** min(loop.quiet_looks, 8))
        return random.uniform(0.8, 1.2) * (_IDLE_SECONDS if decided.is_settled else busy)

    async def _observe(self, key: Key, loop: _Loop) -> Observed | None:
        item = await self._kube.get(paths.app(key))
        if item is None:
            return None
        app = await self._refuse_twins(await self._credentialed(read_app(item)))
        if app.uid != loop.uid:
            loop.uid, loop.progress = app.uid, Progress()
        look = await self._coordination.look(app)  # before the pods: a member without one is then gone
        app = replace(app, problem=app.problem or look.problem)
        selected = selector(app.name)
        pods, claims = await asyncio.gather(
            self._kube.list(paths.pods(app.namespace), selected), self._kube.list(paths.claims(app.namespace), selected)
        )
        progress = loop.progress
        if app.is_going or time.monotonic() >= progress.parts_due:
            progress.parts = await self._find_parts(app)
            progress.parts_due = time.monotonic() + _PARTS_SECONDS
        seen = replace(
            observe(app, look.group, look.reaches_kafka, pods, claims, datetime.now(UTC), progress.refusal),
            parts=progress.parts,
            restarted=dict(progress.restarted),
            knows_nodes=self.nodes.is_readable,
            cleanup=progress.cleanup,
            cleanup_problem=progress.cleanup_problem,
        )
        named = {pod.node for pod in seen.pods} | {claim.node for claim in seen.claims}
        return located(seen, await self.nodes.of(named))

    async def _credentialed(self, app: App) -> App:
        """With what its Secret holds."""
        reference = None if app.spec is None else app.spec.kafka.secret_ref
        if reference is None:
            return app
        try:
            secret = await self._kube.get(f"{paths.secrets(app.namespace)}/{reference.name}")
        except KubeError as error:
            if error.status != 403:
                raise
            secret = None
        return with_credentials(app, secret)

    async def _find_parts(self, app: App) -> dict[Part, str]:
        """The uid of each that is there and is the application's own."""
        items = await asyncio.gather(*(self._kube.get(paths.part(part, app.name, app.namespace)) for part in Part))
        found = zip(Part, items, strict=True)
        return {part: item["metadata"]["uid"] for part, item in found if item is not None and is_owned(item, app.uid)}

    async def _refuse_twins(self, app: App) -> App:
        """Asked only until its Kafka is on record: its applicationId there is its own then."""
        if app.cluster_id is not None or not app.may_be_coordinated:
            return app
        return replace(app, problem=find_elder(app, await self._execution.all_apps()) or app.problem)

    async def _carry_out(self, app: App, action: Action | AddFinalizer | RemoveFinalizer, progress: Progress) -> None:
        match action:
            case AddFinalizer():
                await self._set_finalizers(app, (*app.finalizers, FINALIZER))
                return
            case RemoveFinalizer():
                await self._set_finalizers(app, tuple(each for each in app.finalizers if each != FINALIZER))
                return
        if await self._execution.do(app, action, progress):
            event = event_of(action)
            log.info("%s: %s", "/".join(app.key), event.message if event is not None else action)
            if event is not None:
                await self._events.post(app, event)

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
            await self._events.post(app, event)
        return replace(app, resource_version=written["metadata"]["resourceVersion"])


async def _changed_within(loop: _Loop, seconds: float | None) -> None:
    """Return when something has changed, or when the time is over."""
    try:
        async with asyncio.timeout(seconds):
            await loop.changed.wait()
    except TimeoutError:
        pass
