"""One application's group in a running process: hands events to the core and carries its effects out.

Everything here runs in the event loop; what blocks (Kafka, fences, the disk) runs beside it and comes back as an event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from sluice_assignor import AssignmentConfig, Decision, GroupState, decide
from sluice_coordinator.group import Group, GroupConfig, Recorded, effects, events
from sluice_coordinator.group.config import Racks
from sluice_coordinator.group.views import group_view
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.settings import CoordinatorSettings
from sluice_coordinator.threads import in_thread
from sluice_coordinator.topics.admin import KafkaRefusedError
from sluice_protocol.heartbeat import HeartbeatAnswer, HeartbeatRequest, Status, StatusCode
from sluice_protocol.ids import TaskId
from sluice_protocol.topology import TopologyDescription
from sluice_protocol.view import GroupView

_PATIENCE_SECONDS = 10.0
"""How much longer than a heartbeat interval an answer may take, before the worker is told that there is none."""

_RETRY_SECONDS = 2.0

log = logging.getLogger("sluice.coordinator")


class Topics(Protocol):
    """What the driver asks of Kafka; all of it blocks."""

    def check(self) -> str: ...
    def prepare(self, topology: TopologyDescription) -> tuple[int, ...] | Status: ...
    def end_offset_sums(self, changelogs: Mapping[TaskId, Sequence[str]]) -> dict[TaskId, int]: ...
    def racks(self, topics: Sequence[str]) -> Racks: ...


class Fencing(Protocol):
    """How workers are fenced; it blocks."""

    def fence(self, transactional_ids: Sequence[str]) -> None: ...


class Memory(Protocol):
    """What outlives the process."""

    def raise_leader(self, above: int = 0) -> int: ...
    def footprint(self) -> Recorded: ...
    def record_footprint(self, footprint: Recorded) -> None: ...


class FootprintRefusedError(Exception):
    """The footprint may not be recorded for now: another application has this one's id on its Kafka."""


class NoAnswerError(Exception):
    """A heartbeat could not be answered in time; the message says why."""


