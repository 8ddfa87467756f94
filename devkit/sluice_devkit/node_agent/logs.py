"""What a kubelet serves to the API server, as far as `kubectl logs` needs it.

One log holds what all runs of a pod's container have said.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

_LOOK_SECONDS = 0.2


class LogServer:
    """Serves the logs of all nodes on one port of loopback. `find` gives the log of a pod, None when there is none."""

    def __init__(self, certificate: Path, key: Path, find: Callable[[str, str], Path | None]) -> None:
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificate, key)
        self._find = find
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)

    async def start(self) -> int:
        """Start to serve, and return the port."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        log = self._find(namespace, pod)
        if log is None:
            raise web.HTTPNotFound(text=f"{namespace}/{pod} has no log on this node")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        content = await asyncio.to_thread(log.read_bytes)
        await response.write(_last_lines(content, request.query.get("tailLines")))
        if request.query.get("follow") == "true":
            await self._follow(response, log, len(content), lambda: self._find(namespace, pod) == log)
        return response

    async def _follow(
        self, response: web.StreamResponse, log: Path, position: int, is_there: Callable[[], bool]
    ) -> None:
        """Send what is added, until the pod is gone or nobody listens."""
        while is_there():
            with log.open("rb") as file:
                file.seek(position)
                added = file.read()
            position += len(added)
            if added:
                await response.write(added)
            await asyncio.sleep(_LOOK_SECONDS)


def _last_lines(content: bytes, wanted: str | None) -> bytes:
    if wanted is None:
        return content
    lines = content.splitlines(keepends=True)
    return b"".join(lines[len(lines) - min(int(wanted), len(lines)) :])
