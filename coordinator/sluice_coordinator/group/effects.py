"""What a group wants done: one dataclass an effect. Each but Answer, RaiseLeader and Fact is answered by an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice_coordinator.group.config import Recorded
from sluice_protocol.heartbeat import HeartbeatAnswer
from sluice_protocol.ids import TaskId
from sluice_protocol.topology import TopologyDescription


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the open HTTP request."""

    poll: int
    answer: HeartbeatAnswer


@dataclass(frozen=True, slots=True)
class Fence:
    """Call init_transactions for every id; answered by FenceFinished or FenceFailed."""

    worker: str
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrepareTopics:
    """Check the source topics, create the internal ones; answered by TopicsPrepared or TopicsRefused."""

    topology: TopologyDescription


@dataclass(frozen=True, slots=True)
class FetchEndOffsets:
    """Read the last stable offsets of each task's changelogs (the partition is the task's), and the racks of the
    replicas of all partitions of `topics`; answered by EndOffsetsFetched or EndOffsetsFailed."""

    changelogs: Mapping[TaskId, tuple[str, ...]]
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordFootprint:
    """Make this durable; answered by FootprintRecorded, or by FootprintRefused before that. Until then no member that
    needs it is answered, and nothing is asked of a Kafka that is not on record."""

    footprint: Recorded


@dataclass(frozen=True, slots=True)
class RaiseLeader:
    """A member has heard a newer leader: make an epoch above this one durable and start a new group with it."""

    above: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence for people."""

    text: str


OnKafka = Fence | PrepareTopics | FetchEndOffsets
"""What is done on Kafka."""

Effect = Answer | Fence | PrepareTopics | FetchEndOffsets | RecordFootprint | RaiseLeader | Fact
