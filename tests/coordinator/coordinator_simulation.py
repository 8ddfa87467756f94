"""A small world around the group's core: workers that obey the protocol, a network, a broker that knows who is fenced.

Nothing here is prompt or reliable unless it is asked to be: every message, every fence and every piece of a worker's
work waits until somebody (a test, or the seeded explorer) lets it happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sluice_assignor import AssignmentConfig
from sluice_coordinator.group import Group, GroupConfig, Recorded, effects, events
from sluice_coordinator.group.config import Racks
from sluice_coordinator.group.views import group_view
from sluice_protocol.heartbeat import (
    RUNNING,
    Code,
    FailedTask,
    Grant,
    HeartbeatAnswer,
    HeartbeatRequest,
    Role,
    Status,
    StatusCode,
    TaskCopy,
)
from sluice_protocol.ids import JOIN, LEAVE, Epoch, TaskId, worker_name, worker_slot
from sluice_protocol.topology import Subtopology, TopologyDescription
from sluice_protocol.view import GroupView

END = 20_000
APPLICATION = "orders"

COUNTS = TopologyDescription(
    APPLICATION,
    (
        Subtopology(0, source_topics=("orders",), repartition_sink_topics=("orders-by-user-repartition",)),
        Subtopology(
            1,
            repartition_source_topics=("orders-by-user-repartition",),
            changelog_topics=("orders-counts-changelog",),
            sink_topics=("counts",),
        ),
    ),
)
"""A stateless subtopology 0, a stateful subtopology 1."""

STATEFUL = TopologyDescription(
    APPLICATION, (Subtopology(0, source_topics=("orders",), changelog_topics=("orders-counts-changelog",)),)
)


class Broker:
    """Producer generations: whoever called init_transactions last for a worker's ids lives, all before are fenced."""

    def __init__(self) -> None:
        self.generations: Counter[str] = Counter()

    def init_transactions(self, worker: str) -> int:
        self.generations[worker] += 1
        return self.generations[worker]


