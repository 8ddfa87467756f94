"""Committed offsets are read stable: an open transaction is waited for, never mistaken for "never committed"."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.offsets import Offsets

pytestmark = pytest.mark.kafka


def an_open_commit(kafka: KafkaCluster, group: str, topic: str, offset: int) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": str(uuid.uuid4())})
    producer.init_transactions(30)
    member = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], member.consumer_group_metadata(), 10)
    member.close()
    return producer


def test_an_open_transaction_is_waited_for(kafka: KafkaCluster, topics: Any) -> None:
    topic, group = topics.create("t"), topics.name("g")
    offsets = Offsets(kafka.bootstrap_servers, {}, group)
    assert offsets.committed([(topic, 0)]) == {(topic, 0): None}
    an_open_commit(kafka, group, topic, 5).commit_transaction(10)
    assert offsets.committed([(topic, 0)]) == {(topic, 0): 5}

    producer = an_open_commit(kafka, group, topic, 9)
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(offsets.committed([(topic, 0)])))
    reader.start()
    reader.join(1)
    assert reader.is_alive()

    producer.commit_transaction(10)
    reader.join(10)
    assert found == [{(topic, 0): 9}]


def test_an_aborted_commit_never_was(kafka: KafkaCluster, topics: Any) -> None:
    topic, group = topics.create("t"), topics.name("g")
    offsets = Offsets(kafka.bootstrap_servers, {}, group)
    an_open_commit(kafka, group, topic, 5).abort_transaction(10)

    assert offsets.committed([(topic, 0)]) == {(topic, 0): None}
