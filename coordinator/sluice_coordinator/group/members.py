"""A member as the group knows it: what it said last, what it may hold, and how far it has got."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from sluice_coordinator.group.holdings import Holdings
from sluice_protocol.heartbeat import UNKNOWN, HeartbeatRequest, Role, Status, TaskCopy
from sluice_protocol.ids import JOIN, Epoch, TaskId, worker_slot

_SENDS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Poll:
    """An HTTP request that is held open."""

    number: int
    sequence: int
    since_ms: int


@dataclass(slots=True)
class Member:
    """One incarnation of a worker. `epoch`: of its present list; `reached`: of the last list that it carried out."""

    request: HeartbeatRequest
    heard_ms: int
    epoch: Epoch
    reached: Epoch = JOIN
    holdings: Holdings = field(default_factory=Holdings)
    poll: Poll | None = None
    behind_since_ms: int | None = None
    """Since when it has made no progress towards its list."""
    sends: int = 0
    """How often its list was sent since it last had carried one out."""
    statuses_sent: tuple[Status, ...] = ()
    resumed: tuple[TaskId, ...] = ()
    copies: dict[TaskId, TaskCopy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.copies = {copy.task: copy for copy in self.request.copies}

    @property
    def worker(self) -> str:
        return self.request.worker

    @property
    def member_id(self) -> str:
        return self.request.member_id

    @property
    def slot(self) -> int:
        return worker_slot(self.request.worker)

    @property
    def process_id(self) -> UUID:
        return UUID(self.request.process_id)

    @property
    def is_behind(self) -> bool:
        """Has it still to carry out its list?"""
        return self.reached < self.epoch

    @property
    def failed_tasks(self) -> frozenset[TaskId]:
        return frozenset(failed.task for failed in self.request.failed)

    def hear(self, request: HeartbeatRequest, now_ms: int) -> None:
        """Take over what it says of itself; what it holds is for the book."""
        self.request = request
        self.heard_ms = now_ms
        self.copies = {copy.task: copy for copy in request.copies}
        if request.member_epoch > self.reached:
            self.behind_since_ms = now_ms
        self.reached = request.member_epoch
        if not self.is_behind:
            self.behind_since_ms = None
            self.sends = 0
            self.resumed = ()

    def expect(self, epoch: Epoch, now_ms: int) -> None:
        """Its list has changed."""
        self.epoch = epoch
        self.sends = 0
        if self.behind_since_ms is None:
            self.behind_since_ms = now_ms

    def is_due(self, statuses: tuple[Status, ...], now_ms: int, interval_ms: int) -> bool:
        """Is there something to say to its poll?

        A list is sent again to whoever asks without having carried it out, since an answer may be lost; but only
        once at once, because a worker also asks while it is busy with that very list.
        """
        if self.poll is None:
            return False
        news = self.is_behind and self.sends < _SENDS_AT_ONCE
        return news or statuses != self.statuses_sent or now_ms >= self.poll.since_ms + interval_ms

    def lag(self, task: TaskId, end_offset_sum: int | None) -> int | None:
        """How far its copy is behind, by the newest end that is known; None when none is."""
        copy = self.copies.get(task)
        ends = [end_offset_sum] if end_offset_sum is not None else []
        if copy is not None and copy.end_offset_sum != UNKNOWN:
            ends.append(copy.end_offset_sum)
        if not ends:
            return None
        return max(0, max(ends) - max(0, copy.offset_sum if copy else 0))

    def holds_active(self, task: TaskId) -> bool:
        """Has it been given the task's active replica, and has that not been taken away?"""
        held = self.holdings.get((task, Role.ACTIVE))
        return held is not None and held.revoked is None
