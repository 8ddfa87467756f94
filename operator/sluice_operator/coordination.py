"""The coordinator inside the operator: the groups of all applications and their HTTP, in an event loop of their own.

kopf cancels every task of its loop when it ends, and a big decision blocks the loop in which it is made; so that
this one is shared with nobody.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from sluice_coordinator.driver import Driver
from sluice_coordinator.group import events
from sluice_coordinator.main import fencer, topic_admin
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.server import Server
from sluice_coordinator.settings import CoordinatorSettings
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube, Login
from sluice_operator.kube.memory import RaiseEpoch, StreamsAppMemory, recorded
from sluice_operator.kube.tokens import TokenAdmission
from sluice_operator.observed import App, read_app
from sluice_operator.workers.manifests import Coordinator
from sluice_protocol.view import GroupView

_SHUTDOWN_SECONDS = 1.0

Result = TypeVar("Result")
Key = tuple[str, str]

log = logging.getLogger("sluice.operator")


@dataclass(frozen=True, slots=True)
class Look:
    """A group at one moment; None if there is none (yet)."""

    group: GroupView | None
    reaches_kafka: bool


@dataclass(frozen=True, slots=True)
class _Running:
    uid: str
    settings: CoordinatorSettings
    driver: Driver


class Coordination:
    """Its methods may be awaited in any loop, from `start` to `stop`."""

    def __init__(self, login: Login, address: Coordinator, host: str, port: int, raise_epoch: RaiseEpoch) -> None:
        """`address`: how workers reach it."""
        self.address = address
        self._login = login
        self._listen_at = (host, port)
        self._raise_epoch = raise_epoch
        self._running: dict[Key, _Running] = {}
        self._drivers: dict[Key, Driver] = {}
        self._metrics = Metrics(lambda: [each.driver.view() for each in self._running.values()])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coordinator", daemon=True)

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        self._thread.start()
        await self._run(self._start())

    async def stop(self) -> None:
        """Close every group; workers go on with what they have."""
        await self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def look(self, app: App) -> Look:
        """The group of an application; begins one, or begins it anew when its settings have changed."""
        return await self._run(self._look(app))

    async def tell(self, key: Key, event: events.Event) -> None:
        """Tell a group something; nothing happens if there is none."""
        await self._run(self._tell(key, event))

    async def drop(self, key: Key) -> None:
        """The application is gone."""
        await self._run(self._drop(key))

    async def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _start(self) -> None:
        self._kube = await Kube(self._login).__aenter__()
        server = Server(self._drivers, self._metrics, TokenAdmission(self._kube), has_all=False)
        self._runner = web.AppRunner(
            server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._listen_at).start()

    async def _stop(self) -> None:
        for key in list(self._running):
            await self._drop(key)
        await self._runner.cleanup()
        await self._kube.__aexit__(None, None, None)

    async def _look(self, app: App) -> Look:
        if app.spec is not None and app.problem is None and not app.is_going:
            await self._ensure(app, app.spec.coordinator_settings(app.namespace, app.name))
        running = self._running.get(app.key)
        if running is None:
            return Look(None, False)
        return Look(running.driver.view(), running.driver.has_reached_kafka)

    async def _ensure(self, app: App, settings: CoordinatorSettings) -> None:
        running = self._running.get(app.key)
        if running is not None and (running.uid, running.settings) == (app.uid, settings):
            return
        await self._drop(app.key)
        loop = asyncio.get_running_loop()
        leader = await loop.run_in_executor(None, self._raise_epoch, 0)
        item = await self._kube.get(paths.app(app.key))
        if item is None:
            return
        memory = StreamsAppMemory(
            self._kube, loop, (app.key, app.uid), leader, recorded(read_app(item)), self._raise_epoch
        )
        driver = Driver(settings, memory, topic_admin(settings), fencer(settings), self._metrics)
        driver.start()
        self._running[app.key] = _Running(app.uid, settings, driver)
        self._drivers[app.key] = driver
        log.info("%s: coordinated under leader epoch %d", "/".join(app.key), leader)

    async def _tell(self, key: Key, event: events.Event) -> None:
        driver = self._drivers.get(key)
        if driver is not None:
            driver.tell(event)

    async def _drop(self, key: Key) -> None:
        self._drivers.pop(key, None)
        running = self._running.pop(key, None)
        if running is not None:
            await running.driver.close()
