"""Every request to the Kubernetes API, ours and kopf's, as it is answered: counted, and watches noticed.

Both make them with aiohttp sessions, whose tracing sees each; so that neither has to know of it.
"""

from __future__ import annotations

import re
import threading
import time
from types import SimpleNamespace
from urllib.parse import SplitResult, parse_qs, urlsplit

import aiohttp

from sluice_operator.metrics import OperatorMetrics

_PATH = re.compile(
    r"/(?:api/[^/]+|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+(?=/))?/(?P<kind>[a-z]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>[a-z]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ApiCalls:
    """Sees the requests of each session that it traces."""

    def __init__(self, metrics: OperatorMetrics) -> None:
        self._metrics = metrics
        self._watched: set[str] = set()
        self._lock = threading.Lock()

    def trace(self) -> aiohttp.TraceConfig:
        """For a new session."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._on_start)
        trace.on_request_end.append(self._on_end)
        trace.on_request_exception.append(self._on_exception)
        return trace

    @property
    def watched(self) -> frozenset[str]:
        """Paths whose objects have been listed, and are watched since."""
        with self._lock:
            return frozenset(self._watched)

    async def _on_start(
        self, _: aiohttp.ClientSession, context: SimpleNamespace, parameters: aiohttp.TraceRequestStartParams
    ) -> None:
        context.began = time.monotonic()

    async def _on_end(
        self, _: aiohttp.ClientSession, context: SimpleNamespace, parameters: aiohttp.TraceRequestEndParams
    ) -> None:
        verb = self._count(parameters.method, str(parameters.url), parameters.response.status, context.began)
        if verb == "watch" and parameters.response.status == 200:
            with self._lock:
                self._watched.add(parameters.url.path)

    async def _on_exception(
        self, _: aiohttp.ClientSession, context: SimpleNamespace, parameters: aiohttp.TraceRequestExceptionParams
    ) -> None:
        self._count(parameters.method, str(parameters.url), 0, context.began)

    def _count(self, method: str, url: str, status: int, began: float) -> str:
        verb, resource = kind_of(method, url)
        self._metrics.api_calls.labels(verb, resource, str(status)).inc()
        if verb != "watch":
            self._metrics.api_seconds.labels(verb).observe(time.monotonic() - began)
        return verb


def kind_of(method: str, url: str) -> tuple[str, str]:
    """The verb and the resource of a request, in the words of Kubernetes' RBAC; `other` is what is no resource."""
    parts = urlsplit(url)
    found = _PATH.fullmatch(parts.path)
    if found is None:
        return _verb(method, parts, is_named=False), "other"
    kind, subresource = found["kind"], found["subresource"]
    resource = kind if subresource is None else f"{kind}/{subresource}"
    return _verb(method, parts, is_named=found["name"] is not None), resource


def _verb(method: str, parts: SplitResult, *, is_named: bool) -> str:
    if method != "GET":
        return _VERBS.get(method, "other")
    if parse_qs(parts.query).get("watch") == ["true"]:
        return "watch"
    return "get" if is_named else "list"
