"""The operator process: stands for election, and while it leads coordinates every application and keeps its pods.

Three event loops, one a thread: the elector's here, which nothing else may delay; the coordinator's; kopf's. Losing the
lease ends the process at once, without tidying up: the next leader may act already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass

from sluice_operator.coordination import Coordination
from sluice_operator.kube.apps import Apps
from sluice_operator.kube.client import Kube, KubeError, login
from sluice_operator.kube.elector import Elector, LeaseSettings, LostError
from sluice_operator.kube.watches import watch
from sluice_operator.workers.manifests import Coordinator

_EXIT_LOST = 70
_EPOCH_SECONDS = 15.0
_STOP_SECONDS = 10.0

log = logging.getLogger("sluice.operator")


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """What an operator process is told. No namespaces = the whole cluster."""

    lease: LeaseSettings
    identity: str
    coordinator_url: str
    """At which workers reach the coordinator."""
    host: str = "0.0.0.0"  # noqa: S104 - workers come from other pods
    port: int = 8080
    namespaces: tuple[str, ...] = ()


def run_operator(settings: OperatorSettings) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. 1 = it could not start, 70 = it lost the lease."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        return asyncio.run(_run(settings))
    except OSError as error:
        print(f"the operator can't run: {error}", file=sys.stderr)  # noqa: T201 - the one sentence for its starter
        return 1


async def _run(settings: OperatorSettings) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with Kube(login) as kube:
        elector = Elector(kube, settings.lease, settings.identity)
        if not await _elected(elector, stopped):
            return 0
        keeping = asyncio.create_task(elector.keep())
        keeping.add_done_callback(_end_if_lost)
        leader = _Leader(settings, elector, asyncio.get_running_loop())
        await leader.start()
        await _first(stopped.wait(), leader.ended.wait())
        await leader.stop()
        keeping.cancel()
        await elector.release()
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


class _Leader:
    """What only the leader runs."""

    def __init__(self, settings: OperatorSettings, elector: Elector, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._elector = elector
        self._loop = loop
        self._coordination = Coordination(
            login, Coordinator(settings.coordinator_url), settings.host, settings.port, self._raise_epoch
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kopf", daemon=True)
        self.ended = asyncio.Event()
        """Set when kopf has ended, asked or not."""

    async def start(self) -> None:
        await self._coordination.start()
        log.info("workers reach the coordinator at %s", self._settings.coordinator_url)
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.ended.wait()
        await self._coordination.stop()

    def _watch(self) -> None:
        try:
            asyncio.run(self._keep_apps())
        except Exception:
            log.exception("watching has failed")
        finally:
            self._loop.call_soon_threadsafe(self.ended.set)

    async def _keep_apps(self) -> None:
        settings = self._settings
        async with Kube(login) as kube:
            apps = Apps(kube, self._coordination, settings.namespaces)
            await watch(apps, settings.namespaces, self._stop)

    def _raise_epoch(self, above: int) -> int:
        """Called from other threads."""
        raised = asyncio.run_coroutine_threadsafe(self._elector.raise_epoch(above), self._loop)
        try:
            return raised.result(_EPOCH_SECONDS)
        except LostError as error:
            raise KubeError(0, "NotLeader", str(error)) from error
