"""What may be done to the parts of an application: one dataclass an action."""

from __future__ import annotations

from dataclasses import dataclass

from sluice_operator.observed import Part


@dataclass(frozen=True, slots=True)
class CreatePart:
    """Create what the workers share."""

    part: Part


@dataclass(frozen=True, slots=True)
class DeletePart:
    """Delete this very object."""

    part: Part
    uid: str


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Create the volume claim of the slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of the slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask the coordinator to empty the worker."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Take the drain back."""

    slot: int


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete this very pod. `unless_joined`: only if its worker, which was no member when it was looked at, has not
    become one since."""

    slot: int
    uid: str
    reason: str
    unless_joined: bool = False


@dataclass(frozen=True, slots=True)
class RestartPod:
    """Delete this very pod with what it holds; it is made anew in its place, and its tasks stand still until then."""

    slot: int
    uid: str


@dataclass(frozen=True, slots=True)
class ReportReturn:
    """Tell people for how long a worker that was restarted was away."""

    slot: int
    seconds: int


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete this very volume claim."""

    slot: int
    uid: str


@dataclass(frozen=True, slots=True)
class ReportGone:
    """Tell the coordinator that the worker's process has ended."""

    worker: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete the internal topics and the consumer group."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaveTopics:
    """Give up deleting the internal topics and the consumer group."""

    topics: tuple[str, ...]
    problem: str


Action = (
    CreatePart
    | DeletePart
    | CreateClaim
    | CreatePod
    | Drain
    | Undrain
    | DeletePod
    | RestartPod
    | ReportReturn
    | DeleteClaim
    | ReportGone
    | DeleteTopics
    | LeaveTopics
)
