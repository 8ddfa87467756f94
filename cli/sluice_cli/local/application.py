"""Local mode for programs: the demo, the benches and the tests drive it from ordinary, synchronous code."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self, TypeVar

from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.errors import CommandError
from sluice_cli.http_call import UnreachableError
from sluice_cli.local.settings import LocalSettings
from sluice_cli.local.supervisor import Supervisor, run_supervisor
from sluice_cli.running.view import LocalView
from sluice_protocol.view import GroupView

T = TypeVar("T")

_COMMAND_SECONDS = 10.0
_LOOK_SECONDS = 0.05


class WaitTimeoutError(CommandError, TimeoutError):
    """What was waited for didn't come in time; the message holds the last view."""


class LocalApplication:
    """A supervised application, its supervisor in a thread of this process.

        with LocalApplication(settings) as application:
            application.scale(3)
            application.wait(lambda group: group.state == "stable" and len(group.members) == 3)

    All of its processes end with this process, also if it is killed.
    """

    def __init__(self, settings: LocalSettings, report: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings
        self._report = report
        self._ended = threading.Event()
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._supervisor: Supervisor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"sluice-{settings.application_id}", daemon=True)

    def start(self, timeout: float = 60.0) -> Self:
        """Start coordinator and workers; returns when the coordinator listens. Raises what keeps them from it."""
        self._thread.start()
        try:
            self._ready.result(timeout)
        except concurrent.futures.TimeoutError:
            self.stop()
            raise WaitTimeoutError(f"the coordinator of {self._name} did not listen within {timeout:g} s") from None
        return self

    def scale(self, count: int) -> LocalView:
        """Want so many workers; returns at once."""
        return self._await(lambda supervisor: supervisor.scale(count))

    def kill_worker(self, slot: int, signal_number: int = signal.SIGKILL) -> int:
        """Send a signal to a worker; gives its process id. Raises KeyError if none runs in the slot."""
        return self._do(lambda supervisor: supervisor.workers.send_signal(slot, signal_number))

    def kill_coordinator(self, signal_number: int = signal.SIGKILL) -> int:
        """Send a signal to the coordinator; gives its process id. Raises KeyError if it doesn't run."""
        return self._do(lambda supervisor: supervisor.coordinator.send_signal(signal_number))

    def pids(self) -> dict[str, int]:
        """Process ids by name (`coordinator`, `worker-0`, …) of everything that runs now."""
        return self._do(_pids)

    def local_view(self) -> LocalView:
        """The processes as `sluice status` shows them."""
        return self._do(lambda supervisor: supervisor.view)

    def coordinator(self) -> CoordinatorClient:
        """A client of the coordinator. Raises UnreachableError while it doesn't listen."""
        client = self._do(lambda supervisor: supervisor.coordinator.client)
        if client is None:
            raise UnreachableError(f"the coordinator of {self._name} doesn't listen now")
        return client

    def view(self) -> GroupView:
        """The group now. Raises UnreachableError."""
        return self.coordinator().view()

    def wait(self, holds: Callable[[GroupView], bool], timeout: float) -> GroupView:
        """Wait until this holds of the group; a coordinator that is away is waited for. Raises WaitTimeoutError."""
        deadline = time.monotonic() + timeout
        last: GroupView | UnreachableError | None = None
        while time.monotonic() < deadline:
            try:
                last = self.view()
            except UnreachableError as error:
                last = error
            else:
                if holds(last):
                    return last
            self._ended.wait(_LOOK_SECONDS)
        raise WaitTimeoutError(f"{self._name} didn't get there within {timeout:g} s; it was last seen as {last}")

    def wait_settled(self, timeout: float) -> LocalView:
        """Wait until the desired workers run and the group has nothing left to do. Raises WaitTimeoutError."""
        deadline = time.monotonic() + timeout
        while not (view := self.local_view()).settled:
            if time.monotonic() > deadline:
                raise WaitTimeoutError(f"{self._name} didn't settle within {timeout:g} s; it was last seen as {view}")
            self._ended.wait(_LOOK_SECONDS)
        return view

    def join(self, timeout: float | None = None) -> None:
        """Wait for it to end by itself. Raises what ended it, WaitTimeoutError."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise WaitTimeoutError(f"{self._name} still runs after {timeout} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End everything in good order; nothing happens if it has ended. Raises what ended it by itself."""
        if self._loop is not None and self._supervisor is not None and not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._supervisor.stop)
        if self._thread.ident is not None:
            self.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _name(self) -> str:
        return self._settings.application_id

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()
            if not self._ready.done():
                self._ready.set_exception(self._failure or CommandError(f"{self._name} was stopped while it started"))

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await run_supervisor(self._settings, self._report, self._on_started)

    def _on_started(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._announcement = asyncio.ensure_future(self._announce(supervisor))

    async def _announce(self, supervisor: Supervisor) -> None:
        await supervisor.ready.wait()
        self._ready.set_result(None)

    def _do(self, command: Callable[[Supervisor], T]) -> T:
        async def run(supervisor: Supervisor) -> T:
            return command(supervisor)

        return self._await(run)

    def _await(self, command: Callable[[Supervisor], Coroutine[None, None, T]]) -> T:
        """Run a command in the supervisor's loop. Raises CommandError when it has ended."""
        if self._failure is not None:
            raise self._failure
        if self._loop is None or self._supervisor is None or self._ended.is_set():
            raise CommandError(f"{self._name} doesn't run")
        return asyncio.run_coroutine_threadsafe(command(self._supervisor), self._loop).result(_COMMAND_SECONDS)


def _pids(supervisor: Supervisor) -> dict[str, int]:
    pid = supervisor.coordinator.pid
    return ({} if pid is None else {"coordinator": pid}) | supervisor.workers.running()