class Process:
    """A worker process. Its disk is the slot's, so that a restarted one finds its copies again."""

    def __init__(self, world: World, slot: int, number: int) -> None:
        self.world = world
        self.worker = worker_name(slot)
        self.process_id = str(UUID(int=(slot + 1) << 64))
        self.incarnation = str(number)
        self.number = number
        self.is_alive = True
        self.is_frozen = False
        self.disk = world.disks.setdefault(slot, {})
        self.topology = world.topology
        self.failed: set[TaskId] = set()
        self.resumed: list[TaskId] = []
        self.obeyed: list[Epoch] = []
        self.heard_leader = 0
        self.sequence = 0
        self.incarnations = 0
        self.begin_anew()

    def __repr__(self) -> str:
        return f"{self.worker}#{self.number}"

    def begin_anew(self) -> None:
        """New member id, init_transactions for all ids; the join is posted by whoever lets it."""
        self.incarnations += 1
        self.member_id = f"{self.worker}-{self.number}-{self.incarnations}"
        self.generation = self.world.broker.init_transactions(self.worker)
        self.holdings: dict[tuple[TaskId, Role], Grant] = {}
        self.epoch = JOIN
        self.executing: HeartbeatAnswer | None = None
        self.todo: list[tuple[str, Grant]] = []
        self.queued: HeartbeatAnswer | None = None
        self.waiting: int | None = None
        self.posted_ms = self.world.now_ms
        self.sends_topology = False

    @property
    def is_fenced(self) -> bool:
        return self.generation != self.world.broker.generations[self.worker]

    @property
    def is_due_to_ask(self) -> bool:
        """Does nothing wait for an answer, or for one that must have been lost?"""
        idle = self.waiting is None and self.executing is None
        return idle or self.world.now_ms > self.posted_ms + 6_000

    @property
    def actives(self) -> dict[TaskId, Grant]:
        return {task: grant for (task, role), grant in self.holdings.items() if role is Role.ACTIVE}

    def held(self, role: Role) -> set[str]:
        return {str(task) for task, held_role in self.holdings if held_role is role}

    def request(self, epoch: Epoch | None = None) -> HeartbeatRequest:
        epoch = self.epoch if epoch is None else epoch
        return HeartbeatRequest(
            member_id=self.member_id,
            worker=self.worker,
            process_id=self.process_id,
            incarnation=self.incarnation,
            member_epoch=epoch,
            sequence=self.sequence,
            topology_hash=self.topology.hash(),
            capacity=2,
            rack=self.world.racks.get(worker_slot(self.worker)),
            topology=self.topology if epoch == JOIN or self.sends_topology else None,
            grants=tuple(self.holdings.values()),
            copies=tuple(self._copies()),
            failed=tuple(FailedTask(task, "raised", "division by zero") for task in sorted(self.failed)),
        )

    def _copies(self) -> list[TaskCopy]:
        actives = self.actives
        return [
            TaskCopy(task, RUNNING if task in actives and offset >= END else offset, END)
            for task, offset in sorted(self.disk.items())
        ]

    def post(self) -> None:
        """Abandon the present poll, if any, and ask again."""
        self.sequence += 1
        self.waiting = self.sequence
        self.posted_ms = self.world.now_ms
        self.world.send(self, self.request())
        self.sends_topology = False

    def leave(self) -> None:
        self.holdings.clear()
        self.sequence += 1
        self.world.send(self, self.request(LEAVE))
        self.is_alive = False

    def receive(self, answer: HeartbeatAnswer) -> None:
        """Take an answer, if it is to the request that waits and not from a leader of the past."""
        if answer.sequence != self.waiting:
            return
        self.waiting = None
        if answer.epoch.leader < self.heard_leader:
            return
        self.heard_leader = answer.epoch.leader
        if answer.code is Code.FENCED:
            self.begin_anew()
            self.post()
        elif answer.code is Code.UNKNOWN_MEMBER:
            self.sends_topology = True
            self.post()
        elif answer.code is Code.OK:
            self._accept(answer)

    def _accept(self, answer: HeartbeatAnswer) -> None:
        self.resumed += answer.resumed
        self.failed -= set(answer.resumed)
        if self.executing is not None:
            self.queued = answer
        else:
            self._execute(answer)

    def _execute(self, answer: HeartbeatAnswer) -> None:
        wanted = {(grant.task, grant.role): grant for grant in answer.grants}
        releases = [grant for key, grant in self.holdings.items() if wanted.get(key) != grant]
        opens = [grant for key, grant in wanted.items() if self.holdings.get(key) != grant]
        self.executing = answer
        self.todo = [("release", grant) for grant in releases] + [("open", grant) for grant in opens]

    def work(self) -> None:
        """One piece of carrying an answer out."""
        if self.executing is None:
            return
        if self.todo:
            what, grant = self.todo.pop(0)
            (self._release if what == "release" else self._open)(grant)
            return
        self.epoch = self.executing.epoch
        self.obeyed.append(self.epoch)
        self.executing, queued, self.queued = None, self.queued, None
        if queued is not None:
            self._execute(queued)
        self.post()

    def _release(self, grant: Grant) -> None:
        del self.holdings[grant.task, grant.role]
        if grant.role is Role.ACTIVE and self.world.is_stateful(grant.task):
            self.disk[grant.task] = END

    def _open(self, grant: Grant) -> None:
        self.holdings[grant.task, grant.role] = grant
        if self.world.is_stateful(grant.task):
            self.disk.setdefault(grant.task, 0)
        if grant.role is Role.ACTIVE:
            self.world.opened(self, grant)

    def restore(self, records: int) -> None:
        """Read on in the changelogs."""
        for task, _ in self.holdings:
            if self.world.is_stateful(task):
                self.disk[task] = min(END, self.disk[task] + records)


@dataclass
class PendingFence:
    """A Fence on its way: it may have an effect on the broker long before, or without, its return."""

    coordinator: Coordinator
    worker: str


