"""The local source on a real broker: what it gives out, each record once."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.plan import Source
from sluice_pipeline.schemas import parse_columns
from sluice_pipeline.source.batch import OffsetOutOfRangeError
from sluice_pipeline.source.consumer_source import ConsumerSource

pytestmark = pytest.mark.kafka

RECORDS = 500
WHOLE, CUT = 0, 1
SECONDS = 30.0


def test_a_partition_whose_records_are_gone_takes_nothing_of_the_others_with_it(kafka: KafkaCluster, topics: Any):
    topic = topics.create("t", 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(RECORDS):
        for partition in (WHOLE, CUT):
            producer.produce(topic, b'{"n": %d}' % number, b"key", partition)
    assert producer.flush(30) == 0
    for future in topics.admin.delete_records([TopicPartition(topic, CUT, 100)]).values():
        future.result(30)
    columns = parse_columns("n bigint")
    source = ConsumerSource(
        kafka.bootstrap_servers, {}, Source((topic,), parse_columns("k string"), columns, "earliest", False)
    )
    source.assign({(topic, WHOLE): 0, (topic, CUT): 0})

    read, lost = [], []
    deadline = time.monotonic() + SECONDS
    while (len(read) < RECORDS or not lost) and time.monotonic() < deadline:
        try:
            batch = source.read(RECORDS * 2, 0.1)
        except OffsetOutOfRangeError as error:
            lost.append(error.partition)
            source.unassign([(topic, error.partition)])
        else:
            read += [] if batch is None else batch.rows.table.column("n").to_pylist()
    source.close()

    assert lost == [CUT]
    assert read == list(range(RECORDS))
