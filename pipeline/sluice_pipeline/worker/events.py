"""What happens in a worker: everything that its one deciding thread is told, from loops, restorers, Kafka, and the
coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice_pipeline.offsets import Partition
from sluice_pipeline.restore.messages import Event as RestorerEvent
from sluice_pipeline.state.directory import TaskIdentity
from sluice_protocol.heartbeat import FailedTask, HeartbeatAnswer
from sluice_protocol.ids import TaskId


@dataclass(frozen=True, slots=True)
class Answered:
    """The coordinator answered a request that wasn't given up."""

    answer: HeartbeatAnswer
    version: int
    """Which submission it answers."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What Kafka says about a task that is to run or to be followed here."""

    task: TaskId
    attempt: int
    positions: Mapping[Partition, int]
    commit_first: bool
    identity: TaskIdentity | None
    log_starts: Mapping[str, int]
    log_ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NotPrepared:
    """Kafka could not be asked, or what it says forbids to go on (`failed`)."""

    task: TaskId
    attempt: int
    message: str
    failed: FailedTask | None


@dataclass(frozen=True, slots=True)
class TaskReleased:
    """A loop closed a task's stores, which stand at these boundaries (None: it had closed them before)."""

    task: TaskId
    boundaries: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class TaskStopped:
    """A task can't go on and waits for somebody to resume it."""

    task: TaskId
    failed: FailedTask


@dataclass(frozen=True, slots=True)
class TaskBroke:
    """A task's stores can't be trusted; they are closed and to be restored."""

    task: TaskId
    message: str


@dataclass(frozen=True, slots=True)
class ProducerDied:
    """A loop ended because its producer is fenced or broken for good."""

    subtopology: int
    message: str


@dataclass(frozen=True, slots=True)
class LoopCrashed:
    """A loop ended for a reason that nobody foresaw, or the JVM is lost."""

    subtopology: int
    message: str


@dataclass(frozen=True, slots=True)
class LoopStopped:
    """A loop ended because it was told to."""

    subtopology: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The coordinator will never accept what this worker sends."""

    message: str


@dataclass(frozen=True, slots=True)
class Terminated:
    """Somebody asked the process to end (SIGTERM, SIGINT)."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed."""


LoopEvent = TaskReleased | TaskStopped | TaskBroke | ProducerDied | LoopCrashed | LoopStopped
WorkerEvent = Answered | Prepared | NotPrepared | LoopEvent | RestorerEvent | Refused | Terminated | Ticked
