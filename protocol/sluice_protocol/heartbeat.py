"""The heartbeat: everything that a worker and the coordinator say to each other (after KIP-1071, over HTTP/JSON).

A long poll. The worker posts what it holds; the answer is held back until the member's part changes or
`heartbeat_interval_ms` passes. A worker with news abandons the poll and posts again. Lists are always whole:
there is no "unchanged", so that a lost message can never leave the two sides with different pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sluice_protocol.ids import Epoch, TaskId
from sluice_protocol.topology import TopologyDescription

PATH = "/v1/apps/{namespace}/{name}/heartbeat"
"""POST a HeartbeatRequest here, get a HeartbeatAnswer (HTTP 200 whatever its code, 4xx/503 for transport errors)."""

RUNNING = -2
"""The offset sum of an active task that is running: nobody is more caught up (Kafka's Task.LATEST_OFFSET)."""

UNKNOWN = -1
"""An end offset sum or a rate that the worker doesn't know (yet)."""


class Role(Enum):
    """What a worker does with a task."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


@dataclass(frozen=True, slots=True)
class Grant:
    """A task given to a member: in which role, and the epoch in which this grant was made.

    A worker echoes its grants as they were given. An active one is listed by the worker until its last transaction
    with the task has ended *and* its stores are closed; leaving it out is the release.
    """

    task: TaskId
    role: Role
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class TaskCopy:
    """A task directory on the worker's disk, granted or not.

    `offset_sum`: boundary reached in the changelogs, summed over the task's stores; RUNNING for a running active.
    `end_offset_sum`: their last stable offsets as the worker last saw them, or UNKNOWN.
    `size_bytes`: size on disk. `rate`: records restored per second, lately. `restored_records`, `restored_bytes`: what
    this process has applied from the changelogs so far, for whoever adds it up.
    """

    task: TaskId
    offset_sum: int
    end_offset_sum: int = UNKNOWN
    size_bytes: int = 0
    rate: int = 0
    restored_records: int = 0
    restored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that stopped, stays where it is, and waits for `sluice resume`."""

    task: TaskId
    reason: str
    message: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a worker is: records per second and per mille of the time in batches, over the last interval."""

    records_per_second: int = 0
    busy_permille: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """What a member says.

    member_id: a UUID per process start (and per new incarnation after a fatal producer error).
    worker: its name, slot 0…n. process_id: UUID kept in the state directory, the assignor's sort key.
    incarnation: what its launcher called this process start (pod uid, supervisor's counter), to be told of its death.
    member_epoch: the epoch of the last answer that was carried out *completely* (released what it took away);
    JOIN when joining, LEAVE when everything is closed and the worker goes.
    sequence: grows with each request of the member; an older one is ignored.
    topology_hash: always; topology: on join.
    grants: the tasks it holds, each as granted. copies: every task directory on disk.
    """

    member_id: str
    worker: str
    process_id: str
    incarnation: str
    member_epoch: Epoch
    sequence: int
    topology_hash: str
    capacity: int
    topology: TopologyDescription | None = None
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    copies: tuple[TaskCopy, ...] = ()
    failed: tuple[FailedTask, ...] = ()
    load: Load = Load()


class Code(Enum):
    """What an answer says first."""

    OK = "OK"
    FENCED = "FENCED"
    """The member's transactions are dead (a newer member of the name, a session or rebalance time-out): drop
    everything without writing, take a new member id, init_transactions, join."""
    UNKNOWN_MEMBER = "UNKNOWN_MEMBER"
    """The coordinator doesn't know the member (it restarted): join again with the same member id and all grants."""
    INVALID_TOPOLOGY = "INVALID_TOPOLOGY"
    """Another topology runs under this application id, and the two can't share tasks."""
    INVALID_REQUEST = "INVALID_REQUEST"
    STALE_SEQUENCE = "STALE_SEQUENCE"


class StatusCode(Enum):
    """Why a member has no (or not all) tasks; the answer is OK all the same."""

    MISSING_SOURCE_TOPICS = "MISSING_SOURCE_TOPICS"
    INCORRECTLY_PARTITIONED_TOPICS = "INCORRECTLY_PARTITIONED_TOPICS"
    MISSING_INTERNAL_TOPICS = "MISSING_INTERNAL_TOPICS"
    KAFKA_UNREACHABLE = "KAFKA_UNREACHABLE"
    KAFKA_REFUSED = "KAFKA_REFUSED"
    """It answers, and doesn't accept the coordinator's credentials."""
    KAFKA_CLUSTER_CHANGED = "KAFKA_CLUSTER_CHANGED"
    """It answers, and is another cluster than the application's."""
    APPLICATION_ID_TAKEN = "APPLICATION_ID_TAKEN"
    """It answers, and another application has this one's id there."""
    ASSIGNMENT_DELAYED = "ASSIGNMENT_DELAYED"
    DRAINING = "DRAINING"


@dataclass(frozen=True, slots=True)
class Status:
    """A status code and its sentence for people."""

    code: StatusCode
    message: str


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What the coordinator says.

    epoch: to be echoed once the lists below are carried out. It also carries the leader's counter: a member
    never obeys an answer whose leader is older than one it has heard.
    sequence: that of the request it answers.
    grants: everything that the member should hold, whole. A task absent here is to be released.
    resumed: failed tasks that should try again.
    """

    code: Code
    epoch: Epoch
    sequence: int
    message: str = ""
    grants: tuple[Grant, ...] = ()
    statuses: tuple[Status, ...] = ()
    resumed: tuple[TaskId, ...] = ()
    acceptable_recovery_lag: int = 10_000
    heartbeat_interval_ms: int = 3_000