class Coordinator:
    """One coordinator process: a group, the polls that it holds, and what it has asked for."""

    def __init__(self, world: World, leader: int) -> None:
        self.world = world
        self.leader = leader
        self.is_alive = True
        self.facts: list[str] = []
        self.polls: dict[int, tuple[Process, str]] = {}
        self.requests: list[effects.Effect] = []
        self.group = Group(world.config(leader), world.storage, world.now_ms)
        self.reach_kafka(world.cluster_id)

    def handle(self, event: events.Event) -> None:
        if not self.is_alive:
            return
        before = self.group.epoch
        for effect in self.group.handle(event, self.world.now_ms):
            self._carry_out(effect)
        assert self.group.epoch >= before, "epochs only grow"

    def reach_kafka(self, cluster_id: str) -> None:
        self.cluster_id: str | None = cluster_id
        self.handle(events.KafkaReached(cluster_id))

    def lose_kafka(self) -> None:
        self.cluster_id = None
        self.handle(events.KafkaLost("it does not answer"))

    def receive(self, process: Process, request: HeartbeatRequest) -> None:
        poll = self.world.next_number()
        self.polls[poll] = (process, request.member_id)
        self.handle(events.HeartbeatReceived(poll, request))

    def _carry_out(self, effect: effects.Effect) -> None:
        is_own = self.cluster_id == self.world.storage.cluster_id is not None
        assert is_own or not isinstance(effect, effects.OnKafka), f"{effect} on {self.cluster_id}"
        match effect:
            case effects.Answer():
                process, member_id = self.polls.pop(effect.poll)
                self.world.answers.append(Delivery(process, member_id, effect.answer))
            case effects.Fence():
                assert effect.transactional_ids, "a fence without ids fences nobody"
                self.world.fences.append(PendingFence(self, effect.worker))
            case effects.Fact():
                self.facts.append(effect.text)
            case effects.RaiseLeader():
                self.world.restart_coordinator(above=effect.above)
            case _:
                self.requests.append(effect)

    def serve(self, *, kafka: bool = True) -> None:
        """Let the oldest thing that was asked for happen."""
        effect = self.requests.pop(0)
        match effect:
            case effects.PrepareTopics():
                self.handle(self.world.prepare(effect.topology, reachable=kafka))
            case effects.FetchEndOffsets():
                ends = dict.fromkeys(effect.changelogs, END)
                racks = {
                    place: found for place, found in self.world.partition_racks.items() if place[0] in effect.topics
                }
                fetched = events.EndOffsetsFetched(ends, racks)
                self.handle(fetched if kafka else events.EndOffsetsFailed("timed out"))
            case effects.RecordFootprint():
                if self is self.world.coordinator:
                    self.world.storage = effect.footprint
                    self.handle(events.FootprintRecorded(effect.footprint))


@dataclass
class Delivery:
    """An answer on its way to the incarnation that asked."""

    process: Process
    member_id: str
    answer: HeartbeatAnswer


