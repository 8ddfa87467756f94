"""The Kubernetes API in plain JSON, one blocking call at a time: for the cluster's own start, for tests and scripts.

Rejected: the official client. It brings thousands of model classes for the dozen kinds that are touched here, and its
release has to follow the API server's. JSON is what the API speaks, and the standard library speaks it too.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sluice_devkit.kubernetes.errors import ApiError, KubernetesError

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""JSON is YAML: a body in JSON is applied too. The query must name a fieldManager."""

Json = dict[str, Any]

_SECONDS_BETWEEN_LOOKS = 0.03
_NOT_YET = (404, 429, 503)


class KubernetesClient:
    """One identity at one API server. Every method raises ApiError when it refuses and OSError when it can't be had."""

    def __init__(self, url: str, ca_file: Path, token: str, *, timeout_seconds: float = 30) -> None:
        self.url = url
        self.ca_file = ca_file
        self.token = token
        self._timeout = timeout_seconds
        self._tls: ssl.SSLContext | None = None

    def as_(self, token: str) -> KubernetesClient:
        """The same server for somebody else."""
        return KubernetesClient(self.url, self.ca_file, token, timeout_seconds=self._timeout)

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def list(self, path: str) -> list[Json]:
        return list(self.call("GET", path)["items"])

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """Post to a collection, or to a subresource as eviction and token."""
        return self.call("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        return self.call("PUT", path, body)

    def patch(
        self, path: str, body: Mapping[str, Any] | Sequence[Mapping[str, Any]], content_type: str = MERGE_PATCH
    ) -> Json:
        return self.call("PATCH", path, body, content_type)

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """Delete an object; the body may hold gracePeriodSeconds, propagationPolicy, preconditions."""
        return self.call("DELETE", path, body)

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def text(self, path: str) -> str:
        """An answer that is no JSON, as of /readyz and /metrics."""
        return self._send("GET", path, None, "application/json")

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        answer: Json = json.loads(self._send(method, path, body, content_type))
        return answer

    def wait_for(self, what: str, holds: Callable[[], bool], seconds: float = 30) -> None:
        """Block until the observation holds; not found and too busy are not yet. Raises KubernetesError."""
        deadline = time.monotonic() + seconds
        while not _observed(holds):
            if time.monotonic() > deadline:
                raise KubernetesError(f"Not within {seconds:.0f} s: {what}.")
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _send(self, method: str, path: str, body: Any, content_type: str) -> str:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": "*/*"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - our own https
        try:
            with self._direct().open(request, timeout=self._timeout) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise ApiError.of(error.code, error.read().decode(errors="replace")) from None

    def _direct(self) -> urllib.request.OpenerDirector:
        """Past every proxy of the environment: the server is on loopback."""
        self._tls = self._tls or ssl.create_default_context(cafile=str(self.ca_file))
        https = urllib.request.HTTPSHandler(context=self._tls)
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), https)


def _observed(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except ApiError as error:
        if error.status in _NOT_YET:
            return False
        raise
