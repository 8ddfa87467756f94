"""The worker processes: carries out what `plan_workers` says, and reports what it sees."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.http_call import RefusedError, UnreachableError
from sluice_cli.local.children import MISTAKE, Child, describe_exit
from sluice_cli.local.deaths import Death
from sluice_cli.local.membership import Membership, read_memberships
from sluice_cli.local.plan import Action, Drain, Forget, ObservedWorker, Phase, Start, Stop, Undrain
from sluice_cli.local.settings import LocalSettings
from sluice_cli.running.directory import RunDirectory
from sluice_cli.running.view import ProcessView
from sluice_devkit.process_guard import ProcessGuard
from sluice_protocol.ids import worker_name
from sluice_protocol.launch import EXIT_NOT_ADMITTED
from sluice_protocol.view import GroupView


@dataclass(slots=True)
class _Slot:
    """A slot that has, or has had, a process."""

    child: Child
    incarnation: str
    phase: Phase = Phase.RUNNING
    failures: int = 0
    restarts: int = 0
    restart_at: float = 0.0
    last_exit: str | None = None
    complaint: str = ""
    asking: asyncio.Task[None] | None = None
    """A drain request that is under way; until it is answered nothing is known of the membership."""
    is_shut_out: bool = False
    """Whether the present coordinator has been asked to drain it."""


class Workers:
    """All slots. `changed` is called after everything that a new plan may depend on."""

    def __init__(
        self,
        settings: LocalSettings,
        directory: RunDirectory,
        secret: str,
        guard: ProcessGuard,
        *,
        changed: Callable[[], None],
        died: Callable[[Death], None],
        report: Callable[[str], None],
    ) -> None:
        self.mistake: str | None = None
        """Why a worker can't run at all, once one has said so."""
        self._settings = settings
        self._directory = directory
        self._secret = secret
        self._guard = guard
        self._changed = changed
        self._died = died
        self._report = report
        self._slots: dict[int, _Slot] = {}
        self._memberships: Mapping[int, Membership] = {}
        self._coordinator: CoordinatorClient | None = None
        self._coordinator_url: str | None = None
        self._answered_at = 0.0
        """When the last drain request was answered: an older look at the group no longer holds."""
        self._run = secrets.token_hex(3)
        self._started = 0
        self._watches: set[asyncio.Task[None]] = set()

    def hear(self, coordinator: CoordinatorClient | None, group: GroupView | None, looked_at: float) -> None:
        """Take in what the coordinator showed then; None when it can't be asked."""
        if coordinator is not self._coordinator:
            self._forget_drains()
        self._coordinator = coordinator
        if coordinator is not None:
            self._coordinator_url = coordinator.url
        if looked_at < self._answered_at:
            group = None
        self._memberships = read_memberships(group, {number: slot.incarnation for number, slot in self._slots.items()})

    def observe(self) -> list[ObservedWorker]:
        """Every slot as `plan_workers` wants it."""
        return [
            ObservedWorker(number, slot.phase, self._membership(number, slot), slot.restart_at, slot.is_shut_out)
            for number, slot in self._slots.items()
        ]

    def apply(self, action: Action) -> None:
        """Carry out one action; none of them blocks."""
        match action:
            case Start(slot):
                self._start(slot)
            case Drain(slot):
                self._ask(slot, drain=True)
            case Undrain(slot):
                self._ask(slot, drain=False)
            case Stop(slot):
                self._stop(slot)
            case Forget(slot):
                del self._slots[slot]
            case _:
                pass

    def running(self) -> dict[str, int]:
        """Name and process id of every worker that runs."""
        return {
            worker_name(number): slot.child.pid for number, slot in self._slots.items() if slot.phase is not Phase.DEAD
        }

    def send_signal(self, number: int, signal_number: int) -> int:
        """Send a signal to the worker of a slot; gives its process id. Raises KeyError if none runs there."""
        slot = self._slots[number]
        if slot.phase is Phase.DEAD:
            raise KeyError(number)
        slot.child.signal(signal_number)
        return slot.child.pid

    def is_settled(self, desired: int) -> bool:
        """Whether exactly the desired workers run, and the group knows them and drains nobody."""
        return self._slots.keys() == set(range(desired)) and all(
            slot.phase is Phase.RUNNING and self._membership(number, slot) is Membership.MEMBER
            for number, slot in self._slots.items()
        )

    def views(self, now: float) -> tuple[ProcessView, ...]:
        """What people see of the slots."""
        return tuple(self._view(number, self._slots[number], now) for number in sorted(self._slots))

    async def stop_all(self, timeout: float) -> None:
        """End every worker, all at once."""
        alive = [(number, slot) for number, slot in self._slots.items() if slot.phase is not Phase.DEAD]
        for _, slot in alive:
            slot.phase = Phase.STOPPING
        codes = await asyncio.gather(*(slot.child.stop(timeout) for _, slot in alive))
        for (number, _), code in zip(alive, codes, strict=True):
            if code != 0:
                self._report(f"{worker_name(number)} ended with {describe_exit(code)}")
        await asyncio.gather(*self._watches)

    def kill_all(self) -> None:
        """End every worker without asking."""
        for slot in self._slots.values():
            slot.child.signal(signal.SIGKILL)

    def _membership(self, number: int, slot: _Slot) -> Membership:
        return Membership.UNKNOWN if slot.asking else self._memberships.get(number, Membership.UNKNOWN)

    def _start(self, number: int) -> None:
        if self._coordinator_url is None:
            return
        name = worker_name(number)
        before = self._slots.get(number)
        self._started += 1
        incarnation = f"{self._run}-{self._started}"
        launch = self._settings.worker(name, incarnation, self._coordinator_url)
        child = Child(
            [*self._settings.worker_command, *launch.arguments()],
            {**launch.environment(self._secret), **self._settings.environment},
            self._directory.log(name),
            self._guard,
        )
        slot = self._slots[number] = _Slot(child, incarnation)
        if before is not None:
            slot.failures, slot.last_exit = before.failures, before.last_exit
            slot.restarts = before.restarts + 1
        self._report(f"{name} started (process {child.pid})")
        self._spawn(self._watch(number, slot))

    def _stop(self, number: int) -> None:
        slot = self._slots[number]
        slot.phase = Phase.STOPPING
        self._report(f"{worker_name(number)} is asked to end")
        self._spawn(self._await_stop(slot))

    async def _await_stop(self, slot: _Slot) -> None:
        await slot.child.stop(self._settings.stop_timeout_ms / 1000)

    async def _watch(self, number: int, slot: _Slot) -> None:
        code = await slot.child.wait()
        asked = slot.phase is Phase.STOPPING
        slot.phase = Phase.DEAD
        slot.last_exit = describe_exit(code)
        if code != 0:
            self._died(Death(worker_name(number), slot.incarnation))
        if asked:
            slot.failures = 0
            self._report(f"{worker_name(number)} has ended")
        elif code in (MISTAKE, EXIT_NOT_ADMITTED):
            self.mistake = f"{worker_name(number)} can't run: {slot.child.last_words()}"
        else:
            self._note_failure(number, slot)
        self._changed()

    def _note_failure(self, number: int, slot: _Slot) -> None:
        backoff = self._settings.backoff
        slot.failures = backoff.failures_after(slot.failures, slot.child.lived_ms)
        pause = backoff.delay_ms(slot.failures)
        slot.restart_at = time.monotonic() + pause / 1000
        when = f"is started again in {pause / 1000:g} s" if pause else "is started again"
        self._report(f"{worker_name(number)} died ({slot.last_exit}) and {when}; its log: {slot.child.log}")

    def _ask(self, number: int, *, drain: bool) -> None:
        slot = self._slots[number]
        if self._coordinator is not None:
            slot.asking = self._spawn(self._request(self._coordinator, number, slot, drain=drain))

    async def _request(self, coordinator: CoordinatorClient, number: int, slot: _Slot, *, drain: bool) -> None:
        name = worker_name(number)
        try:
            await asyncio.to_thread(coordinator.drain if drain else coordinator.undrain, name)
        except UnreachableError:
            pass  # it is asked again when it is back
        except RefusedError as error:
            self._complain(slot, str(error))
        else:
            self._report(f"{name} {'drains' if drain else 'stays'}")
            slot.is_shut_out = drain and coordinator is self._coordinator
        slot.asking = None
        self._answered_at = time.monotonic()
        self._changed()

    def _forget_drains(self) -> None:
        """Another coordinator doesn't know of them."""
        for slot in self._slots.values():
            slot.is_shut_out = False

    def _complain(self, slot: _Slot, sentence: str) -> None:
        """Report what is tried again and again only once."""
        if sentence != slot.complaint:
            self._report(sentence)
        slot.complaint = sentence

    def _view(self, number: int, slot: _Slot, now: float) -> ProcessView:
        dead = slot.phase is Phase.DEAD
        return ProcessView(
            name=worker_name(number),
            state="waiting" if dead else self._state(number, slot),
            restarts=slot.restarts,
            log=str(slot.child.log),
            pid=None if dead else slot.child.pid,
            incarnation=slot.incarnation,
            last_exit=slot.last_exit,
            restart_in_ms=max(0, round((slot.restart_at - now) * 1000)) if dead else None,
        )

    def _state(self, number: int, slot: _Slot) -> str:
        if slot.phase is Phase.STOPPING:
            return "stopping"
        match self._memberships.get(number):
            case Membership.DRAINING | Membership.DRAINED:
                return "draining"
            case Membership.ABSENT:
                return "starting"
            case _:
                return "running"

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return task
