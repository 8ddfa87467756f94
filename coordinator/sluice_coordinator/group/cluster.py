"""Which Kafka is the application's: the cluster that it was first seen on, whatever address leads there.

Offsets, changelogs and open transactions are a cluster's own. On another one a fence returns and has fenced nobody, and
the tasks would begin from nothing. Addresses don't tell: one cluster has several, and an address may lead elsewhere
tomorrow. So nothing is done on a Kafka before its own id is on record, nor on one with another id.
"""

from __future__ import annotations

from sluice_coordinator.group.config import Recorded
from sluice_protocol.heartbeat import Status, StatusCode


class Cluster:
    """The Kafka that answers at the moment; `cluster_id` is None while none does."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self._lost: Status | None = None
        self._refused: Status | None = None

    def reach(self, cluster_id: str) -> None:
        """It answers."""
        self.cluster_id, self._lost = cluster_id, None

    def lose(self, status: Status) -> None:
        """It doesn't; whoever answers next may be another one."""
        self.cluster_id, self._lost = None, status

    def refuse(self, status: Status | None) -> None:
        """It can't be put on record; None: it could."""
        self._refused = status

    def is_foreign(self, recorded: Recorded) -> bool:
        """Does another cluster answer than the application's?"""
        return None not in (self.cluster_id, recorded.cluster_id) and self.cluster_id != recorded.cluster_id

    def is_own(self, recorded: Recorded) -> bool:
        """Does the one that is on record answer?"""
        return self.cluster_id is not None and self.cluster_id == recorded.cluster_id

    def status(self, recorded: Recorded) -> Status | None:
        """What is wrong with it."""
        if not self.is_foreign(recorded):
            return self._lost or self._refused
        return Status(
            StatusCode.KAFKA_CLUSTER_CHANGED,
            f"the Kafka that answers is cluster {self.cluster_id}, and the application has its offsets, topics and "
            f"transactions on cluster {recorded.cluster_id}: point spec.kafka.bootstrapServers (--bootstrap) back; or "
            "delete the StreamsApp (locally: `sluice reset`) and create it anew to begin again there",
        )
