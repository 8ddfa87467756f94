"""The coordinator inside the operator: the groups of all applications and their HTTP, in an event loop of their own.

kopf cancels every task of its loop when it ends, and a big decision blocks the loop in which it is made; so that
this one is shared with nobody.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from sluice_coordinator.driver import Driver
from sluice_coordinator.group import events
from sluice_coordinator.main import fencer, topic_admin
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.server import Server
from sluice_coordinator.settings import CoordinatorSettings
from sluice_coordinator.threads import in_thread
from sluice_coordinator.topics.admin import KafkaRefusedError
from sluice_coordinator.topics.connections import AdminConnections, InvalidKafkaConfigError
from sluice_operator import kafka_config
from sluice_operator.certificates import CertificatesDamagedError, names_of
from sluice_operator.errors import KubeError
from sluice_operator.kube.certificates import ServingCertificates
from sluice_operator.kube.client import Kube
from sluice_operator.kube.elector import Elector
from sluice_operator.kube.memory import RaiseEpoch, StreamsAppMemory
from sluice_operator.kube.ownership import Ownership
from sluice_operator.kube.tokens import TokenAdmission
from sluice_operator.metrics import OperatorMetrics
from sluice_operator.observed import App, Problem, refusal_of
from sluice_operator.pulse import Pulse
from sluice_operator.reasons import Reason
from sluice_operator.uniqueness import find_twin
from sluice_operator.workers.manifests import Coordinator
from sluice_protocol.route import NotCoordinator
from sluice_protocol.view import GroupView

_SHUTDOWN_SECONDS = 1.0
_EXPOSITION_SECONDS = 5.0
_FOLLOW_SECONDS = 60.0

Result = TypeVar("Result")
Key = tuple[str, str]

log = logging.getLogger("sluice.operator")


Connect = Callable[[Callable[[], None] | None], Kube]
"""A new client; the argument is called before it changes anything."""


@dataclass(frozen=True, slots=True)
class CoordinationSettings:
    """Where workers reach the coordinator, where this process listens, which Secret has the certificates, and where the
    applications are (no namespaces = the whole cluster)."""

    url: str
    host: str
    port: int
    namespace: str
    secret: str
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """A group at one moment; None if there is none (yet). `problem`: why it has not been begun with the settings that
    the application has now, or does not go on with them."""

    group: GroupView | None
    reaches_kafka: bool
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Running:
    uid: str
    settings: CoordinatorSettings
    driver: Driver


class Coordination:
    """Its methods may be awaited in any loop, from `start` to `stop`.

    It listens whether this process leads or not: one that doesn't says who does.
    """

    def __init__(
        self,
        settings: CoordinationSettings,
        elector: Elector,
        raise_epoch: RaiseEpoch,
        connect: Connect,
        metrics: OperatorMetrics,
        pulse: Pulse,
    ) -> None:
        """`connect` makes clients of the Kubernetes API."""
        self._settings = settings
        self._elector = elector
        self._raise_epoch = raise_epoch
        self._kube = connect(elector.check)
        self._ownership = Ownership(self._kube, settings.namespaces)
        self._operator_metrics = metrics
        self._metrics = Metrics(self._views, metrics.registry)
        self._pulse = pulse
        names = names_of(settings.url)
        self._certificates = ServingCertificates(connect(None), settings.namespace, settings.secret, names)
        self._running: dict[Key, _Running] = {}
        self._drivers: dict[Key, Driver] = {}
        self._last_settings: dict[Key, CoordinatorSettings] = {}
        """Of groups that have ended and whose topics are still to be deleted: their Secret may be gone by then."""
        self._connections = AdminConnections()
        self._epoch: int | None = None
        self._led: set[Key] = set()
        self._raising = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coordinator", daemon=True)
        self.looked_at: set[Key] = set()
        """Applications of which the group has been looked at, or is gone."""

    @property
    def address(self) -> Coordinator:
        """How workers reach it."""
        return Coordinator(self._settings.url, self._certificates.current.ca)

    async def start(self) -> None:
        """Listen. Raises OSError, CertificatesDamagedError."""
        self._thread.start()
        await self._run(self._start())

    async def stop(self) -> None:
        """Close every group; workers go on with what they have."""
        await self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def exposition(self) -> bytes:
        """The metrics of everything, from any other thread. Raises TimeoutError if the loop is busy for too long."""
        return asyncio.run_coroutine_threadsafe(self._expose(), self._loop).result(_EXPOSITION_SECONDS)

    async def look(self, app: App) -> Look:
        """The group of an application; begins one, or begins it anew when its settings have changed."""
        return await self._run(self._look(app))

    async def tell(self, key: Key, event: events.Event) -> None:
        """Tell a group something; nothing happens if there is none."""
        await self._run(self._tell(key, event))

    async def clean_up(self, app: App, topics: tuple[str, ...], others: Iterable[App]) -> None:
        """End the group, then delete its topics and its consumer group, if they are none of the others'. Raises
        KafkaUnreachableError, KafkaRefusedError, LostError."""
        await self._run(self._clean_up(app, topics, others))

    async def drop(self, key: Key) -> None:
        """The application is gone."""
        self.looked_at.add(key)
        self._last_settings.pop(key, None)
        await self._run(self._drop(key))

    async def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _start(self) -> None:
        await self._kube.__aenter__()
        await self._certificates.kube.__aenter__()
        await self._certificates.load()
        self._note_expiry()
        server = Server(self._drivers, self._metrics, TokenAdmission(self._kube), self._elsewhere)
        self._runner = web.AppRunner(
            server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        where = self._settings.host, self._settings.port
        await web.TCPSite(self._runner, *where, ssl_context=self._certificates.context).start()
        self._tasks = [asyncio.create_task(work) for work in (self._pulse.beat("coordinator"), self._follow())]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for key in list(self._running):
            await self._drop(key)
        await self._runner.cleanup()
        await self._certificates.kube.__aexit__(None, None, None)
        await self._kube.__aexit__(None, None, None)

    def _elsewhere(self) -> NotCoordinator | None:
        if self._elector.is_leading:
            return None
        return NotCoordinator(f"{self._elector.identity} does not lead", self._elector.leader_url)

    async def _follow(self) -> None:
        """Keep the certificates."""
        while True:
            await asyncio.sleep(_FOLLOW_SECONDS * random.uniform(0.8, 1.2))
            try:
                await self._certificates.follow(leads=self._elector.is_leading)
                self._note_expiry()
            except (KubeError, CertificatesDamagedError) as error:
                log.warning("the coordinator's certificates: %s", error)
            except Exception:
                log.exception("the coordinator's certificates can't be kept; the next try is in a minute")

    def _note_expiry(self) -> None:
        current = self._certificates.current
        self._operator_metrics.serves(current.ca_expires, current.expires)

    async def _expose(self) -> bytes:
        return self._metrics.exposition()

    def _views(self) -> list[tuple[Key, GroupView]]:
        return [(key, running.driver.view()) for key, running in self._running.items()]

    async def _look(self, app: App) -> Look:
        problem = None
        if app.spec is not None and app.may_be_coordinated:
            settings = app.spec.coordinator_settings(app.namespace, app.name, app.credentials)
            try:
                await self._ensure(app, settings)
            except InvalidKafkaConfigError as error:
                problem = Problem(Reason.INVALID_KAFKA_CONFIG, f"{_refusal(app, settings, error)}.")
        self.looked_at.add(app.key)
        running = self._running.get(app.key)
        if running is None:
            return Look(None, False, problem)
        view = running.driver.view()
        return Look(view, running.driver.has_reached_kafka, problem or refusal_of(view))

    async def _ensure(self, app: App, settings: CoordinatorSettings) -> None:
        running = self._running.get(app.key)
        if running is not None and running.uid != app.uid:
            await self._drop(app.key)
        elif running is not None and running.settings == settings:
            return
        check = self._elector.check
        topics, fences = topic_admin(settings, self._connections, check), fencer(settings, check)
        await self._drop(app.key)  # only now: what runs goes on if the new settings are invalid
        leader = await self._leader_epoch(app.key)
        memory = StreamsAppMemory(
            self._kube, self._loop, (app.key, app.uid), leader, self._raise_epoch, self._ownership
        )
        await memory.take_over()
        driver = Driver(settings, memory, topics, fences, self._metrics)
        driver.start()
        self._running[app.key] = _Running(app.uid, settings, driver)
        self._drivers[app.key] = driver
        log.info("%s: coordinated under leader epoch %d", "/".join(app.key), driver.view().epoch.leader)

    async def _leader_epoch(self, key: Key) -> int:
        """One that this application has not been led under. The first of each is that of the process: a raise for every
        application would keep the Lease busy when a leader of many begins."""
        async with self._raising:
            if self._epoch is None:
                self._epoch = await in_thread(lambda: self._raise_epoch(0))
            epoch = await in_thread(lambda: self._raise_epoch(0)) if key in self._led else self._epoch
            self._led.add(key)
            return epoch

    async def _tell(self, key: Key, event: events.Event) -> None:
        driver = self._drivers.get(key)
        if driver is not None:
            driver.tell(event)

    async def _clean_up(self, app: App, topics: tuple[str, ...], others: Iterable[App]) -> None:
        running = self._running.get(app.key)
        if running is not None:
            self._last_settings[app.key] = running.settings
        await self._drop(app.key)
        settings = self._last_settings.get(app.key)
        if settings is None and app.spec is not None:
            settings = app.spec.coordinator_settings(app.namespace, app.name, app.credentials)
        if settings is not None:
            try:
                admin = topic_admin(settings, self._connections, self._elector.check)
            except InvalidKafkaConfigError as error:
                raise KafkaRefusedError(_refusal(app, settings, error)) from None
            cluster_id = await in_thread(admin.check)
            if app.cluster_id not in (None, cluster_id):
                raise KafkaRefusedError(
                    f"spec.kafka.bootstrapServers leads to cluster {cluster_id}, and what is to be deleted is on "
                    f"cluster {app.cluster_id}"
                )
            if find_twin(app, others, cluster_id) is None:
                await in_thread(lambda: admin.delete(topics, settings.application_id))
        self._last_settings.pop(app.key, None)

    async def _drop(self, key: Key) -> None:
        self._drivers.pop(key, None)
        running = self._running.pop(key, None)
        if running is not None:
            await running.driver.close()


def _refusal(app: App, settings: CoordinatorSettings, error: InvalidKafkaConfigError) -> str:
    return kafka_config.refusal(str(error), settings.kafka_config, {} if app.spec is None else app.spec.kafka.config)
