"""A subtopology's loop on a real broker and a real Spark: what is committed is what the records say, once."""

from __future__ import annotations

import json
import queue
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from pyspark.sql import functions as F

from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.dsl import Topology, count, sum_
from sluice_pipeline.engine.evaluation import Evaluation
from sluice_pipeline.observer import Unwatched
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.source.consumer_source import ConsumerSource
from sluice_pipeline.state.directory import StoreIdentity, TaskDirectory, TaskIdentity, locked
from sluice_pipeline.transaction import ProducerDeadError, Transactions
from sluice_pipeline.worker.events import LoopEvent, ProducerDied, TaskReleased, TaskStopped
from sluice_pipeline.worker.incarnation import Incarnation
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_pipeline.worker.task_loop import LoopSettings, RunningTask, TaskLoop
from sluice_protocol.ids import Epoch, TaskId, dead_letter_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
Event = LoopEvent


@dataclass
class Running:
    """One loop with its topics; started by `start`."""

    kafka: KafkaCluster
    application: str
    directory: Path
    loop: TaskLoop
    offsets: Offsets
    plan: Any
    events: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)

    def send(self, topic: str, *records: tuple[bytes | None, bytes | None], timestamp: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers})
        for key, value in records:
            producer.produce(topic, value, key, partition=0, timestamp=timestamp)
        producer.flush()

    def wait_until_read(self, topic: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            end = self.offsets.log_ends([(topic, 0)])[topic, 0]
            if self.offsets.committed([(topic, 0)])[topic, 0] == end:
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} was not read to its end")

    def wait_for(self, kind: type[Event], seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            event = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            if isinstance(event, kind):
                return event

    def read(self, topic: str) -> list[Any]:
        """All committed records of partition 0."""
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "t", "enable.partition.eof": True}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = []
        while (message := consumer.poll(5)) is not None and message.error() is None:
            found.append(message)
        consumer.close()
        return found

    def values(self, topic: str) -> dict[bytes, Any]:
        return {message.key(): json.loads(message.value()) for message in self.read(topic)}


