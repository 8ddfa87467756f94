"""The operator process: stands for election, and while it leads coordinates every application and keeps its pods.

Three event loops, one a thread: the elector's here, which nothing else may delay; the coordinator's, which listens from
the start and says who leads; kopf's, which only the leader has. Losing the lease ends the process at once, without
tidying up: the next leader may act already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from sluice_operator.apps.loops import Apps
from sluice_operator.apps.watches import watch, watched_paths
from sluice_operator.certificates import CertificatesDamagedError
from sluice_operator.coordination import Coordination, CoordinationSettings, Key
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.calls import ApiCalls
from sluice_operator.kube.client import Kube, login
from sluice_operator.kube.elector import Elector, LeaseSettings
from sluice_operator.metrics import OperatorMetrics
from sluice_operator.probes import Probes
from sluice_operator.pulse import Pulse

_EXIT_LOST = 70
_EPOCH_SECONDS = 15.0
_STOP_SECONDS = 10.0
_LIST_RETRY_SECONDS = 2.0

log = logging.getLogger("sluice.operator")


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """What an operator process is told. No namespaces = the whole cluster."""

    lease: LeaseSettings
    identity: str
    coordinator_url: str
    """At which workers reach the coordinator (https)."""
    tls_secret: str
    """In the namespace of the Lease."""
    advertised_url: str | None = None
    """At which this very process coordinates while it leads; None = workers have to find it."""
    host: str = "0.0.0.0"  # noqa: S104 - workers come from other pods
    port: int = 8080
    probe_port: int = 8081
    namespaces: tuple[str, ...] = ()


def run_operator(settings: OperatorSettings) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. 1 = it could not start, 70 = it lost the lease."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        return asyncio.run(_run(settings))
    except (OSError, CertificatesDamagedError) as error:
        print(f"the operator can't run: {error}", file=sys.stderr)  # noqa: T201 - the one sentence for its starter
        return 1


async def _run(settings: OperatorSettings) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    operator = _Operator(settings, asyncio.get_running_loop())
    async with operator.kube:
        await operator.listen()
        if not await _elected(operator.elector, stopped):
            await operator.close()
            return 0
        keeping = asyncio.create_task(operator.elector.keep())
        keeping.add_done_callback(_end_if_lost)
        operator.lead()
        await _first(stopped.wait(), operator.ended.wait())
        operator.stop()
        keeping.cancel()
        await operator.elector.release(operator.is_quiet)
        await operator.close()
    return 0 if stopped.is_set() else 1


async def _elected(elector: Elector, stopped: asyncio.Event) -> bool:
    """False if it was asked to stop before."""
    await _first(elector.acquire(), stopped.wait())
    if stopped.is_set():
        await elector.release()
    return elector.is_leading


async def _first(*works: object) -> None:
    """Return when one of them has finished; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]  # type: ignore[call-overload]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in done:
        task.result()


def _end_if_lost(keeping: asyncio.Task[None]) -> None:
    if keeping.cancelled():
        return
    log.critical("%s; the process ends", keeping.exception())
    logging.shutdown()
    os._exit(_EXIT_LOST)


class _Operator:
    """The parts of the process. `listen` first; `lead` once it is elected."""

    def __init__(self, settings: OperatorSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._pulse = Pulse()
        self._metrics = OperatorMetrics()
        self._calls = ApiCalls(self._metrics)
        self._kubes: list[Kube] = []
        self.kube = self._connect(None)
        self.elector = Elector(self.kube, settings.lease, settings.identity, settings.advertised_url)
        self._metrics.follow_leader(lambda: self.elector.is_leading)
        self._coordination = Coordination(
            CoordinationSettings(
                settings.coordinator_url, settings.host, settings.port, settings.lease.namespace, settings.tls_secret,
                settings.namespaces,
            ),
            self.elector, self._raise_epoch, self._connect, self._metrics, self._pulse,
        )  # fmt: skip
        self._listed: frozenset[Key] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kopf", daemon=True)
        self.ended = asyncio.Event()
        """Set when kopf has ended, asked or not."""

    async def listen(self) -> None:
        """Answer workers, probes and whoever collects metrics. Raises OSError, CertificatesDamagedError."""
        settings = self._settings
        self._beating = asyncio.create_task(self._pulse.beat("elector"))
        self._probes = Probes(
            settings.host, settings.probe_port, self._pulse.problems, self._what_is_missing,
            self._coordination.exposition,
        )  # fmt: skip
        await self._coordination.start()
        log.info("workers reach the coordinator at %s", settings.coordinator_url)

    def lead(self) -> None:
        """Keep the applications from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what is on its way goes on."""
        self._stop.set()

    def is_quiet(self) -> bool:
        """Is nothing on its way that changes something?"""
        return not any(kube.changing for kube in self._kubes)

    async def close(self) -> None:
        """End everything in good order."""
        self.stop()
        if self._thread.ident is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.ended.wait()
        self._probes.close()
        await self._coordination.stop()

    def _connect(self, check: Callable[[], None] | None) -> Kube:
        kube = Kube(login, check, [self._calls.trace()])
        self._kubes.append(kube)
        return kube

    def _what_is_missing(self) -> list[str]:
        """Before it is ready: synced if it leads, else informed."""
        if not self.elector.has_seen_lease:
            return ["the Lease has not been read yet"]
        if not self.elector.is_leading:
            return []
        if self._listed is None:
            return ["the applications have not been listed yet"]
        unwatched = watched_paths(self._settings.namespaces) - self._calls.watched
        unseen = self._listed - self._coordination.looked_at
        return [f"{path} is not watched yet" for path in sorted(unwatched)] + [
            f"StreamsApp {'/'.join(key)} has not been looked at yet" for key in sorted(unseen)
        ]

    def _watch(self) -> None:
        try:
            asyncio.run(self._keep_apps())
        except Exception:
            log.exception("watching has failed")
        finally:
            self._loop.call_soon_threadsafe(self.ended.set)

    async def _keep_apps(self) -> None:
        namespaces = self._settings.namespaces
        beating = asyncio.create_task(self._pulse.beat("kopf"))
        async with self._connect(self.elector.check) as kube:
            apps = Apps(kube, self._coordination, self._metrics, namespaces)
            listing = asyncio.create_task(self._list(kube))
            await watch(apps, namespaces, self._stop, self._calls)
            listing.cancel()
        beating.cancel()

    async def _list(self, kube: Kube) -> None:
        """Which applications there are to be looked at, before this leader is ready."""
        while self._listed is None:
            try:
                items = [item for path in paths.all_apps(self._settings.namespaces) for item in await kube.list(path)]
            except KubeError as error:
                log.warning("the applications can't be listed: %s", error)
                await asyncio.sleep(_LIST_RETRY_SECONDS)
            else:
                self._listed = frozenset((item["metadata"]["namespace"], item["metadata"]["name"]) for item in items)

    def _raise_epoch(self, above: int) -> int:
        """Called from other threads."""
        return asyncio.run_coroutine_threadsafe(self.elector.raise_epoch(above), self._loop).result(_EPOCH_SECONDS)
