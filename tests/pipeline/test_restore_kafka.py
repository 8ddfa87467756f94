"""Restoring from a real changelog: followers, promotion, and the ends that lie about being ends."""

import queue
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.restore.messages import Event, Finished, Follow, Progress, Stopped
from sluice_pipeline.restore.restorers import Restorers
from sluice_pipeline.state.directory import StoreIdentity, TaskDirectory, TaskIdentity
from sluice_protocol.ids import TaskId

pytestmark = pytest.mark.kafka
TASK = TaskId(0, 0)


class Restoring:
    """A restorer process, a changelog, and a transactional writer."""

    def __init__(self, kafka: KafkaCluster, changelog: str, directory: Path) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.changelog, self.directory = changelog, directory
        self.restorers = Restorers(kafka.bootstrap_servers, {}, 1, None, self.events.put)
        self.offsets = Offsets(kafka.bootstrap_servers, {}, "nobody")
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": str(uuid.uuid4())}
        self.producer = Producer(settings)
        self.producer.init_transactions(30)
        facts = self.offsets.facts([changelog])[changelog]
        self.identity = TaskIdentity("app", TASK, (StoreIdentity("s", changelog, facts.id, facts.partitions),))

    def write(self, *keys: str, value: str = "1", commit: bool | None = True) -> None:
        self.producer.begin_transaction()
        for key in keys:
            self.producer.produce(self.changelog, value, key, partition=0)
        self.producer.flush()
        if commit is not None:
            (self.producer.commit_transaction if commit else self.producer.abort_transaction)()

    def ends(self) -> dict[str, int]:
        return {"s": self.offsets.log_ends([(self.changelog, 0)])[self.changelog, 0]}

    def follow(self) -> None:
        starts = {"s": self.offsets.log_starts([(self.changelog, 0)])[self.changelog, 0]}
        self.restorers.follow(Follow(str(self.directory), self.identity, 3600.0, starts, self.ends()))

    def wait(self, matches: Callable[[Event], bool], seconds: float = 20) -> Event:
        deadline = time.monotonic() + seconds
        while True:
            event = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            if matches(event):
                return event

    def content(self) -> dict[bytes, bytes]:
        opened = TaskDirectory(self.directory, self.identity, 3600.0)
        try:
            return dict(opened.stores["s"].items())
        finally:
            opened.close()


@pytest.fixture
def restoring(kafka: KafkaCluster, topics, tmp_path: Path) -> Iterator[Restoring]:
    changelog = topics.create("s-changelog", 1, cleanup_policy="compact")
    started = Restoring(kafka, changelog, tmp_path / "0_0")
    yield started
    started.restorers.close()


def is_hot(event: Event) -> bool:
    return isinstance(event, Progress) and event.offset_sum == event.end_offset_sum


def test_a_follower_catches_up_follows_and_is_promoted(restoring: Restoring) -> None:
    restoring.write("a", "b")
    restoring.follow()
    restoring.wait(is_hot)
    restoring.write("b", "c", value="2")
    restoring.wait(lambda event: isinstance(event, Progress) and event.restored_records == 4)

    restoring.restorers.finish(TASK, restoring.ends())
    finished = restoring.wait(lambda event: isinstance(event, Finished))

    assert isinstance(finished, Finished)
    assert finished.boundaries == restoring.ends()
    assert restoring.content() == {b"a": b"1", b"b": b"2", b"c": b"2"}


def test_an_aborted_tail_is_passed_and_not_applied(restoring: Restoring) -> None:
    restoring.write("a")
    restoring.write("dirty", commit=False)
    restoring.follow()
    restoring.restorers.finish(TASK, restoring.ends())

    finished = restoring.wait(lambda event: isinstance(event, Finished))

    assert isinstance(finished, Finished)
    assert finished.boundaries == restoring.ends()
    assert restoring.content() == {b"a": b"1"}


def test_the_end_of_the_partition_alone_is_not_the_end(restoring: Restoring) -> None:
    """An open transaction of the predecessor: everything readable is read, and still it must wait."""
    restoring.write("a")
    restoring.write("late", commit=None)
    ends = restoring.ends()
    restoring.follow()
    restoring.wait(is_hot)
    restoring.restorers.finish(TASK, ends)
    with pytest.raises(queue.Empty):
        restoring.wait(lambda event: isinstance(event, Finished), seconds=1)

    restoring.producer.commit_transaction()
    restoring.wait(lambda event: isinstance(event, Finished))

    assert restoring.content() == {b"a": b"1", b"late": b"1"}


def test_deleted_keys_are_deleted(restoring: Restoring) -> None:
    restoring.write("a", "b")
    restoring.producer.begin_transaction()
    restoring.producer.produce(restoring.changelog, None, "a", partition=0)
    restoring.producer.commit_transaction()
    restoring.follow()
    restoring.restorers.finish(TASK, restoring.ends())

    restoring.wait(lambda event: isinstance(event, Finished))

    assert restoring.content() == {b"b": b"1"}


def test_a_stopped_copy_goes_on_where_it_was(restoring: Restoring) -> None:
    restoring.write("a")
    restoring.follow()
    restoring.wait(is_hot)
    restoring.restorers.stop(TASK)
    restoring.wait(lambda event: isinstance(event, Stopped))
    restoring.restorers.forget(TASK)
    restoring.write("b")
    restoring.follow()

    progress = restoring.wait(is_hot)

    assert isinstance(progress, Progress)
    assert progress.restored_records == 1
