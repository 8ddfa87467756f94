"""What a group hears: one dataclass an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice_coordinator.group.config import Racks, Recorded
from sluice_protocol.heartbeat import HeartbeatRequest, Status, StatusCode
from sluice_protocol.ids import TaskId


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """A worker asks. `poll` names the open HTTP request, for the Answer."""

    poll: int
    request: HeartbeatRequest


@dataclass(frozen=True, slots=True)
class PollAbandoned:
    """The worker has closed the HTTP request: nobody would hear an answer."""

    poll: int


@dataclass(frozen=True, slots=True)
class MemberGone:
    """Whoever started the worker's process has seen it end."""

    worker: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Empty the worker."""

    worker: str


@dataclass(frozen=True, slots=True)
class DrainCancelled:
    """Take the drain back."""

    worker: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """Every failed task tries again."""


@dataclass(frozen=True, slots=True)
class FenceFinished:
    """Every producer that the worker had when the Fence was asked for is dead, its open transactions are aborted."""

    worker: str


@dataclass(frozen=True, slots=True)
class FenceFailed:
    """The fence may or may not have happened."""

    worker: str
    message: str


@dataclass(frozen=True, slots=True)
class TopicsPrepared:
    """Every topic of the topology is there. `partitions`: the number of tasks of each subtopology."""

    topology_hash: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicsRefused:
    """The topology can't run on the topics that are there, or Kafka could not be asked."""

    topology_hash: str
    status: Status


@dataclass(frozen=True, slots=True)
class EndOffsetsFetched:
    """The last stable offsets of the changelogs, summed by task, and the racks that were asked for, by topic and
    partition."""

    end_offset_sums: Mapping[TaskId, int]
    racks: Racks = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndOffsetsFailed:
    """They could not be read."""

    message: str


@dataclass(frozen=True, slots=True)
class FootprintRecorded:
    """The record is durable."""

    recorded: Recorded


@dataclass(frozen=True, slots=True)
class FootprintRefused:
    """The record is not made for now, since another application has this one's id on its Kafka."""

    status: Status


@dataclass(frozen=True, slots=True)
class KafkaReached:
    """Kafka answers, and says which one it is."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class KafkaLost:
    """Kafka doesn't answer, or not to this coordinator."""

    message: str
    code: StatusCode = StatusCode.KAFKA_UNREACHABLE


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: due whenever `Group.deadline_ms` is reached."""


Event = (
    HeartbeatReceived
    | PollAbandoned
    | MemberGone
    | DrainRequested
    | DrainCancelled
    | ResumeRequested
    | FenceFinished
    | FenceFailed
    | TopicsPrepared
    | TopicsRefused
    | EndOffsetsFetched
    | EndOffsetsFailed
    | FootprintRecorded
    | FootprintRefused
    | KafkaReached
    | KafkaLost
    | Tick
)
