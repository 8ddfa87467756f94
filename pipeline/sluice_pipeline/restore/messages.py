"""What a worker and its restorer processes say to each other over a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice_pipeline.state.directory import TaskIdentity
from sluice_protocol.ids import TaskId


@dataclass(frozen=True, slots=True)
class Follow:
    """Open the task's stores and follow its changelogs until told otherwise (standby, warm-up)."""

    directory: str
    identity: TaskIdentity
    max_age_seconds: float
    log_starts: Mapping[str, int]
    log_ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Finish:
    """Read the task's changelogs up to these ends (by store), then close it and say Finished."""

    task: TaskId
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stop:
    """Close the task where it is and say Stopped."""

    task: TaskId


Command = Follow | Finish | Stop


@dataclass(frozen=True, slots=True)
class Opened:
    """The stores are open. `wiped_because` says why what was there could not be used, if so."""

    task: TaskId
    wiped_because: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the copy stands, summed over its stores. `restored_*` count what this process has applied to it."""

    task: TaskId
    offset_sum: int
    end_offset_sum: int
    rate: int
    restored_records: int
    restored_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Everything up to the wanted ends is applied, and the stores are closed."""

    task: TaskId
    boundaries: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The stores are closed, wherever they had come to."""

    task: TaskId
    boundaries: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Failed:
    """The task can't be restored here; its stores are closed."""

    task: TaskId
    message: str


Event = Opened | Progress | Finished | Stopped | Failed
