"""The topology that runs, and its topics: asked for, refused and tried again, or ready with a plan of tasks."""

from __future__ import annotations

from sluice_coordinator.group import events
from sluice_coordinator.group.placing import TaskPlan
from sluice_coordinator.group.topologies import difference
from sluice_protocol.heartbeat import HeartbeatRequest, Status
from sluice_protocol.ids import TaskId
from sluice_protocol.topology import TopologyDescription


class Preparation:
    """`plan` is there once the topics are; it stays while a compatible topology is prepared."""

    def __init__(self, application_id: str, retry_ms: int) -> None:
        self._application_id = application_id
        self._retry_ms = retry_ms
        self._hashes: set[str] = set()
        self.topology: TopologyDescription | None = None
        self.plan: TaskPlan | None = None
        self.status: Status | None = None
        self.retry_at_ms: int | None = None

    @property
    def subtopologies(self) -> int:
        return 0 if self.topology is None else len(self.topology.subtopologies)

    def knows(self, request: HeartbeatRequest) -> bool:
        """Can the request be judged: does it bring its topology, or one that was accepted before?"""
        return request.topology is not None or request.topology_hash in self._hashes

    def mismatch(self, topology: TopologyDescription | None) -> str | None:
        """Why a worker of this topology can't share tasks with those that run; None if it can."""
        if topology is None or self.topology is None:
            return None
        reason = difference(self.topology, topology)
        if reason is None:
            return None
        return f"another topology runs as {self._application_id!r} and can't share tasks with this one: {reason}"

    def take(self, request: HeartbeatRequest) -> TopologyDescription | None:
        """Let the request's topology run; returns it if its topics must be prepared."""
        if request.topology is None or request.topology_hash in self._hashes:
            return None
        if not self._hashes:
            self.plan = None
        self.topology = request.topology
        self._hashes.add(request.topology_hash)
        return request.topology

    def expire(self) -> None:
        """Nobody runs it now, so that its topics may be deleted: whoever comes next has them prepared anew."""
        self._hashes.clear()

    def forget(self) -> None:
        """Nobody runs it any more."""
        self.topology = self.plan = self.status = self.retry_at_ms = None
        self._hashes.clear()

    def on_prepared(self, event: events.TopicsPrepared) -> bool:
        """Returns whether there are other tasks now."""
        if self.topology is None or event.topology_hash != self.topology.hash():
            return False
        before, self.plan = self.plan, TaskPlan(self.topology, event.partitions)
        self.status = self.retry_at_ms = None
        return before is None or before.tasks() != self.plan.tasks()

    def on_refused(self, event: events.TopicsRefused, now_ms: int) -> bool:
        """Returns whether the reason is a new one."""
        if self.topology is None or event.topology_hash != self.topology.hash():
            return False
        before, self.status = self.status, event.status
        self.retry_at_ms = now_ms + self._retry_ms
        return before != event.status

    def due(self, now_ms: int) -> TopologyDescription | None:
        """The topology, if it is time to try again."""
        if self.retry_at_ms is None or now_ms < self.retry_at_ms:
            return None
        self.retry_at_ms = None
        return self.topology

    def is_stateful(self, task: TaskId) -> bool:
        return self.plan is not None and bool(self.plan.tasks().get(task))
