"""How each kind of fault is done to a running application and its broker."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable

from chaos_aims import Aims
from chaos_outcome import APPLICATION, STORES
from chaos_schedule import SIZES, Fault, Kind

from sluice_cli.errors import CommandError
from sluice_cli.local import LocalApplication
from sluice_coordinator.fencing import Fencer
from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.observer import Step
from sluice_protocol.ids import transactional_id, worker_name
from sluice_protocol.view import MemberView

_FAULT_SECONDS = 180.0
_PROVOKE_SECONDS = 3.0
_PROVOKE_AGAIN_SECONDS = 45.0
_FROZEN_SECONDS = 15.0
_LOOK_SECONDS = 0.05


class Stage:
    """Inflicts faults one after another; what follows from one is not waited for before the next."""

    def __init__(
        self, kafka: KafkaCluster, application: LocalApplication, aims: Aims, session_seconds: float,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._kafka = kafka
        self._application = application
        self._aims = aims
        self._session_seconds = session_seconds
        self._say = say
        self._began = time.monotonic()
        self.done: Counter[Kind] = Counter()

    def inflict(self, fault: Fault) -> None:
        """Do it, and return when it has happened."""
        self._application.scale(fault.workers)
        time.sleep(fault.pause)  # the instant is a part of the schedule
        began = time.monotonic()
        match fault.kind:
            case Kind.AIMED_CRASH:
                self._crash(fault)
            case Kind.KILL_WORKER:
                self._signal(fault.victim, signal.SIGKILL)
            case Kind.FREEZE_WORKER:
                self._freeze(fault.victim)
            case Kind.KILL_COORDINATOR:
                _wait(lambda: "coordinator" in self._application.pids(), _FAULT_SECONDS, "no coordinator runs")
                self._application.kill_coordinator()
            case Kind.RESTART_BROKER:
                self._kafka.kill(0)
                self._kafka.restart(0)
        self.done[fault.kind] += 1
        now = time.monotonic()
        self._say(f"{now - self._began:6.1f} s: {fault}: {now - began:.1f} s")

    def _crash(self, fault: Fault) -> None:
        """Aim, and if nobody takes the step, do what makes somebody take it."""
        assert fault.step is not None
        self._aims.aim(fault.number, fault.step, fault.passing)
        deadline = time.monotonic() + _FAULT_SECONDS
        patience, provocations = _PROVOKE_SECONDS, 0
        while not _holds_within(lambda: self._aims.is_hit(fault.number), patience):
            assert time.monotonic() < deadline, f"{fault}: no worker got there; {self._application.local_view()}"
            self._provoke(fault, provocations)
            patience, provocations = _PROVOKE_AGAIN_SECONDS, provocations + 1

    def _provoke(self, fault: Fault, times: int) -> None:
        """A fenced worker initialises again, as a new member; tasks are restored and released when they move."""
        if fault.step is Step.INITIALISED:
            names = sorted(self._application.pids().keys() - {"coordinator"})
            self._fence(names[fault.victim % len(names)] if names else worker_name(0))
        elif fault.step in (Step.RESTORING, Step.RELEASED):
            start = SIZES.index(fault.workers)
            self._application.scale(SIZES[(start + 1 + times) % len(SIZES)])

    def _fence(self, worker: str) -> None:
        ids = [transactional_id(APPLICATION, worker, subtopology) for subtopology in STORES]
        Fencer(self._kafka.bootstrap_servers, {}).fence(ids)

    def _freeze(self, victim: int) -> None:
        slot = self._signal(victim, signal.SIGSTOP)
        awake_at = time.monotonic() + self._session_seconds
        members = {member.member_id for member in self._members() if member.worker == worker_name(slot)}
        _holds_within(lambda: time.monotonic() > awake_at and not self._knows_any(members), _FROZEN_SECONDS)
        with contextlib.suppress(KeyError):  # it was to end anyway, and was ended by force
            self._application.kill_worker(slot, signal.SIGCONT)

    def _knows_any(self, members: set[str]) -> bool:
        """Whether the group still has one of these members; if it can't be asked, it has."""
        try:
            return bool(members & {member.member_id for member in self._application.view().members})
        except CommandError:
            return True

    def _members(self) -> tuple[MemberView, ...]:
        try:
            return self._application.view().members
        except CommandError:
            return ()

    def _signal(self, victim: int, number: int) -> int:
        """Send a signal to one of the workers that run; gives its slot."""
        deadline = time.monotonic() + _FAULT_SECONDS
        while True:
            slots = sorted(int(name.rpartition("-")[2]) for name in self._application.pids() if name != "coordinator")
            if slots:
                slot = slots[victim % len(slots)]
                try:
                    self._application.kill_worker(slot, number)
                except KeyError:
                    continue  # it ended in this moment
                return slot
            assert time.monotonic() < deadline, "no worker runs"
            time.sleep(_LOOK_SECONDS)


def _holds_within(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _wait(holds: Callable[[], bool], seconds: float, problem: str) -> None:
    assert _holds_within(holds, seconds), f"{problem} for {seconds:.0f} s"
