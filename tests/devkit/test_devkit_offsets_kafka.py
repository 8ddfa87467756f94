"""The witnesses on a real broker, with real transactions: ended, aborted, and still open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.offsets import TWO_OWNERS, CommitWitness, OffsetWatch

pytestmark = pytest.mark.kafka


class Owner:
    """Commits a group's offsets in transactions, as a worker does."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str) -> None:
        self._metadata = Consumer({"bootstrap.servers": bootstrap, "group.id": group}).consumer_group_metadata()
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{group}-{name}"})
        self._producer.init_transactions(30)
        self._topic, self._name = topic, name

    def send(self, partition: int, offset: int, epoch: str) -> None:
        """Begin a transaction and send the offset; whoever calls decides how it ends."""
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"x", partition=partition)
        self._producer.flush()
        metadata = f"{self._name}@{epoch}"
        self._producer.send_offsets_to_transaction(
            [TopicPartition(self._topic, partition, offset, metadata)], self._metadata, 30
        )

    def commit(self, partition: int, offset: int, epoch: str) -> None:
        self.send(partition, offset, epoch)
        self.end()

    def end(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self, partition: int, offset: int, epoch: str) -> None:
        self.send(partition, offset, epoch)
        self._producer.abort_transaction(30)


@pytest.fixture
def topic(topics: Any) -> str:
    name: str = topics.create("in", partitions=2)
    return name


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
    return False


def test_the_witness_sees_every_commit_and_no_aborted_one(kafka: KafkaCluster, topic: str) -> None:
    a = Owner(kafka.bootstrap_servers, topic, topic, "a")
    b = Owner(kafka.bootstrap_servers, topic, topic, "b")
    a.commit(0, 5, "1.1")
    b.commit(1, 3, "1.1")
    a.abort(0, 99, "1.1")
    a.commit(0, 5, "1.1")
    b.commit(0, 9, "1.2")
    before = int(time.time() * 1000) - 60_000

    with CommitWitness(kafka.bootstrap_servers, topic) as witness:
        assert eventually(lambda: len(witness.commits()) == 4)
        commits = witness.commits()
        assert [(c.partition, c.offset, c.metadata) for c in commits] == [
            (0, 5, "a@1.1"),
            (1, 3, "b@1.1"),
            (0, 5, "a@1.1"),
            (0, 9, "b@1.2"),
        ]
        assert {(c.group, c.topic) for c in commits} == {(topic, topic)}
        assert [c.position for c in commits] == sorted({c.position for c in commits})
        assert all(before < c.timestamp_ms < before + 120_000 for c in commits)
        assert witness.check() == []

    with CommitWitness(kafka.bootstrap_servers, topic, {"isolation.level": "read_uncommitted"}) as careless:
        assert 99 in [c.offset for c in careless.commits()]


def test_the_witness_goes_on_where_it_was_and_catches_a_second_owner(kafka: KafkaCluster, topic: str) -> None:
    a = Owner(kafka.bootstrap_servers, topic, topic, "a")
    with CommitWitness(kafka.bootstrap_servers, topic) as witness:
        a.commit(0, 1, "1.1")
        assert eventually(lambda: len(witness.commits()) == 1)
        a.abort(0, 2, "1.1")
        assert len(witness.commits()) == 1

        Owner(kafka.bootstrap_servers, topic, topic, "b").commit(0, 2, "1.1")

        assert eventually(lambda: len(witness.commits()) == 2)
        assert [violation.rule for violation in witness.check()] == [TWO_OWNERS]


def test_an_open_transaction_holds_nobody_up_and_shows_nothing(kafka: KafkaCluster, topic: str) -> None:
    a = Owner(kafka.bootstrap_servers, topic, topic, "a")
    a.commit(0, 1, "1.1")
    with CommitWitness(kafka.bootstrap_servers, topic) as witness:
        assert eventually(lambda: len(witness.commits()) == 1)
        a.send(0, 2, "1.1")

        began = time.monotonic()
        assert [c.offset for c in witness.commits()] == [1]
        assert time.monotonic() - began < 5
        a.end()


def test_the_watch_times_a_stand_still_and_ignores_what_was_aborted(kafka: KafkaCluster, topic: str) -> None:
    owner = Owner(kafka.bootstrap_servers, topic, topic, "a")
    with OffsetWatch(kafka.bootstrap_servers, topic, [(topic, 0), (topic, 1)]) as watch:
        for partition in (0, 1):
            owner.commit(partition, 1, "1.1")
        assert watch.wait_for(lambda: watch.committed() == {(topic, 0): 1, (topic, 1): 1}, 20)
        owner.abort(0, 50, "1.1")
        for offset in range(2, 12):
            owner.commit(1, offset, "1.1")
        owner.commit(0, 2, "1.1")
        assert watch.wait_for(lambda: watch.committed() == {(topic, 0): 2, (topic, 1): 11}, 20)

    (first, second), moved = watch.advances()[topic, 0], watch.advances()[topic, 1]
    still = watch.stand_stills(first.at, second.at)
    assert watch.total() == 13
    assert still[topic, 0].seconds == pytest.approx(second.at - first.at)
    assert still[topic, 1].seconds < still[topic, 0].seconds
    assert 2 < len(moved) <= 11
    assert watch.polls > 10
    assert watch.failed_polls == 0
