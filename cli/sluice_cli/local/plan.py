"""Which worker processes to start, drain and stop next: desired number and what is seen in, actions out.

The workers of an application of size n are the slots 0…n-1, so a scale-in takes the highest slots. A worker leaves
in three steps, each waiting for an observed fact: it is marked as draining, the group says that it holds nothing any
more, its process is asked to end. Until that last step a scale-out takes everything back. One that is not seen as a
member is marked too: it may join in this very moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sluice_cli.local.membership import Membership


class Phase(Enum):
    """The process of a slot."""

    RUNNING = "running"
    STOPPING = "stopping"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ObservedWorker:
    """A slot that has, or has had, a process.

    `restart_at`: a dead one is not started again before this time. `is_shut_out`: the coordinator has been asked to
    drain it before its membership was looked at, so that it is given nothing even if it joins now.
    """

    slot: int
    phase: Phase
    membership: Membership = Membership.UNKNOWN
    restart_at: float = 0.0
    is_shut_out: bool = False

    @property
    def stays_empty(self) -> bool:
        """Does it hold nothing, and will it be given nothing?"""
        return self.membership is Membership.DRAINED or (self.membership is Membership.ABSENT and self.is_shut_out)


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process in the slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask the coordinator to empty the worker."""

    slot: int


@dataclass(frozen=True, slots=True)
class Undrain:
    """Take the drain back."""

    slot: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the process to end (SIGTERM)."""

    slot: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the slot: its process has ended and is not wanted any more."""

    slot: int


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Look again at this time even if nothing happens."""

    time: float


Action = Start | Drain | Undrain | Stop | Forget | WaitUntil


def plan_workers(desired: int, observed: Iterable[ObservedWorker], now: float) -> tuple[Action, ...]:
    """What to do now; nothing when it is somebody else's turn.

    Leaving workers come first, highest slot first, then kept ones from slot 0 on.
    """
    workers = {worker.slot: worker for worker in observed}
    leaving = sorted((slot for slot in workers if slot >= desired), reverse=True)
    actions = [_leave(workers[slot], desired) for slot in leaving]
    actions += [_keep(slot, workers.get(slot), now) for slot in range(desired)]
    return tuple(action for action in actions if action is not None)


def _leave(worker: ObservedWorker, desired: int) -> Action | None:
    if worker.phase is Phase.DEAD:
        return Forget(worker.slot)
    if worker.phase is Phase.STOPPING:
        return None
    if desired == 0:  # nobody stays who could take the tasks: a drain would never end
        return Stop(worker.slot)
    if worker.stays_empty:
        return Stop(worker.slot)
    return Drain(worker.slot) if worker.membership in (Membership.MEMBER, Membership.ABSENT) else None


def _keep(slot: int, worker: ObservedWorker | None, now: float) -> Action | None:
    if worker is None:
        return Start(slot)
    if worker.phase is Phase.DEAD:
        return Start(slot) if now >= worker.restart_at else WaitUntil(worker.restart_at)
    if worker.phase is Phase.RUNNING and (worker.stays_empty or worker.membership is Membership.DRAINING):
        return Undrain(slot)
    return None
