"""What kopf does for us: it watches, and says which application has changed. It keeps no state on objects."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import aiohttp
import kopf

from sluice_operator.apps.loops import Apps
from sluice_operator.kube.calls import ApiCalls
from sluice_operator.kube.client import login
from sluice_operator.names import APP_LABEL
from sluice_operator.spec.model import API_VERSION, GROUP, PLURAL, VERSION

_CALL_SECONDS = 30.0


def watched_paths(namespaces: tuple[str, ...]) -> frozenset[str]:
    """Of everything without which an application may be looked at too late. No namespaces = the whole cluster."""
    kinds = ((f"/apis/{API_VERSION}", PLURAL), ("/api/v1", "pods"), ("/api/v1", "persistentvolumeclaims"))
    where = [f"/namespaces/{namespace}" for namespace in namespaces] or [""]
    return frozenset(f"{version}{place}/{plural}" for version, plural in kinds for place in where)


async def watch(apps: Apps, namespaces: tuple[str, ...], stop: threading.Event, calls: ApiCalls) -> None:
    """Wake applications until `stop` is set. No namespaces = the whole cluster."""
    await apps.nodes.check()
    await kopf.operator(
        registry=_registry(apps, calls),
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )


def _registry(apps: Apps, calls: ApiCalls) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return _traced(login(), calls)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def on_app(namespace: str | None, name: str | None, **_: Any) -> None:
        apps.wake((namespace or "", name or ""))

    @kopf.on.event("v1", "pods", labels={APP_LABEL: kopf.PRESENT}, registry=registry)
    @kopf.on.event("v1", "persistentvolumeclaims", labels={APP_LABEL: kopf.PRESENT}, registry=registry)
    async def on_part(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        apps.wake((namespace or "", labels[APP_LABEL]))

    if apps.nodes.is_readable:

        @kopf.on.event("v1", "nodes", registry=registry)
        async def on_node(type: str | None, name: str | None, body: Mapping[str, Any], **_: Any) -> None:  # noqa: A002
            if type == "DELETED":
                apps.nodes.forget(name or "")
                apps.wake_all()
            elif apps.nodes.take(body):
                apps.wake_all()

    return registry


def _traced(info: kopf.ConnectionInfo, calls: ApiCalls) -> kopf.AiohttpSession:
    """kopf's session as it would make it itself, except that its requests are seen."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        trace_configs=[calls.trace()],
    )
    return kopf.AiohttpSession(server=info.server, default_namespace=info.default_namespace, aiohttp_session=session)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = _CALL_SECONDS
    settings.watching.label_selectors["pods"] = APP_LABEL
    settings.watching.label_selectors["persistentvolumeclaims"] = APP_LABEL
    return settings