@dataclass
class World:
    """Everything at one moment. `storage` is what coordinators keep on disk."""

    topology: TopologyDescription = STATEFUL
    partitions: tuple[int, ...] = (4,)
    assignment: AssignmentConfig = field(default_factory=lambda: AssignmentConfig(acceptable_recovery_lag=100))
    storage: Recorded = field(default_factory=Recorded)
    now_ms: int = 1_000_000
    cluster_id: str = "kafka-a"
    """Which Kafka answers."""
    missing_topic: str | None = None
    racks: Mapping[int, str] = field(default_factory=dict)
    """Of workers, by slot."""
    partition_racks: Racks = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker = Broker()
        self.disks: dict[int, dict[TaskId, int]] = {}
        self.processes: list[Process] = []
        self.requests: list[tuple[Coordinator, Process, HeartbeatRequest]] = []
        self.answers: list[Delivery] = []
        self.fences: list[PendingFence] = []
        self.openings: dict[TaskId, tuple[Epoch, Process]] = {}
        self.numbers = 0
        self.leader = 0
        self.zombies: list[Coordinator] = []
        self.restart_coordinator()

    # Its parts.

    @property
    def tasks(self) -> list[TaskId]:
        return [TaskId(sub, part) for sub, count in enumerate(self.partitions) for part in range(count)]

    @property
    def live(self) -> list[Process]:
        return [process for process in self.processes if process.is_alive]

    @property
    def view(self) -> GroupView:
        return group_view(self.coordinator.group)

    def is_stateful(self, task: TaskId) -> bool:
        return self.topology.subtopologies[task.subtopology].is_stateful

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    def config(self, leader: int) -> GroupConfig:
        return GroupConfig(APPLICATION, leader, self.assignment)

    def prepare(self, topology: TopologyDescription, *, reachable: bool) -> events.Event:
        if not reachable:
            status = Status(StatusCode.KAFKA_UNREACHABLE, "Kafka did not answer")
            return events.TopicsRefused(topology.hash(), status)
        if self.missing_topic is not None:
            status = Status(StatusCode.MISSING_SOURCE_TOPICS, f"source topic {self.missing_topic!r} does not exist")
            return events.TopicsRefused(topology.hash(), status)
        return events.TopicsPrepared(topology.hash(), self.partitions)

    # What happens.

    def restart_coordinator(self, *, above: int = 0, leaves_zombie: bool = False) -> None:
        """A new leader; the old one is dead, or goes on without knowing it."""
        if self.leader:
            if leaves_zombie:
                self.zombies.append(self.coordinator)
            else:
                self._forget(self.coordinator)
        self.leader = max(self.leader, above) + 1
        self.coordinator = Coordinator(self, self.leader)

    def _forget(self, coordinator: Coordinator) -> None:
        coordinator.is_alive = False
        self.requests = [message for message in self.requests if message[0] is not coordinator]
        for process, _ in coordinator.polls.values():
            process.waiting = None

    def start(self, slot: int) -> Process:
        process = Process(self, slot, self.next_number())
        self.processes.append(process)
        process.post()
        return process

    def kill(self, process: Process) -> None:
        process.is_alive = False
        self.answers = [delivery for delivery in self.answers if delivery.process is not process]

    def send(self, process: Process, request: HeartbeatRequest) -> None:
        self.requests.append((self.coordinator, process, request))

    def deliver_request(self, index: int = 0, *, keep: bool = False) -> None:
        coordinator, process, request = self.requests[index] if keep else self.requests.pop(index)
        if coordinator.is_alive:
            coordinator.receive(process, request)

    def deliver_answer(self, index: int = 0) -> None:
        delivery = self.answers.pop(index)
        process = delivery.process
        if process.is_alive and process.member_id == delivery.member_id:
            process.receive(delivery.answer)

    def fence_now(self, fence: PendingFence) -> None:
        """The broker carries out the fence's init_transactions."""
        self.broker.init_transactions(fence.worker)

    def fence_returns(self, fence: PendingFence) -> None:
        self.fence_now(fence)
        self.fences.remove(fence)
        fence.coordinator.handle(events.FenceFinished(fence.worker))

    def opened(self, process: Process, grant: Grant) -> None:
        """A worker begins to run a task: nobody else may, and its grant is the newest that ever was.

        One that is fenced and doesn't know it may do what it likes.
        """
        if process.is_fenced:
            return
        last = self.openings.get(grant.task)
        assert last is None or grant.epoch > last[0] or last == (grant.epoch, process), (
            f"{process} opens {grant}, after {last}"
        )
        self.openings[grant.task] = (grant.epoch, process)
        self.check()

    def check(self) -> None:
        """What must hold at every moment."""
        holders: Counter[TaskId] = Counter()
        warmups = 0
        for process in self.live:
            if not process.is_fenced:
                holders.update(process.actives.keys())
                warmups += len(process.held(Role.WARMUP))
            assert process.obeyed == sorted(process.obeyed), f"{process} obeyed {process.obeyed}"
        twice = {str(task): count for task, count in holders.items() if count > 1}
        assert not twice, f"held twice: {twice} by {self.holders()}"
        assert warmups <= self.assignment.max_warmup_replicas, f"{warmups} warm-ups"

    def holders(self) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        for process in self.live:
            for task in process.actives:
                held.setdefault(str(task), []).append(f"{process}{' (fenced)' if process.is_fenced else ''}")
        return dict(sorted(held.items()))

    # Prompt behaviour.

    def settle(self, *, fences: bool = True, kafka: bool = True) -> None:
        """Let everything happen at once that needs no time to pass: messages, work, Kafka, fences."""
        for _ in range(10_000):
            if not self._one_prompt_step(fences=fences, kafka=kafka):
                return
        raise AssertionError(f"the world does not come to rest; {self.coordinator.facts[-5:]}")

    def _one_prompt_step(self, *, fences: bool, kafka: bool) -> bool:
        for index, delivery in enumerate(self.answers):
            if not delivery.process.is_frozen:
                self.deliver_answer(index)
                return True
        for index, (_, process, _) in enumerate(self.requests):
            if not process.is_frozen:
                self.deliver_request(index)
                return True
        for process in self.live:
            if process.executing is not None and not process.is_frozen:
                process.work()
                return True
        if self.coordinator.requests:
            self.coordinator.serve(kafka=kafka)
            return True
        if self.fences and fences:
            self.fence_returns(self.fences[0])
            return True
        return False

    def pass_time(self, milliseconds: int, *, step: int = 100, restored: int = 0, fences: bool = True) -> None:
        """Let time pass in a world that is prompt."""
        for _ in range(0, milliseconds, step):
            self.advance(step)
            for process in self.live:
                if process.is_frozen:
                    continue
                if restored:
                    process.restore(restored)
                if process.is_due_to_ask:
                    process.post()
            self.settle(fences=fences)
            self.check()

    def advance(self, milliseconds: int) -> None:
        """Only the clock moves, and what waits for it."""
        self.now_ms += milliseconds
        for coordinator in (self.coordinator, *self.zombies):
            deadline = coordinator.group.deadline_ms()
            if deadline is not None and self.now_ms >= deadline:
                coordinator.handle(events.Tick())

    def start_all(self, slots: Sequence[int]) -> list[Process]:
        """Workers that have joined and hold their part."""
        processes = [self.start(slot) for slot in slots]
        self.settle()
        self.pass_time(4_000, restored=END)
        return processes
