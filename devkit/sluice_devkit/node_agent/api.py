"""The Kubernetes API for many pods at once: asynchronous, patient with outages, and with watches that never end.

A node's agent rides out an API server that is away, as a kubelet does: no pod may die of it. So every call goes on
trying until it is answered, and a watch that breaks is taken up with a new list.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from sluice_devkit.kubernetes.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Json
from sluice_devkit.kubernetes.errors import ApiError

_RETRY_SECONDS = 0.2
_CALL_SECONDS = 15
_WATCH_SECONDS = 300
_LONGEST_LINE = 8 * 1024 * 1024
_TRY_AGAIN = (429, 500, 503, 504)


class Api:
    """One identity at one API server. Use it as an asynchronous context manager."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._gate: asyncio.Event | None = None
        self._url = url
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "sluice-node-agent"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self._session = aiohttp.ClientSession(
            headers=self._headers, connector=connector, trust_env=False, read_bufsize=_LONGEST_LINE
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        parts = urlsplit(self._url)
        return parts.hostname or "", parts.port or 443

    def behind(self, gate: asyncio.Event) -> Api:
        """The same connections, for somebody whose calls wait while the gate is closed (not set)."""
        gated = copy.copy(self)
        gated._gate = gate
        return gated

    async def get(self, path: str) -> Json:
        return await self.call("GET", path)

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        return await self.call("POST", path, body)

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        return await self.call("PATCH", path, body, MERGE_PATCH)

    async def patch_status(self, path: str, body: Mapping[str, Any]) -> Json:
        return await self.call("PATCH", f"{path}/status", body, STRATEGIC_MERGE_PATCH)

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        return await self.call("DELETE", path, body)

    async def ensure(self, collection: str, body: Mapping[str, Any]) -> None:
        """Create, unless it is there already."""
        try:
            await self.create(collection, body)
        except ApiError as error:
            if error.status != 409:
                raise

    async def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        """One request, repeated until the server answers it. Raises ApiError when it refuses."""
        while True:
            if self._gate is not None:
                await self._gate.wait()
            try:
                status, text = await self._send(method, path, body, content_type)
            except (aiohttp.ClientError, TimeoutError, OSError):
                status, text = 503, ""
            if status < 300:
                answer: Json = json.loads(text)
                return answer
            if status not in _TRY_AGAIN:
                raise ApiError.of(status, text)
            await asyncio.sleep(_RETRY_SECONDS)

    async def watch(self, path: str) -> AsyncIterator[tuple[str, Json | None]]:
        """Every change of a collection for ever, as (uid, object); None stands for an object that is gone.

        What happened while no watch ran is told after the next list.
        """
        known: set[str] = set()
        while True:
            page = await self.get(path)
            present = {item["metadata"]["uid"]: item for item in page["items"]}
            for uid in known - present.keys():
                yield uid, None
            for uid, item in present.items():
                yield uid, item
            known = set(present)
            async for uid, item in self._changes(path, page["metadata"]["resourceVersion"]):
                if item is None:
                    known.discard(uid)
                else:
                    known.add(uid)
                yield uid, item

    async def _changes(self, path: str, version: str) -> AsyncIterator[tuple[str, Json | None]]:
        """The changes after a version, until the server ends the watch or is lost."""
        url = f"{self._url}{path}?watch=1&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        patience = aiohttp.ClientTimeout(total=None, sock_connect=_CALL_SECONDS, sock_read=_WATCH_SECONDS + 30)
        try:
            async with self._http.get(url, timeout=patience) as answer:
                while line := await answer.content.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR" or "object" not in event:
                        return
                    item = event["object"]
                    yield item["metadata"]["uid"], None if event["type"] == "DELETED" else item
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError):
            await asyncio.sleep(_RETRY_SECONDS)

    async def _send(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, str]:
        data = None if body is None else json.dumps(body)
        patience = aiohttp.ClientTimeout(total=_CALL_SECONDS)
        headers = {"Content-Type": content_type}
        async with self._http.request(method, self._url + path, data=data, headers=headers, timeout=patience) as answer:
            return answer.status, await answer.text()

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("Enter the Api before you use it.")
        return self._session
