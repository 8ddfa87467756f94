"""What the assignor reads and what it answers: a group in, a decision out (in the spirit of KIP-924's TaskAssignor).

Frozen data with no behaviour that decides. Workers are named by their process id, a UUID, because its order is part of
Kafka's answer; who they are otherwise is the caller's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from sluice_assignor.errors import InvalidConfigError, InvalidGroupError
from sluice_assignor.parameters import BalancedParameters, IncrementalParameters, OptimalParameters
from sluice_protocol.ids import TaskId

RUNNING = -2
"""The offset sum of a running active: it is more caught up than anybody (Kafka's Task.LATEST_OFFSET)."""

UNKNOWN_OFFSET_SUM = -3
"""The offset sum of a copy whose position is not known (Kafka's SubscriptionInfo.UNKNOWN_OFFSET_SUM)."""

MAX_LAG = 2**63 - 1
"""An acceptable recovery lag of this much switches warm-ups off: everybody is caught up."""

MAX_TAGS = 5
MAX_TAG_KEY_LENGTH = 20
MAX_TAG_VALUE_LENGTH = 30
"""The limits of KIP-708, in tags a worker (and tags that placement looks at) and in characters."""

MAX_COST = 1_000_000
"""No cost of KIP-925 may be higher. Kafka has no limit, and its costs wrap around as 32-bit integers do."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the group. `end_offset_sum` counts offsets of its changelogs up to their last stable offsets.

    `source_racks` and `changelog_racks` have one set for each partition that the task reads or restores from: the racks
    of all its replicas. A set is empty, or the whole is, when they are not known. `state_bytes` is the size of one
    whole copy, None when it is not known. Raises InvalidGroupError naming field and value.
    """

    id: TaskId
    stateful: bool
    end_offset_sum: int = 0
    source_racks: tuple[frozenset[str], ...] = ()
    changelog_racks: tuple[frozenset[str], ...] = ()
    state_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.end_offset_sum <= MAX_LAG:
            raise InvalidGroupError(
                f"task {self.id} has the endOffsetSum {self.end_offset_sum}; it must be from 0 to {MAX_LAG}. Set "
                "endOffsetsKnown to false if the ends of the changelogs can't be read"
            )
        if self.state_bytes is not None and self.state_bytes < 0:
            raise InvalidGroupError(
                f"task {self.id} has the stateBytes {self.state_bytes}; it must be at least 0, or left out"
            )


@dataclass(frozen=True, slots=True)
class Copy:
    """What a worker has of a task on its disk; offset_sum may be RUNNING or UNKNOWN_OFFSET_SUM.

    Raises InvalidGroupError naming field and value.
    """

    offset_sum: int
    size_bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.offset_sum <= MAX_LAG and self.offset_sum not in (RUNNING, UNKNOWN_OFFSET_SUM):
            raise InvalidGroupError(
                f"a copy has the offsetSum {self.offset_sum}; it must be from 0 to {MAX_LAG}, or {RUNNING} when it is "
                f"running, or {UNKNOWN_OFFSET_SUM} when it is not known"
            )
        if self.size_bytes < 0:
            raise InvalidGroupError(f"a copy has the sizeBytes {self.size_bytes}; it must be at least 0")


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: its capacity in threads, what it holds now, and every copy on its disk, held or not.

    `rack` is where its brokers are near (Kafka's client.rack); `tags` say where it stands (KIP-708's client tags, with
    its limits). Raises InvalidGroupError when it has no thread, holds a task in two roles, or its tags break a limit.
    """

    process_id: UUID
    capacity: int
    draining: bool = False
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()
    copies: Mapping[TaskId, Copy] = field(default_factory=dict)
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise InvalidGroupError(f"worker {self.process_id} has {self.capacity} threads; it must have at least 1")
        self._check_roles()
        if len(self.tags) > MAX_TAGS:
            raise InvalidGroupError(
                f"worker {self.process_id} has {len(self.tags)} tags; it may have at most {MAX_TAGS}: keep those that "
                "rackAwareTags names"
            )
        for key, value in self.tags.items():
            self._check_tag(key, value)

    def _check_roles(self) -> None:
        twice = self.active & self.standby | self.active & self.warmup | self.standby & self.warmup
        if twice:
            raise InvalidGroupError(
                f"worker {self.process_id} holds {min(twice)} in two roles; a worker has one copy of a task: name the "
                "role that it has"
            )

    def _check_tag(self, key: str, value: str) -> None:
        for what, text, longest in (("key", key, MAX_TAG_KEY_LENGTH), ("value", value, MAX_TAG_VALUE_LENGTH)):
            if not 1 <= len(text) <= longest:
                raise InvalidGroupError(
                    f"worker {self.process_id} has the tag {key!r}: {value!r}, whose {what} has {len(text)} "
                    f"characters; it must have from 1 to {longest}"
                )


@dataclass(frozen=True, slots=True)
class GroupState:
    """A whole group at one moment. `end_offsets_known` is False when the changelogs' ends could not be read.

    What workers have of tasks that are not in `tasks` counts for nothing: the topology has lost those tasks. The same
    goes for standbys, warm-ups and copies of tasks without state. Raises InvalidGroupError when a key is not that of
    its value, or when two workers run the same task.
    """

    tasks: Mapping[TaskId, Task]
    workers: Mapping[UUID, Worker]
    end_offsets_known: bool = True

    def __post_init__(self) -> None:
        for task_id, task in self.tasks.items():
            if task.id != task_id:
                raise InvalidGroupError(f"tasks has {task.id} under the key {task_id}; use the task's own id")
        for process_id, worker in self.workers.items():
            if worker.process_id != process_id:
                raise InvalidGroupError(
                    f"workers has {worker.process_id} under the key {process_id}; use the worker's own process id"
                )
        self._check_owners()

    def _check_owners(self) -> None:
        running = [worker.active for worker in self.workers.values()]
        if sum(map(len, running)) == len(frozenset().union(*running)):
            return
        owners: dict[TaskId, UUID] = {}
        for process_id, worker in self.workers.items():
            for task in worker.active:
                if owners.setdefault(task, process_id) != process_id:
                    raise InvalidGroupError(
                        f"task {task} is active on worker {owners[task]} and on worker {process_id}; leave out the one "
                        "that has been fenced"
                    )


class RackAwareStrategy(Enum):
    """How placement saves traffic between racks (KIP-925, rack.aware.assignment.strategy)."""

    NONE = "none"
    MIN_TRAFFIC = "min_traffic"
    """The least traffic that keeps how many tasks each worker has."""
    BALANCE_SUBTOPOLOGY = "balance_subtopology"
    """The least traffic that also spreads the tasks of each subtopology over the workers."""


@dataclass(frozen=True, slots=True)
class AssignmentConfig:
    """KIP-441's, KIP-708's and KIP-925's parameters, with their defaults.

    `traffic_cost` is the cost of one partition read from another rack, `non_overlap_cost` that of a task away from
    where it would be without racks; None is the default of the strategy that reads it. `rack_aware_tags` are the keys
    of the workers' tags in which the copies of a task should differ; without any, standbys ignore tags. The last
    fields hold what only the strategy of that name reads. Raises InvalidConfigError naming the field and the value.
    """

    strategy: str = "Optimal"
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    rack_aware_strategy: RackAwareStrategy = RackAwareStrategy.NONE
    traffic_cost: int | None = None
    non_overlap_cost: int | None = None
    rack_aware_tags: tuple[str, ...] = ()
    balanced: BalancedParameters = field(default_factory=BalancedParameters)
    incremental: IncrementalParameters = field(default_factory=IncrementalParameters)
    optimal: OptimalParameters = field(default_factory=OptimalParameters)

    def __post_init__(self) -> None:
        self._check_movement()
        self._check_racks()
        self._check_tags()

    def _check_movement(self) -> None:
        if not 0 <= self.acceptable_recovery_lag <= MAX_LAG:
            raise InvalidConfigError(
                f"acceptableRecoveryLag is {self.acceptable_recovery_lag}; it must be from 0 to {MAX_LAG} offsets"
            )
        if self.max_warmup_replicas < 1:
            raise InvalidConfigError(
                f"maxWarmupReplicas is {self.max_warmup_replicas}; it must be at least 1, or no task could ever "
                f"warm up. Set acceptableRecoveryLag to {MAX_LAG} if you want tasks to move cold."
            )
        if self.num_standby_replicas < 0:
            raise InvalidConfigError(f"numStandbyReplicas is {self.num_standby_replicas}; it must be at least 0")

    def _check_racks(self) -> None:
        for name, cost in (("trafficCost", self.traffic_cost), ("nonOverlapCost", self.non_overlap_cost)):
            if cost is not None and not 0 <= cost <= MAX_COST:
                raise InvalidConfigError(f"{name} is {cost}; it must be from 0 to {MAX_COST}")

    def _check_tags(self) -> None:
        if len(self.rack_aware_tags) > MAX_TAGS:
            raise InvalidConfigError(
                f"rackAwareTags names {len(self.rack_aware_tags)} tags; it may name at most {MAX_TAGS}"
            )
        for key in self.rack_aware_tags:
            if not 1 <= len(key) <= MAX_TAG_KEY_LENGTH:
                raise InvalidConfigError(
                    f"rackAwareTags names {key!r}, which has {len(key)} characters; a key must have from 1 to "
                    f"{MAX_TAG_KEY_LENGTH}"
                )
            if self.rack_aware_tags.count(key) > 1:
                raise InvalidConfigError(f"rackAwareTags names {key!r} more than once; name each tag once")


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


class Move(NamedTuple):
    """One task on its way from one worker to another, and why. (A tuple: a big group's decision has thousands.)

    `source` runs or holds the task until the destination can; None when nobody does. `left_to_restore`: offsets that
    the destination's copy lacks. `in_line`: the place of a copy that waits for a warm-up slot, 1 if it is the next.
    `unbalanced_by`: how many more tasks of this kind, with or without state, the source runs now.
    """

    task: TaskId
    source: UUID | None
    destination: UUID
    reason: MoveReason
    left_to_restore: int = 0
    in_line: int = 0
    unbalanced_by: int = 0


class Wish(Enum):
    """What a configuration may ask for that the state of a group can make impossible."""

    RACKS = "saving traffic between racks"
    TAGS = "standbys on workers that differ in their tags"


@dataclass(frozen=True, slots=True)
class Degradation:
    """A wish that this decision left out, and why, in words for people."""

    wish: Wish
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """target: where every task should end up. next: the next safe assignment on the way. follow_up: another step is
    wanted once copies have warmed up (Kafka's probing rebalance). degraded: what the configuration asks for and this
    decision does not heed."""

    target: Assignment
    next: Assignment
    moves: tuple[Move, ...] = ()
    follow_up: bool = False
    degraded: tuple[Degradation, ...] = ()
