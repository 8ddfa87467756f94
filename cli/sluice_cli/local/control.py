"""The supervisor's own small API on loopback: what runs, and how many workers there should be."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable

from aiohttp import web

from sluice_cli.running.view import LONG_POLL_SECONDS, PATH, WORKERS_PATH, LocalView, WantedWorkers
from sluice_protocol.wire import MalformedMessageError, decode, encode

_LARGEST_BODY = 4_096


class ControlServer:
    """Serves the newest view that it was given; a command goes to `scale`."""

    def __init__(self, secret: str, view: LocalView, scale: Callable[[int], Awaitable[LocalView]]) -> None:
        self._secret = secret
        self._view = view
        self._scale = scale
        self._shown = asyncio.Condition()
        application = web.Application(client_max_size=_LARGEST_BODY, middlewares=[self._authenticate])
        application.router.add_get(PATH, self._on_get)
        application.router.add_put(WORKERS_PATH, self._on_put)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> str:
        """Listen on a free port of loopback; gives the base URL."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def show(self, view: LocalView) -> None:
        """Make this the view that everybody sees."""
        async with self._shown:
            self._view = view
            self._shown.notify_all()

    async def stop(self) -> None:
        """Close every connection."""
        await self._runner.cleanup()

    @web.middleware
    async def _authenticate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._secret}".encode()):
            raise web.HTTPUnauthorized(text="the secret is not the one of this run directory")
        return await handler(request)

    async def _on_get(self, request: web.Request) -> web.Response:
        after = request.query.get("after")
        if after is not None and after.isdecimal():
            await self._await_other_than(int(after))
        return _answer(self._view)

    async def _on_put(self, request: web.Request) -> web.Response:
        try:
            wanted = decode(WantedWorkers, await request.read())
        except MalformedMessageError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        if wanted.count < 0:
            raise web.HTTPBadRequest(text=f"{wanted.count} workers were asked for; it must be at least 0")
        return _answer(await self._scale(wanted.count))

    async def _await_other_than(self, version: int) -> None:
        try:
            async with asyncio.timeout(LONG_POLL_SECONDS), self._shown:
                await self._shown.wait_for(lambda: self._view.version != version)
        except TimeoutError:
            return


def _answer(view: LocalView) -> web.Response:
    return web.Response(body=encode(view), content_type="application/json")
