"""The supervisor of one application on this machine: a coordinator, its workers, and the number of them that is wanted.

One loop looks at desired and observed and does what `plan_workers` says. It sleeps until something happens: a process
has ended, the coordinator has come up, somebody scales. While the group is on its way to where it should be its view
is read again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sluice_cli.errors import MistakeError
from sluice_cli.http_call import RefusedError, UnreachableError
from sluice_cli.local.control import ControlServer
from sluice_cli.local.coordinator_process import CoordinatorProcess
from sluice_cli.local.deaths import DeathNotices
from sluice_cli.local.plan import Action, WaitUntil, plan_workers
from sluice_cli.local.settings import LocalSettings
from sluice_cli.local.workers import Workers
from sluice_cli.running.directory import DesiredFile, RunDirectory, RunFile
from sluice_cli.running.view import LocalView
from sluice_cli.status.sentences import grievances
from sluice_devkit.process_guard import ProcessGuard
from sluice_protocol.view import GroupView
from sluice_protocol.wire import MalformedMessageError

_LOOK_SECONDS = 0.2
_LONGEST_LOOK_SECONDS = 2.0
_LOOK_SHARE = 10
"""Between two looks at the group passes so many times the duration of a look."""
_COORDINATOR_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Look:
    """The group as it was shown to a question of this time; None when nobody answered."""

    group: GroupView | None
    asked_at: float


class Supervisor:
    """To be made, run and commanded in one event loop."""

    def __init__(
        self, settings: LocalSettings, secret: str, guard: ProcessGuard, report: Callable[[str], None]
    ) -> None:
        """`report` gets a sentence for each thing that happens. The run directory exists and is locked."""
        self.ready = asyncio.Event()
        """Set when the coordinator has listened for the first time."""
        self._settings = settings
        self._guard = guard
        self._report = report
        self._directory = RunDirectory(settings.run_directory)
        self._desired = self._desired_at_start()
        self._changed = asyncio.Event()
        self._unsettled = asyncio.Event()
        self._stopping = asyncio.Event()
        self._look = _Look(None, 0.0)
        self._complaint = ""
        self._told: frozenset[str] = frozenset()
        self.coordinator = CoordinatorProcess(
            settings, self._directory, secret, guard, changed=self._changed.set, report=report
        )
        self._deaths = DeathNotices(lambda: self.coordinator.client, report)
        self.workers = Workers(
            settings, self._directory, secret, guard,
            changed=self._changed.set, died=self._deaths.send, report=report,
        )  # fmt: skip
        self.view = self._draw(version=1)
        self._control = ControlServer(secret, self.view, self.scale)

    async def run(self) -> None:
        """Run until `stop` is called. Raises MistakeError when a process says that it can't ever run."""
        self._announce(await self._control.start())
        try:
            await _first_of(self.coordinator.keep(), self._reconcile(), self._watch(), self._stopping.wait())
        finally:
            await self._end()

    def stop(self) -> None:
        """Ask for the end: workers first, then the coordinator. A second call doesn't wait for the workers."""
        if self._stopping.is_set():
            self.workers.kill_all()
        self._stopping.set()

    async def scale(self, count: int) -> LocalView:
        """Want so many workers from now on."""
        if count != self._desired.count:
            self._report(f"{self._desired.count} → {count} workers")
            self._desired = replace(self._desired, count=count)
            self._directory.write_desired(self._desired)
            self._changed.set()
        await self._show()
        return self.view

    def _desired_at_start(self) -> DesiredFile:
        """What `sluice scale` said last, unless the flag has been changed since."""
        flag, kept = self._settings.workers, self._directory.read_desired()
        if kept is None or kept.flag != flag:
            kept = DesiredFile(flag, flag)
            self._directory.write_desired(kept)
        elif kept.count != flag:
            self._report(f"going on with {kept.count} workers, as `sluice scale` said last")
        return kept

    def _announce(self, control: str) -> None:
        settings = self._settings
        self._directory.write_run(
            RunFile(
                settings.application_id, settings.namespace, settings.pipeline, os.getpid(), self._guard.pid, control
            )
        )

    async def _reconcile(self) -> None:
        while True:
            self._changed.clear()
            if self.coordinator.client is not None:
                self.ready.set()
            self.workers.hear(self.coordinator.client, self._look.group, self._look.asked_at)
            if self.workers.mistake is not None:
                raise MistakeError(self.workers.mistake)
            actions = plan_workers(self._desired.count, self.workers.observe(), time.monotonic())
            for action in actions:
                self.workers.apply(action)
            await self._show()
            await self._until_changed(actions)

    async def _until_changed(self, actions: Iterable[Action]) -> None:
        times = [action.time for action in actions if isinstance(action, WaitUntil)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(times) - time.monotonic()) if times else None):
                await self._changed.wait()

    async def _watch(self) -> None:
        """Look at the group: often while it is on its way, seldom when it is settled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_interval_ms / 1000):
                    await self._unsettled.wait()
            asked_at = time.monotonic()
            self._look = _Look(await self._ask(), asked_at)
            self._tell_news()
            self._changed.set()
            pause = _LOOK_SHARE * (time.monotonic() - asked_at)
            await asyncio.sleep(min(max(pause, _LOOK_SECONDS), _LONGEST_LOOK_SECONDS))

    async def _ask(self) -> GroupView | None:
        if self.coordinator.client is None:
            return None
        complaint, view = "", None
        try:
            view = await asyncio.to_thread(self.coordinator.client.view)
        except UnreachableError:
            pass  # it is starting or ending
        except (RefusedError, MalformedMessageError) as error:
            complaint = f"the coordinator can't be understood: {error}"
        if complaint and complaint != self._complaint:
            self._report(complaint)
        self._complaint = complaint
        return view

    def _tell_news(self) -> None:
        if self._look.group is not None:
            facts = list(grievances(self._look.group))
            for sentence in facts:
                if sentence not in self._told:
                    self._report(sentence)
            self._told = frozenset(facts)

    async def _show(self) -> None:
        view = self._draw(self.view.version)
        if view == self.view:
            return
        self.view = replace(view, version=view.version + 1)
        if view.settled:
            self._unsettled.clear()
        else:
            self._unsettled.set()
        await self._control.show(self.view)

    def _draw(self, version: int) -> LocalView:
        now, client = time.monotonic(), self.coordinator.client
        return LocalView(
            application_id=self._settings.application_id,
            supervisor_pid=os.getpid(),
            version=version,
            desired=self._desired.count,
            settled=client is not None and self._is_settled(),
            coordinator=self.coordinator.view(now),
            workers=self.workers.views(now),
            coordinator_url=None if client is None else client.url,
        )

    def _is_settled(self) -> bool:
        group = self._look.group
        if group is None or not self.workers.is_settled(self._desired.count):
            return False
        return self._desired.count == 0 or (group.state == "stable" and group.pending_moves == 0)

    async def _end(self) -> None:
        await self.workers.stop_all(self._settings.stop_timeout_ms / 1000)
        await self._deaths.close()
        await self.coordinator.stop(_COORDINATOR_STOP_SECONDS)
        await self._control.stop()
        self._directory.clear_run()


async def run_supervisor(
    settings: LocalSettings, report: Callable[[str], None], started: Callable[[Supervisor], None]
) -> None:
    """Run one application until its supervisor, which is given to `started`, is stopped. Raises MistakeError."""
    directory = RunDirectory(settings.run_directory)
    directory.create()
    with directory.locked() as lock, ProcessGuard(hold=[lock]) as guard:
        supervisor = Supervisor(settings, directory.new_secret(), guard, report)
        started(supervisor)
        await supervisor.run()


async def _first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends, then cancel the others; raises what that one raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
