"""The fault test has teeth: take one safety rule away, and the same scenario no longer comes out exactly once.

Each scenario is the one in which the rule is needed, played with the worker's own parts on a real broker; each runs
with the rule and without it.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from chaos_outcome import Reader
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from sluice_coordinator.fencing import Fencer
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.offsets import CommitWitness
from sluice_pipeline import clients
from sluice_pipeline.dsl import Topology, count
from sluice_pipeline.engine.evaluation import Evaluation
from sluice_pipeline.observer import Observer, Step, Unwatched
from sluice_pipeline.offsets import Offsets, Partition
from sluice_pipeline.restore.messages import Event, Finish, Finished, Follow, Progress
from sluice_pipeline.restore.process import Restorer, _Task, _Throttle
from sluice_pipeline.source.consumer_source import ConsumerSource
from sluice_pipeline.state.directory import StoreIdentity, TaskDirectory, TaskIdentity
from sluice_pipeline.transaction import ProducerDeadError, Transactions
from sluice_pipeline.worker.events import LoopCrashed, LoopEvent, Prepared
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_pipeline.worker.takeover import prepare
from sluice_pipeline.worker.task_loop import LoopSettings, RunningTask, TaskLoop
from sluice_protocol.ids import Epoch, TaskId, transactional_id

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

TASK = TaskId(0, 0)
SECONDS = 60.0


class EchoWorker:
    """The path of a batch through a worker, without Spark: from the committed offset to a transaction."""

    def __init__(self, kafka: KafkaCluster, application: str, out: str, name: str, epoch: Epoch) -> None:
        self._kafka, self._application, self._out, self._name, self._epoch = kafka, application, out, name, epoch
        self.offsets = Offsets(kafka.bootstrap_servers, {}, application)
        self._transactions = self._start()

    def _start(self) -> Transactions:
        name = transactional_id(self._application, self._name, TASK.subtopology)
        started = Transactions(self._kafka.bootstrap_servers, {}, self._application, name, self.offsets, Unwatched())
        started.initialise()
        return started

    def position(self, source: str) -> int:
        return self.offsets.committed([(source, 0)])[source, 0] or 0

    def process(self, source: str, start: int, end: int) -> None:
        """Echo the records from start to end. Raises ProducerDeadError."""
        ids = [str(number).encode() for number in range(start, end)]
        self._transactions.begin()
        self._transactions.produce(self._out, ids, ids, [0] * len(ids))
        self._transactions.commit({(source, 0): (end, f"{self._name}@{self._epoch}")})

    def close(self) -> None:
        self._transactions.close()


class ReinitialisingWorker(EchoWorker):
    """Without the rule "a fenced producer is dead for ever": it initialises again and goes on."""

    def process(self, source: str, start: int, end: int) -> None:
        try:
            super().process(source, start, end)
        except ProducerDeadError:
            self._transactions = self._start()
            super().process(source, start, end)


def fence(kafka: KafkaCluster, transactional_ids: list[str]) -> None:
    Fencer(kafka.bootstrap_servers, {}).fence(transactional_ids)


def fence_nobody(kafka: KafkaCluster, transactional_ids: list[str]) -> None:
    """Without the rule "fence a silent worker before its tasks go elsewhere"."""


@pytest.mark.parametrize(
    ("worker", "fence_silent", "is_exact"),
    [
        pytest.param(EchoWorker, fence, True, id="with both rules"),
        pytest.param(EchoWorker, fence_nobody, False, id="the fence dropped"),
        pytest.param(ReinitialisingWorker, fence, False, id="a fenced producer initialised again"),
    ],
)
def test_a_worker_frozen_in_a_batch_wakes_after_its_task_went_elsewhere(
    kafka: KafkaCluster, topics: Any, worker: type[EchoWorker], fence_silent: Callable[..., None], is_exact: bool
) -> None:
    application, source, out = topics.name("app"), topics.create("in"), topics.create("out")
    frozen = worker(kafka, application, out, "worker-0", Epoch(1, 1))
    frozen.process(source, 0, 10)
    in_hand = (10, 15)

    fence_silent(kafka, [transactional_id(application, "worker-0", 0)])
    successor = EchoWorker(kafka, application, out, "worker-1", Epoch(1, 2))
    successor.process(source, successor.position(source), 20)
    try:
        frozen.process(source, *in_hand)
        was_refused = False
    except ProducerDeadError:
        was_refused = True

    times = Counter(record.value for record in Reader(kafka.bootstrap_servers).read(out))
    with CommitWitness(kafka.bootstrap_servers, application) as witness:
        violations = witness.check()
    assert was_refused == is_exact
    assert (set(times.values()) == {1}) == is_exact
    assert (violations == []) == is_exact
    assert (frozen.position(source) == 20) == is_exact


class HastyRestorer(Restorer):
    """Without the rule "the end of the partition counts only once the log is stable up to there"."""

    def _check_ends(self, task: _Task) -> None:
        for changelog in task.changelogs:
            if not changelog.stable_past_target and changelog.target is not None:
                changelog.stable_past_target = True
                self._read_again(changelog)
        self._close_if_finished(task.changelogs[0].task)


@pytest.mark.parametrize(
    ("restorer", "is_whole"),
    [pytest.param(Restorer, True, id="with the rule"), pytest.param(HastyRestorer, False, id="trusting the end alone")],
)
def test_a_copy_is_finished_while_the_predecessors_markers_are_still_to_come(
    kafka: KafkaCluster, topics: Any, tmp_path: Path, restorer: type[Restorer], is_whole: bool
) -> None:
    changelog = topics.create("s-changelog", cleanup_policy="compact")
    predecessor = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topics.name("id")})
    predecessor.init_transactions(30)
    _send(predecessor, changelog, b"early")
    predecessor.commit_transaction()
    _send(predecessor, changelog, b"late")
    offsets = Offsets(kafka.bootstrap_servers, {}, "nobody")
    ends = {"s": offsets.log_ends([(changelog, 0)])[changelog, 0]}
    identity = TaskIdentity("app", TASK, (StoreIdentity("s", changelog, offsets.facts([changelog])[changelog].id, 1),))
    ours, theirs = Pipe()
    consumer = Consumer(clients.consumer(kafka.bootstrap_servers, {}, **{"enable.partition.eof": True}))
    thread = threading.Thread(target=restorer(theirs, consumer, _Throttle(None)).run)
    thread.start()

    ours.send(Follow(str(tmp_path / "0_0"), identity, 3_600.0, {"s": 0}, ends))
    _receive(ours, lambda event: isinstance(event, Progress) and event.restored_records == 1, SECONDS)
    ours.send(Finish(TASK, ends))
    came_early = _receive(ours, lambda event: isinstance(event, Finished), seconds=1.5)
    predecessor.commit_transaction()
    finished = came_early or _receive(ours, lambda event: isinstance(event, Finished), SECONDS)
    ours.close()
    thread.join()

    copy = TaskDirectory(tmp_path / "0_0", identity, 3_600.0)
    content = dict(copy.stores["s"].items())
    copy.close()
    assert finished
    assert (content.keys() == {b"early", b"late"}) == is_whole


def _send(producer: Producer, topic: str, key: bytes) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"1", key, partition=0)
    producer.flush()


def _receive(connection: Any, matches: Callable[[Event], bool], seconds: float) -> bool:
    """Whether such an event comes in time."""
    deadline = time.monotonic() + seconds
    while connection.poll(max(0.0, deadline - time.monotonic())):
        if matches(connection.recv()):
            return True
    return False


class Crashed(Exception):  # noqa: N818 - it stands for a lost machine
    """The process is gone."""


class CrashBetween:
    """Crashes after the first of the two effects of a batch, whichever it is."""

    def reached(self, step: Step) -> None:
        if step in (Step.COMMITTED, Step.STORED):
            raise Crashed


class StoreFirstLoop(TaskLoop):
    """Without the rule "RocksDB is written after the commit"."""

    def _commit(self, outcome: Any, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        unchanged = {
            (update.changelog, update.partition): self._tasks[update.partition].directory.stores[update.store].boundary
            for update in outcome.updates
        }
        super()._store(outcome.updates, unchanged)
        return super()._commit(outcome, ends)

    def _store(self, updates: Any, delivered: Mapping[Partition, int]) -> None:
        """It has been done already."""


class Counting:
    """One task that counts by key, started and crashed as often as needed on the same directory."""

    def __init__(self, kafka: KafkaCluster, topics: Any, spark: Any, directory: Path) -> None:
        self._kafka, self._directory, self._spark = kafka, directory, spark
        self.application, self.source, self.out = topics.name("app"), topics.create("in"), topics.create("out")
        topology = Topology("counting", on_error="stop")
        stream = topology.stream(self.source, key="user string", value="id bigint")
        stream.group_by("user").aggregate("by-user", records=count()).to(self.out)
        self._plan = topology.build(spark, application_id=self.application).subtopologies[0]
        changelog = NewTopic(f"{self.application}-by-user-changelog", 1, 1, config={"cleanup.policy": "compact"})
        topics.admin.create_topics([changelog])[changelog.topic].result(30)
        self._offsets = Offsets(kafka.bootstrap_servers, {}, self.application)
        self._events: queue.SimpleQueue[LoopEvent] = queue.SimpleQueue()
        self._incarnations = 0

    def start(self, kind: type[TaskLoop], observer: Observer) -> TaskLoop:
        """Take the task over as a worker does: fence, ask where to go on, restore, run."""
        self._incarnations += 1
        name = transactional_id(self.application, "worker-0", 0)
        transactions = Transactions(
            self._kafka.bootstrap_servers, {}, self.application, name, self._offsets, Unwatched()
        )
        transactions.initialise()
        transactions._observer = observer
        prepared = prepare(self._offsets, self._plan, self.application, TASK, attempt=1, identity=None)
        assert isinstance(prepared, Prepared)
        assert prepared.identity is not None
        self._restore(prepared)
        loop = kind(
            LoopSettings("worker-0", 0, dead_letter_topic=None, purge_source=False),
            ConsumerSource(self._kafka.bootstrap_servers, {}, self._plan.source),
            Evaluation(self._spark, self._plan),
            transactions,
            self._offsets,
            self._events.put,
            observer,
            WorkerMetrics(),
        )
        loop.start()
        directory = TaskDirectory(self._directory, prepared.identity, 3_600.0)
        task = RunningTask(TASK, Epoch(1, self._incarnations), directory, dict(prepared.positions))
        loop.add(task, commit_first=False)
        return loop

    def _restore(self, prepared: Prepared) -> None:
        ours, theirs = Pipe()
        consumer = Consumer(clients.consumer(self._kafka.bootstrap_servers, {}, **{"enable.partition.eof": True}))
        thread = threading.Thread(target=Restorer(theirs, consumer, _Throttle(None)).run)
        thread.start()
        directory, ends = str(self._directory), dict(prepared.log_ends)
        ours.send(Follow(directory, prepared.identity, 3_600.0, dict(prepared.log_starts), ends))
        ours.send(Finish(TASK, ends))
        assert _receive(ours, lambda event: isinstance(event, Finished), SECONDS)
        ours.close()
        thread.join()

    def send(self, *users: bytes) -> None:
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap_servers})
        for number, user in enumerate(users):
            producer.produce(self.source, json.dumps({"id": number}), user, partition=0)
        producer.flush()

    def wait_until_crashed(self) -> None:
        event = self._events.get(timeout=SECONDS)
        assert isinstance(event, LoopCrashed)

    def wait_until_read(self) -> None:
        deadline = time.monotonic() + SECONDS
        end = self._offsets.log_ends([(self.source, 0)])
        while self._offsets.committed([(self.source, 0)]) != end:
            assert time.monotonic() < deadline, "the source was not read to its end"

    def counts(self) -> dict[bytes, int]:
        records = Reader(self._kafka.bootstrap_servers).read(self.out)
        return {record.key: json.loads(record.value or b"")["records"] for record in records}


@pytest.fixture
def counting(kafka: KafkaCluster, topics: Any, spark: Any, tmp_path: Path) -> Iterator[Counting]:
    return Counting(kafka, topics, spark, tmp_path / "0_0")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("loop", "is_exact"),
    [pytest.param(TaskLoop, True, id="with the rule"), pytest.param(StoreFirstLoop, False, id="the store first")],
)
def test_a_crash_between_the_commit_and_the_store(counting: Counting, loop: type[TaskLoop], is_exact: bool) -> None:
    counting.send(b"ann", b"bob", b"ann")
    counting.start(loop, CrashBetween())
    counting.wait_until_crashed()

    successor = counting.start(TaskLoop, Unwatched())
    counting.send(b"ann")
    counting.wait_until_read()
    successor.stop()
    successor.join(SECONDS)

    assert (counting.counts() == {b"ann": 3, b"bob": 1}) == is_exact


def test_a_producer_that_was_fenced_closes_quietly(kafka: KafkaCluster, topics: Any) -> None:
    """Were it to raise, its loop would end without a word, and the worker go on without it."""
    application, source, out = topics.name("app"), topics.create("in"), topics.create("out", 4)
    fenced = EchoWorker(kafka, application, out, "worker-0", Epoch(1, 1))
    fenced.process(source, 0, 10)
    fence(kafka, [transactional_id(application, "worker-0", 0)])
    with pytest.raises(ProducerDeadError):
        fenced.process(source, 10, 5_000)

    fenced.close()
