"""The coordinator as a child: started again whenever it dies, always at the address that the workers know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.errors import MistakeError
from sluice_cli.local.children import MISTAKE, Child, describe_exit
from sluice_cli.local.settings import LocalSettings
from sluice_cli.running.directory import RunDirectory
from sluice_cli.running.view import ProcessView
from sluice_devkit.ports import free_ports
from sluice_devkit.process_guard import ProcessGuard

NAME = "coordinator"
_LOOK_SECONDS = 0.02
_CLIENT_SECONDS = 2.0


class CoordinatorProcess:
    """`client` is set while it listens. `changed` is called whenever that changes."""

    def __init__(
        self,
        settings: LocalSettings,
        directory: RunDirectory,
        secret: str,
        guard: ProcessGuard,
        *,
        changed: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self.client: CoordinatorClient | None = None
        self._settings = settings
        self._directory = directory
        self._secret = secret
        self._guard = guard
        self._changed = changed
        self._report = report
        self._child: Child | None = None
        self._port = free_ports(1)[0]
        self._failures = 0
        self._starts = 0
        self._restart_at: float | None = None
        self._last_exit: str | None = None

    @property
    def pid(self) -> int | None:
        """Its process, if it runs."""
        return None if self._child is None else self._child.pid

    async def keep(self) -> None:
        """Start it again and again, until cancelled. Raises MistakeError when it says that it can't ever run."""
        while True:
            child = self._start()
            await self._await_address(child)
            code = await child.wait()
            self._child = self.client = None
            self._last_exit = describe_exit(code)
            if code == MISTAKE:
                raise MistakeError(f"the coordinator can't run: {child.last_words()}")
            await self._pause(child)

    def send_signal(self, number: int) -> int:
        """Send a signal; gives the process id. Raises KeyError if it doesn't run."""
        if self._child is None:
            raise KeyError(NAME)
        self._child.signal(number)
        return self._child.pid

    async def stop(self, timeout: float) -> None:
        """End it; to be called when `keep` has been cancelled."""
        if self._child is not None:
            await self._child.stop(timeout)
        self._child = self.client = None

    def view(self, now: float) -> ProcessView:
        """What people see of it."""
        waiting = self._restart_at is not None
        return ProcessView(
            name=NAME,
            state="waiting" if waiting else "running" if self.client else "starting",
            restarts=max(0, self._starts - 1),
            log=str(self._directory.log(NAME)),
            pid=self.pid,
            last_exit=self._last_exit,
            restart_in_ms=None if self._restart_at is None else max(0, round((self._restart_at - now) * 1000)),
        )

    def _start(self) -> Child:
        self._restart_at = None
        self._starts += 1
        self._child = Child(
            [*self._settings.coordinator_command, *self._settings.coordinator_arguments(self._port)],
            self._settings.coordinator_environment(self._secret),
            self._directory.log(NAME),
            self._guard,
        )
        self._changed()
        return self._child

    async def _await_address(self, child: Child) -> None:
        """Wait for the file in which this very process says where it listens, or for its end."""
        while not child.has_ended:
            address = self._directory.read_coordinator()
            if address is not None and address.pid == child.pid:
                self._listen(address.url, child)
                return
            await child.wait_for(_LOOK_SECONDS)

    def _listen(self, url: str, child: Child) -> None:
        settings = self._settings
        self.client = CoordinatorClient(
            url, self._secret, settings.application_id, settings.namespace, timeout=_CLIENT_SECONDS
        )
        self._report(f"coordinator listens at {url} (process {child.pid})")
        self._changed()

    async def _pause(self, child: Child) -> None:
        backoff = self._settings.backoff
        self._failures = backoff.failures_after(self._failures, child.lived_ms)
        pause = backoff.delay_ms(self._failures) / 1000
        self._restart_at = time.monotonic() + pause
        self._report(f"coordinator died ({self._last_exit}) and is started again in {pause:g} s; its log: {child.log}")
        self._changed()
        await asyncio.sleep(pause)
