"""The Kubernetes API as JSON over HTTP: time-outs, retries and credentials in one place.

Not a generated client: the few calls that we make are verbs on paths, and its models cost 70 MiB of memory a process.
A client belongs to the event loop in which it was entered.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import kopf

from sluice_operator.errors import ConflictError, KubeError

Json = dict[str, Any]
Login = Callable[[], kopf.ConnectionInfo]

MERGE_PATCH = "application/merge-patch+json"

_CALL_SECONDS = 10.0
_CREDENTIAL_SECONDS = 60.0
"""Tokens of service accounts are renewed in their file."""
_ATTEMPTS = 3
_RETRY_SECONDS = 0.2


def login() -> kopf.ConnectionInfo:
    """The service account of this pod, else the current context of the kubeconfig. Raises KubeError."""
    settings = kopf.OperatorSettings()
    found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    if found is None:
        raise KubeError(0, "NoCredentials", "there is neither a service account nor a kubeconfig; set KUBECONFIG")
    return found


class Kube:
    """Use as an asynchronous context manager."""

    def __init__(
        self, login: Login, check: Callable[[], None] | None = None, traces: Sequence[aiohttp.TraceConfig] = ()
    ) -> None:
        """`check` is called right before whatever changes something is sent, and may raise instead."""
        self._login = login
        self._check = check or (lambda: None)
        self._traces = list(traces)
        self.changing = 0
        """Calls on their way that change something."""
        self._logged_in_at = -_CREDENTIAL_SECONDS
        self._headers: dict[str, str] = {}
        self._server = ""

    async def __aenter__(self) -> Self:
        info = self._login()
        connector = aiohttp.TCPConnector(ssl=info.as_ssl_context(), limit=32)
        self._session = aiohttp.ClientSession(connector=connector, trace_configs=self._traces)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str) -> Json | None:
        """The object; None if there is none. Raises KubeError."""
        try:
            return await self.call("GET", path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, path: str, selector: str = "") -> list[Json]:
        """The objects as they are now, not as a cache has them. Raises KubeError."""
        items: list[Json] = (await self.call("GET", path, query={"labelSelector": selector}))["items"]
        return items

    async def create(self, path: str, body: Json) -> bool:
        """False if one of this name exists already. Raises KubeError."""
        try:
            await self.call("POST", path, body)
        except KubeError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return False
            raise
        return True

    async def delete(self, path: str, uid: str) -> bool:
        """Delete this very object; False if it is not there any more. Raises KubeError."""
        try:
            await self.call("DELETE", path, {"preconditions": {"uid": uid}, "propagationPolicy": "Background"})
        except KubeError as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def patch(self, path: str, body: Json) -> Json:
        """Merge; with metadata.resourceVersion in it only if nobody was quicker. Raises KubeError."""
        return await self.call("PATCH", path, body, content_type=MERGE_PATCH)

    async def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """Any call. A read is tried again when the connection breaks. Raises KubeError."""
        for attempt in range(_ATTEMPTS):
            try:
                return await self._call(method, path, body, query or {}, content_type)
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                if method != "GET" or attempt == _ATTEMPTS - 1:
                    raise KubeError(0, "Unreachable", f"{method} {path}: {str(error) or 'timed out'}") from error
                await asyncio.sleep(_RETRY_SECONDS)
        raise AssertionError("unreachable")

    async def _call(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str], content_type: str
    ) -> Json:
        self._renew_credentials()
        if method == "GET":
            return await self._send(method, path, body, query, content_type)
        self._check()
        self.changing += 1
        try:
            return await self._send(method, path, body, query, content_type)
        finally:
            self.changing -= 1

    async def _send(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str], content_type: str
    ) -> Json:
        async with (
            asyncio.timeout(_CALL_SECONDS),
            self._session.request(
                method,
                self._server + path,
                params=query,
                data=None if body is None else json.dumps(body),
                headers={**self._headers, "Content-Type": content_type},
            ) as response,
        ):
            text = await response.text()
            if response.status >= 400:
                raise _refusal(method, path, response.status, text)
            answer: Json = json.loads(text)
            return answer

    def _renew_credentials(self) -> None:
        now = time.monotonic()
        if now - self._logged_in_at >= _CREDENTIAL_SECONDS:
            info = self._login()
            self._headers, self._server, self._logged_in_at = info.as_http_headers(), info.server, now


def _refusal(method: str, path: str, status: int, text: str) -> KubeError:
    try:
        said = json.loads(text)
    except ValueError:
        said = {}
    reason, message = said.get("reason", ""), f"{method} {path}: {said.get('message') or text[:500]}"
    return ConflictError(status, reason, message) if reason == "Conflict" else KubeError(status, reason, message)