@pytest.fixture
def start(kafka: KafkaCluster, topics: Any, spark: Any, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(
        topology: Topology, *, more_topics: tuple[str, ...] = (), stored: tuple[tuple[bytes, bytes], ...] = ()
    ) -> Running:
        application = f"{topics.prefix}app"
        plan = topology.build(spark, application_id=application)
        for topic in (*more_topics, dead_letter_topic(application)):
            topics.admin.create_topics([_new(topic)])[topic].result(30)
        (subtopology,) = plan.subtopologies[:1]
        stores = subtopology.stores()
        for store in stores:
            topics.admin.create_topics([_new(store.changelog, compact=True)])[store.changelog].result(30)
        offsets = Offsets(kafka.bootstrap_servers, {}, application)
        transactions = Transactions(
            kafka.bootstrap_servers, {}, application, f"{application}-w-0", offsets, Unwatched()
        )
        transactions.initialise()
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        loop = TaskLoop(
            LoopSettings("worker-0", 0, plan.description().dead_letter_topic, purge_source=False),
            ConsumerSource(kafka.bootstrap_servers, {}, subtopology.source),
            Evaluation(spark, subtopology),
            transactions,
            offsets,
            events.put,
            Unwatched(),
            WorkerMetrics(),
        )
        facts = offsets.facts(store.changelog for store in stores)
        identity = TaskIdentity(
            application,
            TaskId(0, 0),
            tuple(StoreIdentity(store.store, store.changelog, facts[store.changelog].id, 1) for store in stores),
        )
        directory = TaskDirectory(tmp_path / "0_0", identity, 3600) if stores else None
        if directory is not None and stored:
            directory.stores[stores[0].store].write(stored, boundary=0)
        loop.start()
        positions = {(topic, 0): 0 for topic in subtopology.source.topics}
        loop.add(RunningTask(TaskId(0, 0), Epoch(1, 1), directory, positions), commit_first=True)
        running = Running(kafka, application, tmp_path, loop, offsets, plan, events)
        started.append(running)
        return running

    yield begin
    for running in started:
        running.loop.stop()
        running.loop.join(30)


def _new(topic: str, *, compact: bool = False) -> Any:
    from confluent_kafka.admin import NewTopic

    return NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"} if compact else {})


def counting(source: str, out: str, **options: Any) -> Topology:
    topology = Topology("app", **options)
    stream = topology.stream(source, key="user string", value="amount int", offset_reset="earliest")
    stream.group_by("user").aggregate("totals", n=count(), total=sum_("amount")).to(out)
    return topology


def test_aggregates_are_committed_with_offsets_witness_and_timestamps(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(counting(source, out))
    running.send(
        source, (b"ann", b'{"amount": 3}'), (b"bob", b'{"amount": 5}'), (b"ann", b'{"amount": 4}'), timestamp=7
    )
    running.wait_until_read(source)
    running.send(source, (b"ann", b'{"amount": null}'), timestamp=9)
    running.wait_until_read(source)

    assert running.values(out) == {b"ann": {"n": 3, "total": 7}, b"bob": {"n": 1, "total": 5}}
    assert {message.timestamp()[1] for message in running.read(out)} == {7, 9}
    changelog = running.read(f"{running.application}-totals-changelog")
    newest = {message.key(): message.value() for message in changelog}
    version, timestamp = struct.unpack_from(">bq", newest[b"ann"])
    assert (version, timestamp) == (1, 9)
    running.loop.release(TaskId(0, 0))
    released = running.wait_for(TaskReleased)
    assert released.boundaries == {"totals": changelog[-1].offset() + 1}


def test_null_keys_and_tombstones_are_dropped(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(counting(source, out))
    running.send(source, (None, b'{"amount": 1}'), (b"ann", None), (b"ann", b'{"amount": 2}'))
    running.wait_until_read(source)

    assert running.values(out) == {b"ann": {"n": 1, "total": 2}}


def test_what_cannot_be_decoded_goes_to_the_dead_letters_with_its_place(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(counting(source, out, on_error="dead-letter"))
    running.send(source, (b"ann", b'{"amount": 1}'), (b"ann", b"{broken"), (b"ann", b'{"amount": 2}'))
    running.wait_until_read(source)

    assert running.values(out) == {b"ann": {"n": 2, "total": 3}}
    (dead,) = running.read(dead_letter_topic(running.application))
    headers = dict(dead.headers())
    assert dead.value() == b"{broken"
    assert headers["__streams.errors.topic"] == source.encode()
    assert headers["__streams.errors.offset"] == b"1"
    assert headers["__streams.errors.taskid"] == b"0_0"


def failing(source: str, out: str, on_error: str) -> Topology:
    topology = Topology("app", on_error=on_error)
    stream = topology.stream(source, key="user string", value="amount int", offset_reset="earliest")
    risky = stream.transform(lambda df: df.withColumn("share", F.expr("div(100, amount)").cast("int")))
    risky.group_by("user").aggregate("totals", n=count(), total=sum_("share")).to(out)
    return topology


def test_a_row_on_which_user_code_raises_is_found_and_set_aside(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(failing(source, out, "dead-letter"))
    good = [(b"ann", b'{"amount": 10}')] * 20
    running.send(source, *good, (b"ann", b'{"amount": 0}'), *good)
    running.wait_until_read(source)

    assert running.values(out) == {b"ann": {"n": 40, "total": 400}}
    (dead,) = running.read(dead_letter_topic(running.application))
    assert dead.value() == b'{"amount": 0}'
    assert dict(dead.headers())["__streams.errors.offset"] == b"20"


def test_a_row_on_which_a_java_function_throws_is_set_aside_too(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    topology = Topology("app", on_error="dead-letter")
    stream = topology.stream(source, key="user string", value="amount string", offset_reset="earliest")
    parsed = stream.transform(
        lambda df: df.withColumn("n", F.expr("java_method('java.lang.Integer', 'parseInt', amount)").cast("int"))
    )
    parsed.group_by("user").aggregate("totals", n=count(), total=sum_("n")).to(out)
    running = start(topology)
    running.send(source, (b"ann", b'{"amount": "3"}'), (b"ann", b'{"amount": "three"}'), (b"ann", b'{"amount": "4"}'))
    running.wait_until_read(source)

    assert running.values(out) == {b"ann": {"n": 2, "total": 7}}
    (dead,) = running.read(dead_letter_topic(running.application))
    assert dead.value() == b'{"amount": "three"}'
    assert b'For input string: "three"' in dict(dead.headers())["__streams.errors.message"]


def test_on_request_such_a_row_stops_its_task_and_names_the_place(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(failing(source, out, "stop"))
    running.send(source, (b"ann", b'{"amount": 10}'), (b"ann", b'{"amount": 0}'))

    stopped = running.wait_for(TaskStopped)

    assert stopped.failed.topic == source
    assert (stopped.failed.partition, stopped.failed.offset) == (0, 1)
    assert running.offsets.committed([(source, 0)]) == {(source, 0): 0}


def test_state_of_another_layout_stops_its_task_and_is_left_as_it_is(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(counting(source, out), stored=((b"ann", b"\x01 of other aggregates"),))
    running.send(source, (b"ann", b'{"amount": 10}'))

    stopped = running.wait_for(TaskStopped)

    assert stopped.failed.reason == "StateUnreadable"
    assert "its aggregates were changed" in stopped.failed.message
    assert running.offsets.committed([(source, 0)]) == {(source, 0): 0}


def test_updates_can_be_transformed_and_sent_on(start: Any, topics: Any) -> None:
    source, out = topics.create("in"), topics.create("out")
    topology = Topology("app")
    stream = topology.stream(source, key="user string", value="amount int", offset_reset="earliest")
    table = stream.group_by("user").aggregate("totals", total=sum_("amount"))
    table.to_stream().filter("total > 10").to(out)
    running = start(topology)
    running.send(source, (b"ann", b'{"amount": 30}'), (b"bob", b'{"amount": 5}'))
    running.wait_until_read(source)

    assert running.values(out) == {b"ann": {"total": 30}}


def test_a_fenced_loop_writes_nothing_and_ends(start: Any, topics: Any, kafka: KafkaCluster) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(counting(source, out))
    running.send(source, (b"ann", b'{"amount": 1}'))
    running.wait_until_read(source)
    successor = Transactions(
        kafka.bootstrap_servers, {}, "x", f"{running.application}-w-0", running.offsets, Unwatched()
    )
    successor.initialise()

    running.send(source, (b"ann", b'{"amount": 1}'))

    assert running.wait_for(ProducerDied)
    assert running.offsets.committed([(source, 0)]) == {(source, 0): 1}
    with pytest.raises(ProducerDeadError):
        running.loop._transactions.begin()
    reopened = TaskDirectory(running.directory / "0_0", _identity_of(running), 3600)
    (value,) = dict(reopened.stores["totals"].items()).values()
    assert struct.unpack_from(">q", value, 10) == (1,)
    reopened.close()


def test_a_task_that_a_fenced_loop_never_took_can_be_opened_again(
    start: Any, topics: Any, kafka: KafkaCluster, tmp_path: Path
) -> None:
    source, out = topics.create("in"), topics.create("out")
    running = start(counting(source, out))
    running.send(source, (b"ann", b'{"amount": 1}'))
    running.wait_until_read(source)
    identity = replace(_identity_of(running), task=TaskId(0, 1))
    incarnation = Incarnation("member", {0: running.loop})
    Transactions(
        kafka.bootstrap_servers, {}, "x", f"{running.application}-w-0", running.offsets, Unwatched()
    ).initialise()

    taken = TaskDirectory(tmp_path / "0_1", identity, 3600)
    running.loop.add(RunningTask(TaskId(0, 1), Epoch(1, 1), taken, {(source, 1): 0}), commit_first=True)
    assert running.wait_for(ProducerDied)
    late = TaskDirectory(tmp_path / "0_2", replace(identity, task=TaskId(0, 2)), 3600)
    running.loop.add(RunningTask(TaskId(0, 2), Epoch(1, 1), late, {(source, 2): 0}), commit_first=True)

    assert incarnation.stop_loops(time.monotonic() + 10) is None
    for number in (1, 2):
        with locked(tmp_path / f"0_{number}"):
            pass


def _identity_of(running: Running) -> TaskIdentity:
    changelog = f"{running.application}-totals-changelog"
    facts = running.offsets.facts([changelog])[changelog]
    return TaskIdentity(running.application, TaskId(0, 0), (StoreIdentity("totals", changelog, facts.id, 1),))
