"""What a worker does next with one task: from what it was granted and what it has. A table, and nothing else.

A task is in one phase at a time, and while it is on its way (releasing, stopping) nothing new is begun with it: the
table is asked again when it has arrived. So an answer that changes its mind needs no special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sluice_protocol.heartbeat import Grant, Role


class Phase(Enum):
    """Where a task is on this worker."""

    PREPARING = "preparing"
    """Kafka is being asked where it goes on."""
    FOLLOWING = "following"
    """A restorer has its stores and follows its changelogs (standby, warm-up)."""
    RESTORING = "restoring"
    """A restorer reads the last stretch before it runs here."""
    RUNNING = "running"
    FAILED = "failed"
    """Granted as active, stopped, waiting to be resumed."""
    RELEASING = "releasing"
    """Its loop finishes a batch and closes it."""
    STOPPING = "stopping"
    """Its restorer closes it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A task that this worker holds, by which grant, and where it is."""

    grant: Grant
    phase: Phase


class Action(Enum):
    """One thing to do with one task."""

    TAKE_OVER = "ask Kafka where it goes on, restore, run"
    FOLLOW = "open a copy and follow its changelogs"
    RELEASE = "let its loop close it"
    STOP = "let its restorer close it"
    DROP = "forget it: nothing of it is open"
    REGRANT = "hold it by the new grant from now on"


def next_action(wanted: Grant | None, held: Held | None) -> Action | None:
    """The next thing to do with a task, None when it is as it should be or on its way."""
    if held is None:
        return None if wanted is None else _begin(wanted)
    if held.phase in (Phase.RELEASING, Phase.STOPPING):
        return None
    runs_here = held.grant.role is Role.ACTIVE
    if wanted is None or (runs_here and wanted.role is not Role.ACTIVE):
        return _end(held.phase)
    if not runs_here and wanted.role is Role.ACTIVE:
        # A copy that is just being opened is let go first: its preparation was made for a follower.
        return Action.DROP if held.phase is Phase.PREPARING else Action.TAKE_OVER
    return Action.REGRANT if wanted != held.grant else None


def _begin(wanted: Grant) -> Action:
    return Action.TAKE_OVER if wanted.role is Role.ACTIVE else Action.FOLLOW


def _end(phase: Phase) -> Action:
    if phase is Phase.RUNNING:
        return Action.RELEASE
    return Action.STOP if phase in (Phase.FOLLOWING, Phase.RESTORING) else Action.DROP
