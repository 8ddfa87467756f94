"""What the coordinator shows of a group: the read API behind `sluice status`, the demo's screen and the tests.

GET PATH returns a GroupView. Facts only; words and colours are the reader's.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice_protocol.heartbeat import FailedTask, Load, Role, Status
from sluice_protocol.ids import Epoch, TaskId
from sluice_protocol.topology import TopologyDescription

PATH = "/v1/apps/{namespace}/{name}"
DRAIN_PATH = "/v1/apps/{namespace}/{name}/workers/{worker}/drain"
"""PUT starts a drain of the worker, DELETE takes it back."""
GONE_PATH = "/v1/apps/{namespace}/{name}/workers/{worker}/gone"
"""POST {"incarnation": …}: the launcher saw this process die; fence it at once."""
RESUME_PATH = "/v1/apps/{namespace}/{name}/resume"
"""POST: every failed task tries again."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """One replica of one task. Unknown numbers are None; `lag` and `rate` in changelog offsets, ETA from both."""

    task: TaskId
    role: Role
    worker: str
    state: str
    """running · restoring · releasing · failed · waiting (granted to nobody yet: worker is empty)."""
    stateful: bool
    epoch: Epoch
    offset_sum: int | None = None
    end_offset_sum: int | None = None
    lag: int | None = None
    rate: int | None = None
    eta_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class MemberView:
    """One worker as the group sees it."""

    worker: str
    member_id: str
    process_id: str
    incarnation: str
    epoch: Epoch
    capacity: int
    state: str
    """stable · reconciling · draining · drained · fencing."""
    draining: bool
    last_heard_ms: int
    load: Load
    failed: tuple[FailedTask, ...] = ()
    restored_records: int = 0
    restored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MoveView:
    """One completed hand-over of an active task, oldest first; `lag` is the new holder's when it was granted.

    `pause_ms`: from the former holder's end with the task to the new one's word that it holds it.
    """

    task: TaskId
    source: str | None
    destination: str
    reason: str
    lag: int
    planned: bool
    epoch: Epoch
    at_ms: int
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class PlannedMoveView:
    """One move of the last decision that isn't made yet; `why`: a sentence of the assignor."""

    task: TaskId
    destination: str
    why: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group at one moment."""

    application_id: str
    epoch: Epoch
    state: str
    """empty · not-ready · adopting · reconciling · stable."""
    topology_hash: str | None
    topology: TopologyDescription | None
    members: tuple[MemberView, ...]
    tasks: tuple[TaskView, ...]
    moves: tuple[MoveView, ...] = ()
    statuses: tuple[Status, ...] = ()
    pending_moves: int = 0
    planned: tuple[PlannedMoveView, ...] = ()
    """The first moves of the last decision that aren't made yet."""
    acceptable_recovery_lag: int = 10_000
