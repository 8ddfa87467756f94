"""What a group is told when a leader takes it over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice_assignor import AssignmentConfig

Racks = Mapping[tuple[str, int], frozenset[str]]
"""The racks of the replicas of each partition, by topic and number, as far as they were asked for."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What outlives a coordinator: everything that any process of the application may still hold.

    Every transactional id that can be in use belongs to a slot below `slots` and a subtopology below `subtopologies`,
    on the Kafka of `cluster_id`; None before any has answered.
    """

    slots: int = 0
    subtopologies: int = 0
    cluster_id: str | None = None

    def covers(self, other: Recorded) -> bool:
        """Is everything of the other in here?"""
        is_there = other.cluster_id in (None, self.cluster_id)
        return self.slots >= other.slots and self.subtopologies >= other.subtopologies and is_there


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The parameters of a group. `leader`: the leader epoch, raised at every start. Durations in milliseconds."""

    application_id: str
    leader: int
    assignment: AssignmentConfig = field(default_factory=AssignmentConfig)
    heartbeat_interval_ms: int = 3_000
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    probing_interval_ms: int = 600_000
    topics_retry_ms: int = 2_000
    fence_retry_ms: int = 1_000
