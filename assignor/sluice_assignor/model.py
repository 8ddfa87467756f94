"""What the assignor reads and what it answers: a group in, a decision out (in the spirit of KIP-924's TaskAssignor).

Frozen data with no behaviour that decides. Workers are named by their process id, a UUID, because its order is part of
Kafka's answer; who they are otherwise is the caller's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from sluice_protocol.ids import TaskId

RUNNING = -2
"""The offset sum of a running active: it is more caught up than anybody (Kafka's Task.LATEST_OFFSET)."""

UNKNOWN_OFFSET_SUM = -3
"""The offset sum of a copy whose position is not known (Kafka's SubscriptionInfo.UNKNOWN_OFFSET_SUM)."""

MAX_LAG = 2**63 - 1
"""An acceptable recovery lag of this much switches warm-ups off: everybody is caught up."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the group. `end_offset_sum` counts offsets of its changelogs up to their last stable offsets."""

    id: TaskId
    stateful: bool
    end_offset_sum: int = 0


@dataclass(frozen=True, slots=True)
class Copy:
    """What a worker has of a task on its disk; offset_sum may be RUNNING or UNKNOWN_OFFSET_SUM."""

    offset_sum: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: its capacity in threads, what it holds now, and every copy on its disk, held or not.

    Raises ValueError when it has no thread.
    """

    process_id: UUID
    capacity: int
    draining: bool = False
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()
    copies: Mapping[TaskId, Copy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"worker {self.process_id} has {self.capacity} threads; it must have at least 1")


@dataclass(frozen=True, slots=True)
class GroupState:
    """A whole group at one moment. `end_offsets_known` is False when the changelogs' ends could not be read."""

    tasks: Mapping[TaskId, Task]
    workers: Mapping[UUID, Worker]
    end_offsets_known: bool = True


@dataclass(frozen=True, slots=True)
class AssignmentConfig:
    """KIP-441's parameters, with its defaults. Raises ValueError naming the field and the value."""

    strategy: str = "HighAvailability"
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.acceptable_recovery_lag <= MAX_LAG:
            raise ValueError(
                f"acceptableRecoveryLag is {self.acceptable_recovery_lag}; it must be from 0 to {MAX_LAG} offsets"
            )
        if self.max_warmup_replicas < 1:
            raise ValueError(
                f"maxWarmupReplicas is {self.max_warmup_replicas}; it must be at least 1, or no task could ever "
                f"warm up. Set acceptableRecoveryLag to {MAX_LAG} if you want tasks to move cold."
            )
        if self.num_standby_replicas < 0:
            raise ValueError(f"numStandbyReplicas is {self.num_standby_replicas}; it must be at least 0")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who holds which task in which role; every worker of the group is a key of each mapping."""

    active: Mapping[UUID, frozenset[TaskId]]
    standby: Mapping[UUID, frozenset[TaskId]]
    warmup: Mapping[UUID, frozenset[TaskId]]


class MoveReason(Enum):
    """Why a task changes (or can't yet change) its worker; shown to people as it is."""

    UNASSIGNED = "nobody held it"
    BALANCE = "placed for balance"
    WARMING = "not caught up yet; warming up"
    WAITING_FOR_SLOT = "not caught up yet; no warm-up slot left"
    SWAPPED_WITH_STANDBY = "swapped with a caught-up standby"
    HOT = "caught up; takes over"
    DRAINING = "its worker is draining"
    STANDBY = "standby placed"


@dataclass(frozen=True, slots=True)
class Move:
    """One task on its way from one worker to another, and why."""

    task: TaskId
    source: UUID | None
    destination: UUID
    reason: MoveReason


@dataclass(frozen=True, slots=True)
class Decision:
    """target: where every task should end up. next: the next safe assignment on the way. follow_up: another step is
    wanted once copies have warmed up (Kafka's probing rebalance)."""

    target: Assignment
    next: Assignment
    moves: tuple[Move, ...] = ()
    follow_up: bool = False
