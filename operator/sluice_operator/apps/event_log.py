"""Events of Kubernetes about a StreamsApp: what is said again is counted, and nobody is flooded.

An event's name is a digest of what it says, so that the API server itself finds out that it was said before. Events are
a courtesy: one that can't be written stops nothing.
"""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import UTC, datetime

from sluice_operator.errors import KubeError
from sluice_operator.event_limits import EventLimit
from sluice_operator.kube import paths
from sluice_operator.kube.client import Json, Kube
from sluice_operator.observed import App
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_operator.status import Event

_COMPONENT = "sluice-operator"
_LONGEST = 1024

log = logging.getLogger("sluice.operator")


class EventLog:
    """Of all applications."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._limits: dict[str, EventLimit] = {}

    def forget(self, uid: str) -> None:
        """The application is gone."""
        self._limits.pop(uid, None)

    async def post(self, app: App, event: Event) -> None:
        """Say it; nothing happens if the application has said too much lately."""
        if not self._limits.setdefault(app.uid, EventLimit()).allows(time.monotonic()):
            log.info("%s: an event too many: %s %s", "/".join(app.key), event.reason, event.message)
            return
        try:
            await self._write(app, event)
        except KubeError as error:
            log.warning("%s: event %s can't be written: %s", "/".join(app.key), event.reason, error)

    async def _write(self, app: App, event: Event) -> None:
        body = _body(app, event)
        if await self._kube.create(paths.events(app.namespace), body):
            return
        path = f"{paths.events(app.namespace)}/{body['metadata']['name']}"
        former = await self._kube.get(path)
        if former is not None:
            again = {"count": former.get("count", 1) + 1, "lastTimestamp": body["lastTimestamp"]}
            await self._kube.patch(path, again)


def _body(app: App, event: Event) -> Json:
    message = event.message[:_LONGEST]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256("\n".join([app.uid, event.kind, event.reason, message]).encode()).hexdigest()[:16]
    return {
        "metadata": {"name": f"{app.name}.{digest}", "namespace": app.namespace},
        "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, "namespace": app.namespace, "name": app.name,
                           "uid": app.uid, "resourceVersion": app.resource_version},
        "type": event.kind, "reason": event.reason, "message": message,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        "source": {"component": _COMPONENT}, "reportingComponent": _COMPONENT,
    }  # fmt: skip
