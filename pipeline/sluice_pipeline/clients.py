"""Settings of the Kafka clients of a worker, each with the reason why it is not librdkafka's default."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException

REQUEST_TIMEOUT_SECONDS = 10.0
TRANSACTION_TIMEOUT_SECONDS = 10.0
_TOPIC_SECONDS = 1.0

Settings = dict[str, Any]


def common(bootstrap_servers: str, kafka_config: Mapping[str, str]) -> Settings:
    """What every client has: the user's own settings win, except where safety depends on ours."""
    return {
        "reconnect.backoff.max.ms": kafka_config.get("reconnect.backoff.ms", 1_000),  # not 10 s after it is back
        **kafka_config,
        "bootstrap.servers": bootstrap_servers,
        "log.connection.close": False,
    }


def consumer(bootstrap_servers: str, kafka_config: Mapping[str, str], **further: Any) -> Settings:
    """A consumer that is told its partitions. `group.id` is needed by the client and joined by nobody."""
    return {
        **common(bootstrap_servers, kafka_config),
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",  # a lost range must be loud
        "fetch.wait.max.ms": 20,  # an assignment change waits out the long poll in flight (505 ms -> 70 ms)
        "fetch.error.backoff.ms": 20,
        "queued.min.messages": 200_000,
        "fetch.queue.backoff.ms": 10,  # a full queue makes the client rest for a second (230k -> 1.4M records/s)
        "queued.max.messages.kbytes": 131_072,
        "fetch.max.bytes": 33_554_432,
        "max.partition.fetch.bytes": 8_388_608,
        **further,
    }


def transactional_producer(
    bootstrap_servers: str, kafka_config: Mapping[str, str], transactional_id: str, **further: Any
) -> Settings:
    """A producer for one transaction a batch."""
    return {
        **common(bootstrap_servers, kafka_config),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": round(TRANSACTION_TIMEOUT_SECONDS * 1000),  # a silent owner blocks readers so long
        "metadata.recovery.strategy": "none",  # a broker once forgotten is never again asked to commit offsets
        "partitioner": "murmur2_random",  # Java's default partitioner, so that Java clients agree
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "retry.backoff.ms": 2,  # a transaction right after another waits this long on CONCURRENT_TRANSACTIONS
        "compression.type": "lz4",
        **further,
    }


def know_topic(consumer: Consumer, topic: str) -> None:
    """Ask for a topic's leaders at once, before its first partition is assigned.

    By itself the client asks the next time it looks over its topics, which is once a second.
    """
    with contextlib.suppress(KafkaException):  # then it finds out by itself, later
        consumer.list_topics(topic, timeout=_TOPIC_SECONDS)


def admin(bootstrap_servers: str, kafka_config: Mapping[str, str]) -> Settings:
    """An administrative client."""
    return {**common(bootstrap_servers, kafka_config), "socket.timeout.ms": 10_000}
