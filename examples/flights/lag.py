"""How far a group is behind, and how much a topic holds: asked of Kafka itself."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, TopicPartition


def total_lag(bootstrap_servers: str, group: str, topics: Iterable[str]) -> int:
    """A number of records that are still to be read, 0 when there are none."""
    consumer = _reader(bootstrap_servers)
    partitions = [
        TopicPartition(topic, partition)
        for topic in topics
        for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions
    ]
    member = _reader(bootstrap_servers, group)
    committed = {(found.topic, found.partition): max(0, found.offset) for found in member.committed(partitions, 10)}
    member.close()
    for partition in partitions:
        partition.offset = committed[partition.topic, partition.partition]
    consumer.assign(partitions)
    behind = _records_until_the_ends(consumer, len(partitions))
    consumer.close()
    return behind


def _records_until_the_ends(consumer: Consumer, partitions: int) -> int:
    """Count what follows: the ends of the logs alone can't tell records from transaction markers."""
    records, ended = 0, set()
    while len(ended) < partitions:
        for message in consumer.consume(10_000, 0.05):
            if message.error() is None:
                records += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add((message.topic(), message.partition()))
        if records:
            return records  # some: that is all that anybody wants to know
    return records


def count_records(bootstrap_servers: str, topic: str) -> int:
    """How many records a topic holds, transaction markers and aborted ones left out."""
    consumer = _reader(bootstrap_servers)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    count, open_partitions = 0, set(partitions)
    while open_partitions:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            open_partitions.discard(message.partition())
        else:
            count += 1
    consumer.close()
    return count


def _reader(bootstrap_servers: str, group: str = "demo-reader") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
