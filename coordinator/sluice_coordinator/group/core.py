"""The group: membership, epochs, grants (KIP-1071's coordinator with KIP-441's warm-ups), as a pure state machine.

Each event is taken in, then everything that has become possible is done: the adoption window ends, what is wanted
is granted as far as it is safe, the next step is begun, polls with news are answered. So nothing depends on which event
it was that made it possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sluice_assignor import MoveReason, RackAwareStrategy
from sluice_assignor import decide as assignor_decide
from sluice_coordinator.group import effects, events, requests
from sluice_coordinator.group.cluster import Cluster
from sluice_coordinator.group.config import GroupConfig, Racks, Recorded
from sluice_coordinator.group.members import Member, Poll
from sluice_coordinator.group.moves import MoveRecord
from sluice_coordinator.group.outbox import FENCED, SUPERSEDED, Outbox
from sluice_coordinator.group.preparation import Preparation
from sluice_coordinator.group.reconcile import matches, reconcile
from sluice_coordinator.group.slots import Admission, Roster, Slot, SlotState, admit
from sluice_coordinator.group.stepping import Decide, Stepping
from sluice_protocol.heartbeat import Code, Grant, HeartbeatRequest, Role, Status, StatusCode
from sluice_protocol.ids import JOIN, LEAVE, Epoch, TaskId, transactional_id

_NO_RACKS: Racks = {}
_LATE_MS = 1_000
"""A tick that comes later than this means that this process stood still, not that its members did."""


class Group:
    """One application under one leader epoch."""

    def __init__(self, config: GroupConfig, recorded: Recorded, now_ms: int, decide: Decide = assignor_decide) -> None:
        self.config = config
        self.recorded = recorded
        self.roster = Roster(recorded.slots)
        self.preparation = Preparation(config.application_id, config.topics_retry_ms)
        self.stepping = Stepping(config.assignment, config.probing_interval_ms, decide)
        self.moves = MoveRecord()
        self.draining: set[str] = set()
        self.epoch = Epoch(config.leader, 0)
        self.adopting = recorded.slots > 0
        self._adoption_ends_ms = now_ms + config.session_timeout_ms
        self._outbox = Outbox(config)
        self._now_ms = now_ms
        self._announced_ms: int | None = None
        self._recording: Recorded | None = None
        self._cluster = Cluster()
        self._is_deposed = False

    # What people and the driver see.

    @property
    def members(self) -> list[Member]:
        """Those whose word counts, by slot."""
        return self.roster.members

    @property
    def is_settled(self) -> bool:
        """Has every member reached the last step?"""
        wanted = self.stepping.step.wanted
        in_place = all(not member.is_behind and matches(member, wanted) for member in self.members)
        return in_place and not self.roster.fenced

    @property
    def statuses(self) -> tuple[Status, ...]:
        """What keeps the group as a whole from its work."""
        known = (self._cluster.status(self.recorded), self.preparation.status, self._delay())
        return tuple(status for status in known if status is not None)

    def deadline_ms(self) -> int | None:
        """When the next Tick is due, if nothing happens before."""
        return min(self._deadlines(), default=None)

    # Events.

    def handle(self, event: events.Event, now_ms: int) -> tuple[effects.Effect, ...]:
        """Take one event in; returns what is to be done. `now_ms` never goes backwards."""
        if self._is_deposed:
            return ()
        self._allow_for_standstill(now_ms)
        self._now_ms = now_ms
        self._take_in(event)
        if not self.members and not self.roster.fenced:
            self.preparation.expire()
        self._advance()
        self._announced_ms = self.deadline_ms()
        return self._outbox.take(on_kafka=self._cluster.is_own(self.recorded))

    def _take_in(self, event: events.Event) -> None:  # noqa: PLR0912 - one case an event
        match event:
            case events.HeartbeatReceived():
                self._on_heartbeat(Poll(event.poll, event.request.sequence, self._now_ms), event.request)
            case events.PollAbandoned():
                for slot in self.roster:
                    slot.give_up(event.poll)
            case events.MemberGone():
                self._on_gone(event.worker, event.incarnation)
            case events.DrainRequested() | events.DrainCancelled():
                self._on_drain(event.worker, isinstance(event, events.DrainRequested))
            case events.ResumeRequested():
                self._on_resume()
            case events.FenceFinished():
                self._on_fenced(event.worker)
            case events.FenceFailed():
                self._on_fence_failed(event.worker, event.message)
            case events.TopicsPrepared():
                if self.preparation.on_prepared(event):
                    self.stepping.want_at_once()
            case events.TopicsRefused():
                if self.preparation.on_refused(event, self._now_ms):
                    self._outbox.tell(event.status.message)
            case events.EndOffsetsFetched():
                self.stepping.end()
                self._take_step(event.end_offset_sums, event.racks)
            case events.EndOffsetsFailed():
                self._outbox.tell(f"the ends of the changelogs can't be read, so tasks stay: {event.message}")
                self.stepping.end()
                self._take_step(None)
            case events.FootprintRecorded():
                self.recorded, self._recording = event.recorded, None
                self._cluster.refuse(None)
            case events.FootprintRefused():
                self._cluster.refuse(event.status)
            case events.KafkaReached():
                self._cluster.reach(event.cluster_id)
            case events.KafkaLost():
                self._cluster.lose(Status(event.code, event.message))
            case events.Tick():
                self._on_tick()

    def _allow_for_standstill(self, now_ms: int) -> None:
        """If this process was frozen, its members' words wait unread: that time is not counted as their silence."""
        late = 0 if self._announced_ms is None else now_ms - self._announced_ms
        if late > _LATE_MS:
            self._adoption_ends_ms += late
            for member in self.members:
                member.heard_ms += late

    # Heartbeats.

    def _on_heartbeat(self, poll: Poll, request: HeartbeatRequest) -> None:
        problem = requests.problem(request, self.config.application_id)
        problem = problem or requests.impossible_leader(request, self.config.leader)
        if problem is not None:
            self._answer(poll, Code.INVALID_REQUEST, problem)
            return
        leader = requests.newest_leader(request)
        if leader > self.config.leader:
            self._depose(poll, request.worker, leader)
            return
        slot = self.roster.of(request.worker)
        admission = admit(slot, request, self.config.leader)
        match admission:
            case Admission.KNOWN:
                self._on_member(slot, poll, request)
            case Admission.JOIN | Admission.ADOPT | Admission.FENCE:
                self._on_stranger(slot, poll, request, admission)
            case Admission.PARK:
                self._park(slot, poll, request.member_id)
            case Admission.FENCED:
                self._answer(poll, Code.FENCED, FENCED)
            case Admission.LEFT:
                if slot.state is SlotState.SILENT:
                    self._fence(slot, "it leaves, and this coordinator doesn't know what it held")
                self._answer(poll, Code.OK)

    def _on_member(self, slot: Slot, poll: Poll, request: HeartbeatRequest) -> None:
        member = slot.member
        if member is None:
            return
        if request.sequence <= member.request.sequence:
            self._answer(poll, Code.STALE_SEQUENCE, "a newer request of this member has been heard")
            return
        self._supersede_poll(member)
        if request.member_epoch == LEAVE:
            self._leave(slot, member)
            self._answer(poll, Code.OK)
            return
        may_adopt = not self._has_heard_us(member) and request.member_epoch.leader != self.config.leader
        failed_before = member.failed_tasks
        member.hear(request, self._now_ms)
        if failed_before - member.failed_tasks:
            self.stepping.want()  # what has recovered may move again
        self._take_echo(member)
        if not self._take_claims(slot, member, may_adopt=may_adopt):
            self._park(slot, poll, request.member_id)
            return
        member.poll = poll
        self.stepping.notice_hot_copies(member)

    def _take_echo(self, member: Member) -> None:
        released, confirmed = member.holdings.echo(member.request.member_epoch, member.request.grants)
        for grant in released:
            if grant.role is Role.ACTIVE:
                self.moves.ended(grant.task, member.worker, self._now_ms)
        for grant in confirmed:
            move = self.moves.confirmed(grant.task, self._now_ms) if grant.role is Role.ACTIVE else None
            if move is not None:
                self._outbox.tell(f"{move.task} moved from {move.source} to {move.destination}: {move.reason}")

    def _take_claims(self, slot: Slot, member: Member, *, may_adopt: bool) -> bool:
        """Take over what a member of an earlier leader lists; False if the member is fenced for what it claims."""
        for grant in member.holdings.unknown(member.request.grants):
            if not may_adopt:
                self._fence(slot, f"it claims {grant.task} of epoch {grant.epoch}, which it was not given")
                return False
            if not self._adopt_active(slot, member, grant):
                return False
        return True

    def _adopt_active(self, slot: Slot, member: Member, grant: Grant) -> bool:
        """Of two claims the newer grant wins, and the other member is fenced."""
        for rival in [*self.members, *self.roster.fenced]:
            held = rival.holdings.get((grant.task, Role.ACTIVE))
            if held is None or rival is member:
                continue
            if held.grant.epoch >= grant.epoch:
                self._fence(slot, f"it claims {grant.task}, which was given to {rival.worker} later")
                return False
            self._fence(self.roster.of(rival.worker), f"it claims {grant.task}, given to {slot.worker} later")
        member.holdings.adopt(grant)
        self.stepping.want_as_held(member)
        member.expect(self._next_epoch(), self._now_ms)
        return True

    def _on_stranger(self, slot: Slot, poll: Poll, request: HeartbeatRequest, admission: Admission) -> None:
        """A process that is no member: look at what it is first, then at what its slot needs."""
        if not self.preparation.knows(request):
            self._answer(poll, Code.UNKNOWN_MEMBER, "not known here: send the topology and all grants")
            return
        mismatch = self._mismatch(request, admission)
        if mismatch is not None:
            self._answer(poll, Code.INVALID_TOPOLOGY, mismatch)
            return
        twin = requests.twin(request, self.members)
        if twin is not None:
            self._answer(poll, Code.INVALID_REQUEST, twin)
            return
        if admission is Admission.FENCE:
            self._fence(slot, "another process of it wants to join")
            self._park(slot, poll, request.member_id)
            return
        topology = self.preparation.take(request)
        if topology is not None:
            self._outbox.do(effects.PrepareTopics(topology))
        self._admit(slot, poll, request)

    def _mismatch(self, request: HeartbeatRequest, admission: Admission) -> str | None:
        """Why the stranger's topology can't run here; None if it can.

        A worker that runs tasks comes before any that has none yet: those are dropped, and learn why when they ask.
        """
        mismatch = self.preparation.mismatch(request.topology)
        nobody_holds = all(member.holdings.is_empty for member in [*self.members, *self.roster.fenced])
        if mismatch is None or not nobody_holds or (self.members and admission is not Admission.ADOPT):
            return mismatch
        self.preparation.forget()
        self.stepping.forget()
        for slot in self.roster:
            if slot.member is not None and slot.state is SlotState.HELD:
                self._supersede_poll(slot.member)
                slot.member, slot.state = None, SlotState.CLEAN
        return None

    def _admit(self, slot: Slot, poll: Poll, request: HeartbeatRequest) -> None:
        member = Member(request, self._now_ms, self._next_epoch(), behind_since_ms=self._now_ms)
        slot.member, slot.state, slot.was_used = member, SlotState.HELD, True
        self.stepping.want_at_once()
        if request.member_epoch == JOIN:
            self._outbox.tell(f"{slot.worker} joined")
            member.poll = poll
            return
        self._outbox.tell(f"{slot.worker} reported with {len(request.grants)} tasks and is adopted")
        for grant in request.grants:
            if grant.role is not Role.ACTIVE:
                member.holdings.adopt(grant)
        if self._take_claims(slot, member, may_adopt=True):
            self.stepping.want_as_held(member)
            member.poll = poll
        else:
            self._park(slot, poll, request.member_id)

    # Ends of membership.

    def _leave(self, slot: Slot, member: Member) -> None:
        """It has closed everything before it said so."""
        self._end_holdings(member, "its worker left")
        slot.retire(member.member_id)
        slot.member, slot.state = None, SlotState.CLEAN
        self.draining.discard(slot.worker)
        self._outbox.tell(f"{slot.worker} left")

    def _on_gone(self, worker: str, incarnation: str) -> None:
        slot = self.roster.find(worker)
        if slot is None:
            return
        is_present = slot.state is SlotState.HELD and slot.member and slot.member.request.incarnation == incarnation
        if is_present or slot.state is SlotState.SILENT:
            self._fence(slot, "its process has ended")

    def _fence(self, slot: Slot, reason: str) -> None:
        """Begin to fence a slot, whoever is in it."""
        if slot.state is SlotState.FENCING:
            return
        self._outbox.tell(f"fencing {slot.worker}: {reason}")
        slot.state = SlotState.FENCING
        if slot.member is not None:
            slot.retire(slot.member.member_id)
            if slot.member.poll is not None:
                slot.parked[slot.member.member_id] = slot.member.poll
                slot.member.poll = None
        self._ask_for_fence(slot)

    def _ask_for_fence(self, slot: Slot) -> None:
        slot.retry_fence_at_ms = None
        application = self.config.application_id
        ids = tuple(transactional_id(application, slot.worker, number) for number in range(self._subtopologies()))
        self._outbox.do(effects.Fence(slot.worker, ids))

    def _on_fenced(self, worker: str) -> None:
        slot = self.roster.find(worker)
        if slot is None or slot.state is not SlotState.FENCING:
            return
        if slot.member is not None:
            self._end_holdings(slot.member, "its worker was fenced")
        slot.member, slot.state, slot.was_fenced, slot.was_used = None, SlotState.CLEAN, True, True
        slot.retry_fence_at_ms = None
        for member_id, poll in slot.parked.items():
            slot.retire(member_id)
            self._answer(poll, Code.FENCED, FENCED)
        slot.parked = {}
        self.stepping.want_at_once()
        self._outbox.tell(f"{worker} is fenced")

    def _on_fence_failed(self, worker: str, message: str) -> None:
        slot = self.roster.find(worker)
        if slot is not None and slot.state is SlotState.FENCING:
            slot.retry_fence_at_ms = self._now_ms + self.config.fence_retry_ms
            self._outbox.tell(f"{worker} could not be fenced and is tried again: {message}")

    def _end_holdings(self, member: Member, ending: str) -> None:
        for task in member.holdings.tasks(Role.ACTIVE):
            self.moves.ended(task, member.worker, self._now_ms, ending)
        self.stepping.drop(member.worker)
        self.stepping.want_at_once()

    def _depose(self, poll: Poll, worker: str, heard: int) -> None:
        """Somebody has led since: what this leader knows of the group is worth nothing."""
        self._is_deposed = True
        self._outbox.tell(f"{worker} has heard leader {heard}, newer than {self.config.leader}: starting above it")
        for held in [poll, *(held for slot in self.roster for held in slot.polls)]:
            self._answer(held, Code.UNKNOWN_MEMBER, "the coordinator starts again with a newer epoch")
        self._outbox.do(effects.RaiseLeader(heard))

    # Other events.

    def _on_drain(self, worker: str, wanted: bool) -> None:
        if wanted == (worker in self.draining):
            return
        (self.draining.add if wanted else self.draining.discard)(worker)
        self.stepping.want_at_once()
        self._outbox.tell(f"{worker} is to be emptied" if wanted else f"{worker} takes tasks again")

    def _on_resume(self) -> None:
        for member in self.members:
            if member.failed_tasks:
                member.resumed = tuple(sorted(member.failed_tasks))
                member.expect(self._next_epoch(), self._now_ms)

    def _on_tick(self) -> None:
        now, config = self._now_ms, self.config
        for slot in self.roster:
            if slot.retry_fence_at_ms is not None and now >= slot.retry_fence_at_ms:
                self._ask_for_fence(slot)
            if slot.state is SlotState.SILENT and now >= self._adoption_ends_ms:
                self._fence(slot, "it has not reported since the coordinator started")
        for member in self.members:
            if now >= member.heard_ms + config.session_timeout_ms:
                reason = f"not heard for {_seconds(config.session_timeout_ms)}"
                self._fence(self.roster.of(member.worker), reason)
            elif member.behind_since_ms is not None and now >= member.behind_since_ms + config.rebalance_timeout_ms:
                reason = f"did not carry out what it was told within {_seconds(config.rebalance_timeout_ms)}"
                self._fence(self.roster.of(member.worker), reason)
        topology = self.preparation.due(now)
        if topology is not None:
            self._outbox.do(effects.PrepareTopics(topology))
        self.stepping.probe(now)

    # What has become possible.

    def _advance(self) -> None:
        if self._is_deposed:
            return
        self._end_adoption()
        self._record()
        if not self._cluster.is_foreign(self.recorded):
            self._reconcile()
            self._begin_step()
        self._answer_polls()

    def _end_adoption(self) -> None:
        """The window is over when every slot ever used has reported under this leader, or has been fenced."""
        if not self.adopting or self.roster.unheard:
            return
        if all(self._has_heard_us(member) for member in self.members):
            self.adopting = False
            self.stepping.want_at_once()
            self._outbox.tell("every worker that may hold tasks has reported or is fenced")

    def _has_heard_us(self, member: Member) -> bool:
        """Only a member that has carried out an answer of ours can't be carrying out an older leader's any more."""
        return member.request.member_epoch == JOIN or member.reached.leader == self.config.leader

    def _record(self) -> None:
        """Keep what is on record in line with what is used: for less the next start need not wait."""
        cluster_id = self.recorded.cluster_id or self._cluster.cluster_id
        used = (0, 0) if self.roster.is_clean else (self.roster.size, self._subtopologies())
        needed = Recorded(*used, cluster_id)
        if self._recording is None and self.recorded != needed:
            self._recording = needed
            self._outbox.do(effects.RecordFootprint(needed))

    def _reconcile(self) -> None:
        if self.adopting or not self.members:
            return
        epoch = Epoch(self.config.leader, self.epoch.group + 1)
        step, limit = self.stepping.step, self.config.assignment.max_warmup_replicas
        changes = reconcile(self.members, self.roster.fenced, step.wanted, epoch, limit)
        if changes.members:
            self.epoch = epoch
        for member in changes.members:
            member.expect(epoch, self._now_ms)
        for task, member in changes.granted:
            reason = step.reasons.get(task, MoveReason.BALANCE.value)
            self.moves.granted(task, member.worker, reason, self._lag(member, task), epoch)

    def _lag(self, member: Member, task: TaskId) -> int:
        if not self.preparation.is_stateful(task):
            return 0
        return member.lag(task, self.stepping.end_offset_sums.get(task)) or 0

    def _begin_step(self) -> None:
        plan = self.preparation.plan
        if self.adopting or plan is None or not self.members:
            return
        changelogs = self.stepping.begin(plan, is_settled=self.is_settled)
        heeds_racks = self.config.assignment.rack_aware_strategy is not RackAwareStrategy.NONE
        topics = plan.topics() if heeds_racks else ()
        if changelogs or (changelogs is not None and topics):
            self._outbox.do(effects.FetchEndOffsets(changelogs, topics))
        elif changelogs is not None:
            self.stepping.end()
            self._take_step({})
            self._reconcile()

    def _take_step(self, end_offset_sums: Mapping[TaskId, int] | None, racks: Racks = _NO_RACKS) -> None:
        plan, known = self.preparation.plan, self.stepping.degraded
        if not self.adopting and plan is not None and self.members:
            self.stepping.take(self.members, self.draining, plan, end_offset_sums, racks, self._now_ms)
            for wish in self.stepping.degraded:
                if wish not in known:
                    self._outbox.tell(f"{wish.wish.value} is left out: {wish.why}")

    # Answers.

    def _answer_polls(self) -> None:
        for member in self.members:
            statuses = self._statuses_of(member)
            poll = member.poll
            if poll is None or not self._may_be_answered(member):
                continue
            if member.is_due(statuses, self._now_ms, self.config.heartbeat_interval_ms):
                member.poll = None
                member.sends += 1
                member.statuses_sent = statuses
                self._outbox.answer_list(member, poll, statuses)

    def _may_be_answered(self, member: Member) -> bool:
        """Not before a restarted coordinator would know of its slot, whether it finds the last record or the next."""
        needed = Recorded(member.slot + 1, self._subtopologies())
        return self.recorded.covers(needed) and (self._recording is None or self._recording.covers(needed))

    def _statuses_of(self, member: Member) -> tuple[Status, ...]:
        if member.worker not in self.draining:
            return self.statuses
        return (*self.statuses, Status(StatusCode.DRAINING, f"{member.worker} is being emptied"))

    def _delay(self) -> Status | None:
        if not self.adopting:
            return None
        waiting = ", ".join(slot.worker for slot in self.roster.unheard) or "the members' first reports"
        return Status(
            StatusCode.ASSIGNMENT_DELAYED,
            f"the coordinator has started again and gives no task away before it has heard of {waiting}",
        )

    def _supersede_poll(self, member: Member) -> None:
        if member.poll is not None:
            self._answer(member.poll, Code.STALE_SEQUENCE, SUPERSEDED)
            member.poll = None

    def _park(self, slot: Slot, poll: Poll, member_id: str) -> None:
        """Hold a request until the slot's fence has returned; it is then told to begin anew."""
        parked = slot.parked.get(member_id)
        if parked is not None and poll.sequence <= parked.sequence:
            self._answer(poll, Code.STALE_SEQUENCE, SUPERSEDED)
            return
        if parked is not None:
            self._answer(parked, Code.STALE_SEQUENCE, SUPERSEDED)
        slot.parked[member_id] = poll

    def _answer(self, poll: Poll, code: Code, message: str = "") -> None:
        self._outbox.answer(poll, self.epoch, code, message)

    # Small parts.

    def _next_epoch(self) -> Epoch:
        self.epoch = Epoch(self.config.leader, self.epoch.group + 1)
        return self.epoch

    def _subtopologies(self) -> int:
        return max(self.preparation.subtopologies, self.recorded.subtopologies)

    def _deadlines(self) -> Iterator[int]:
        config = self.config
        for member in self.members:
            yield member.heard_ms + config.session_timeout_ms
            if member.poll is not None and self._may_be_answered(member):
                yield member.poll.since_ms + config.heartbeat_interval_ms
            if member.behind_since_ms is not None:
                yield member.behind_since_ms + config.rebalance_timeout_ms
        if any(slot.state is SlotState.SILENT for slot in self.roster):
            yield self._adoption_ends_ms
        retries = (slot.retry_fence_at_ms for slot in self.roster)
        for moment in (*retries, self.preparation.retry_at_ms, self.stepping.probe_at_ms):
            if moment is not None:
                yield moment


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g} s"