class Driver:
    """Runs one group. `start` before anything else, `close` at the end."""

    def __init__(
        self, settings: CoordinatorSettings, memory: Memory, topics: Topics, fencing: Fencing, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._topics = topics
        self._fencing = fencing
        self._metrics = metrics
        self._began_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
        self._polls: dict[int, asyncio.Future[HeartbeatAnswer]] = {}
        self._last_poll = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._doubts_kafka = asyncio.Event()
        self._recording = asyncio.Lock()
        self._moves_counted = 0
        self.has_reached_kafka = False
        self._held: list[events.Event] | None = None
        """While a newer leader epoch is raised: what the next group is to be told."""
        self._group = self._new_group(memory.raise_leader())

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the application."""
        return self._settings.namespace, self._settings.name or self._settings.application_id

    def start(self) -> None:
        """Begin to keep time and to look for Kafka."""
        self._doubts_kafka.set()
        self._run(self._watch_kafka())
        self._keep_time()

    async def close(self) -> None:
        """Stop everything; open polls get no answer."""
        if self._timer is not None:
            self._timer.cancel()
        for poll in self._polls.values():
            poll.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def view(self) -> GroupView:
        """The group at this moment."""
        return group_view(self._group)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """The answer, when there is one. Raises NoAnswerError."""
        if self._held is not None:
            raise NoAnswerError(f"{request.worker} has to wait: the coordinator starts again with a newer epoch")
        self._last_poll += 1
        number = self._last_poll
        poll: asyncio.Future[HeartbeatAnswer] = asyncio.get_running_loop().create_future()
        self._polls[number] = poll
        self.tell(events.HeartbeatReceived(number, request))
        try:
            answer = await asyncio.wait_for(poll, self._settings.heartbeat_interval_ms / 1000 + _PATIENCE_SECONDS)
        except TimeoutError:
            self.tell(events.PollAbandoned(number))
            raise NoAnswerError(f"{request.worker} has to wait: {self._why_waiting()}") from None
        except asyncio.CancelledError:
            self.tell(events.PollAbandoned(number))
            raise
        finally:
            self._polls.pop(number, None)
        self._metrics.heartbeats.labels(answer.code.value).inc()
        return answer

    def tell(self, event: events.Event) -> None:
        """Take an event in, and begin whatever it leads to."""
        if self._held is not None:
            self._held.append(event)
            return
        draining = frozenset(self._group.draining)
        for effect in self._group.handle(event, self._now_ms()):
            self._carry_out(effect)
        self._count_drains(draining, event)
        self._count_moves()
        self._keep_time()

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Answer():
                poll = self._polls.get(effect.poll)
                if poll is not None and not poll.done():
                    poll.set_result(effect.answer)
            case effects.Fence():
                self._run(self._fence(effect))
            case effects.PrepareTopics():
                self._run(self._prepare(effect.topology))
            case effects.FetchEndOffsets():
                self._run(self._fetch_end_offsets(effect))
            case effects.RecordFootprint():
                self._run(self._record(effect.footprint))
            case effects.RaiseLeader():
                self._held = []
                self._run(self._replace_group(effect.above))
            case effects.Fact():
                log.info("%s: %s", self._settings.application_id, effect.text)

    def _tell_if_current(self, group: Group, event: events.Event) -> None:
        """What an earlier group asked for says nothing to the present one."""
        if group is self._group and self._held is None:
            self.tell(event)

    async def _fence(self, fence: effects.Fence) -> None:
        group = self._group
        try:
            await in_thread(lambda: self._fencing.fence(fence.transactional_ids))
        except Exception as error:
            self._metrics.fences.labels("failed").inc()
            self._doubts_kafka.set()
            self._tell_if_current(group, events.FenceFailed(fence.worker, str(error)))
        else:
            self._metrics.fences.labels("done").inc()
            self._tell_if_current(group, events.FenceFinished(fence.worker))

    async def _prepare(self, topology: TopologyDescription) -> None:
        group, digest = self._group, topology.hash()
        try:
            prepared = await in_thread(lambda: self._topics.prepare(topology))
        except Exception as error:
            log.exception("topics of %s could not be prepared", self._settings.application_id)
            prepared = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"the topics could not be prepared: {error}")
        if isinstance(prepared, Status):
            if prepared.code is StatusCode.KAFKA_UNREACHABLE:
                self._doubts_kafka.set()
            self._tell_if_current(group, events.TopicsRefused(digest, prepared))
        else:
            self._tell_if_current(group, events.TopicsPrepared(digest, prepared))

    async def _fetch_end_offsets(self, fetch: effects.FetchEndOffsets) -> None:
        group = self._group
        try:
            ends = await in_thread(lambda: self._topics.end_offset_sums(fetch.changelogs))
            racks = await self._fetch_racks(fetch.topics)
        except Exception as error:
            self._doubts_kafka.set()
            self._tell_if_current(group, events.EndOffsetsFailed(str(error)))
        else:
            self._tell_if_current(group, events.EndOffsetsFetched(ends, racks))

    async def _fetch_racks(self, topics: Sequence[str]) -> Racks:
        """Racks are a wish: without them tasks are placed all the same, and the decision says what it left out."""
        try:
            return await in_thread(lambda: self._topics.racks(topics))
        except Exception as error:
            log.warning("the racks of the replicas can't be read: %s", error)
            return {}

    async def _record(self, footprint: Recorded) -> None:
        group = self._group
        async with self._recording:
            while group is self._group and self._held is None:
                try:
                    await in_thread(lambda: self._memory.record_footprint(footprint))
                except OSError as error:
                    log.error("what must outlive the coordinator can't be written: %s", error)  # noqa: TRY400
                    await asyncio.sleep(_RETRY_SECONDS)
                except FootprintRefusedError as error:
                    status = Status(StatusCode.APPLICATION_ID_TAKEN, str(error))
                    self._tell_if_current(group, events.FootprintRefused(status))
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    break
        self._tell_if_current(group, events.FootprintRecorded(footprint))

    async def _watch_kafka(self) -> None:
        """Ask Kafka whenever there is doubt, until it answers."""
        while True:
            await self._doubts_kafka.wait()
            self._doubts_kafka.clear()
            while not await self._reaches_kafka():
                await asyncio.sleep(_RETRY_SECONDS)

    async def _reaches_kafka(self) -> bool:
        try:
            cluster_id = await in_thread(self._topics.check)
        except Exception as error:
            if self.has_reached_kafka or not self._group.statuses:
                log.warning("%s", error)
            self.has_reached_kafka = False
            is_refused = isinstance(error, KafkaRefusedError)
            code = StatusCode.KAFKA_REFUSED if is_refused else StatusCode.KAFKA_UNREACHABLE
            self.tell(events.KafkaLost(str(error), code))
            return False
        self.has_reached_kafka = True
        self.tell(events.KafkaReached(cluster_id))
        return True

    def _new_group(self, leader: int) -> Group:
        settings = self._settings
        config = GroupConfig(
            application_id=settings.application_id,
            leader=leader,
            assignment=settings.assignment,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            probing_interval_ms=settings.probing_interval_ms,
        )
        return Group(config, self._memory.footprint(), self._now_ms(), self._timed_decide)

    async def _replace_group(self, above: int) -> None:
        """Begin a group above a leader that somebody has heard; until then nobody gets an answer."""
        async with self._recording:  # what is still being written would change what the new group builds on
            while self._held is not None:
                try:
                    group = self._new_group(await in_thread(lambda: self._memory.raise_leader(above)))
                except Exception as error:
                    log.error("%s: no leader epoch above %d: %s", self._settings.application_id, above, error)  # noqa: TRY400
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    self._begin(group)

    def _begin(self, group: Group) -> None:
        draining, held = self._group.draining, self._held or []
        self._group, self._held, self._moves_counted = group, None, 0
        self._doubts_kafka.set()  # it has to hear which cluster answers
        for event in (*map(events.DrainRequested, draining), *held):
            self.tell(event)
        self._keep_time()

    def _timed_decide(self, state: GroupState, config: AssignmentConfig) -> Decision:
        with self._metrics.decision_seconds.time():
            return decide(state, config)

    def _keep_time(self) -> None:
        """Wake up at the group's next deadline."""
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._group.deadline_ms()
        if deadline is not None:
            wait = max(0, deadline - self._now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait, self.tell, events.Tick())

    def _count_moves(self) -> None:
        moves = self._group.moves
        fresh = moves.count - self._moves_counted
        for move in list(moves.completed)[len(moves.completed) - fresh :] if fresh else []:
            planned = "true" if move.planned else "false"
            self._metrics.moves.labels(planned).inc()
            self._metrics.handover_seconds.labels(planned).observe(move.pause_ms / 1000)
        self._moves_counted = moves.count

    def _count_drains(self, before: frozenset[str], event: events.Event) -> None:
        ending = "cancelled" if isinstance(event, events.DrainCancelled) else "finished"
        self._metrics.drains.labels("started").inc(len(self._group.draining - before))
        self._metrics.drains.labels(ending).inc(len(before - self._group.draining))

    def _why_waiting(self) -> str:
        sentences = [status.message for status in self._group.statuses]
        return "; ".join(sentences) or "its slot is being fenced"

    def _now_ms(self) -> int:
        """Wall-clock time that never jumps."""
        return self._began_ms + time.monotonic_ns() // 1_000_000

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a part of the coordinator failed", exc_info=task.exception())


Drivers = Mapping[tuple[str, str], Driver]
"""By namespace and name."""
