"""Transactions and a broker that dies: the producer goes on with it when it is back, and hangs nobody until then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.observer import Observer, Step, Unwatched
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.transaction import ProducerDeadError, TransactionAbortedError, Transactions

pytestmark = pytest.mark.kafka

SOURCE, OUTPUT, GROUP = ("source", 0), "output", "group"


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[KafkaCluster]:
    """A broker that may be killed."""
    with KafkaCluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for created in admin.create_topics([NewTopic(name, 1, 1) for name in (SOURCE[0], OUTPUT)]).values():
            created.result(30)
        Offsets(cluster.bootstrap_servers, {}, GROUP).committed([SOURCE])  # makes the broker the group's coordinator
        yield cluster


class KillsBroker:
    """Kills it once the records of a transaction are flushed, before its offsets are sent."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka

    def reached(self, step: Step) -> None:
        if step is Step.FLUSHED:
            self._kafka.kill(0)


def a_producer(kafka: KafkaCluster, name: str, observer: Observer | None = None, seconds: float = 10) -> Transactions:
    offsets = Offsets(kafka.bootstrap_servers, {}, GROUP)
    return Transactions(kafka.bootstrap_servers, {}, GROUP, name, offsets, observer or Unwatched(), seconds)


def commit(transactions: Transactions, offset: int) -> None:
    transactions.begin()
    transactions.produce(OUTPUT, [b"key"], [b"value"], [0])
    transactions.commit({SOURCE: (offset, "worker-0@1.1")})


def commit_in_the_end(transactions: Transactions, offset: int) -> None:
    """As a loop does it: what was aborted is begun again."""
    for _ in range(5):
        try:
            return commit(transactions, offset)
        except TransactionAbortedError:
            continue
    raise AssertionError("five transactions in a row were aborted")


def test_a_producer_commits_again_after_its_only_broker_was_away(own_kafka: KafkaCluster):
    transactions = a_producer(own_kafka, "goes-on")
    transactions.initialise()
    commit(transactions, 1)

    own_kafka.kill(0)
    own_kafka.restart(0)
    commit_in_the_end(transactions, 2)

    assert Offsets(own_kafka.bootstrap_servers, {}, GROUP).committed([SOURCE]) == {SOURCE: 2}


def test_offsets_that_nobody_answers_for_end_the_producer_and_not_the_loop(own_kafka: KafkaCluster):
    transactions = a_producer(own_kafka, "hangs", KillsBroker(own_kafka), seconds=1)
    transactions.initialise()

    with pytest.raises(ProducerDeadError):
        commit(transactions, 3)
    transactions.close()

    own_kafka.restart(0)
    successor = a_producer(own_kafka, "hangs")
    successor.initialise()
    commit_in_the_end(successor, 4)
    assert Offsets(own_kafka.bootstrap_servers, {}, GROUP).committed([SOURCE]) == {SOURCE: 4}
