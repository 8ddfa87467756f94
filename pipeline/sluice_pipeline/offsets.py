"""Where to go on: the group's committed offsets, and the ends of logs (design, "takeover order").

Only the group's committed offset decides where a task goes on. It is read *stable*: while a predecessor's transaction
is open, a read-committed client waits; time-outs and each partition's own error are retried here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # type: ignore[attr-defined]

from sluice_pipeline import clients

Partition = tuple[str, int]

_LATEST: Any = _OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: Any = _OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_RETRY_SECONDS = 0.01
_UNSTABLE_TIMEOUT_SECONDS = 30.0
_PASSING = {
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
}
_STALE_LEADERS = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,  # "no leaders found"
}
"""What a client gets that knows the leaders of before a broker's restart. librdkafka's admin client keeps what it knows
for minutes and repeats the same mistake, unless it is made to ask."""


class OffsetsUnavailableError(Exception):
    """Kafka did not answer in time, or a transaction of a predecessor stayed open."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's own id (a re-created topic has another), and its number of partitions."""

    id: str
    partitions: int


class Offsets:
    """Reads offsets; every call has a time-out and retries, as long as its patience lasts, what passes by itself."""

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, str],
        group: str,
        patience_seconds: float = _UNSTABLE_TIMEOUT_SECONDS,
    ) -> None:
        self._admin = AdminClient(clients.admin(bootstrap_servers, kafka_config))
        # It never subscribes: a client of the group, and no member of it.
        self._member = Consumer(clients.consumer(bootstrap_servers, kafka_config, **{"group.id": group}))
        self._group = group
        self._patience_seconds = patience_seconds

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """The group's stable committed offsets, None where there never was one. Raises OffsetsUnavailableError."""
        return self._retry("committed offsets", lambda: self._committed(partitions)) if partitions else {}

    def _committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        # Not the admin client's call: librdkafka crashes the process when its answer is NOT_COORDINATOR.
        wanted = [TopicPartition(*partition) for partition in partitions]
        found: dict[Partition, int | None] = {}
        for position in self._member.committed(wanted, timeout=clients.REQUEST_TIMEOUT_SECONDS):
            if position.error is not None:
                raise KafkaException(position.error)
            found[position.topic, position.partition] = position.offset if position.offset >= 0 else None
        return found

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The ends of the logs, open transactions included (KAFKA-10167). Raises OffsetsUnavailableError."""
        return self._listed(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def stable_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The last stable offsets. Raises OffsetsUnavailableError."""
        return self._listed(partitions, _LATEST, IsolationLevel.READ_COMMITTED)

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The starts of the logs. Raises OffsetsUnavailableError."""
        return self._listed(partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)

    def since(self, partitions: Collection[Partition], moment_ms: int) -> dict[Partition, int]:
        """The first records not before the moment (since the epoch); nothing where there is none. Raises
        OffsetsUnavailableError."""
        at = _OffsetSpec.for_timestamp(moment_ms)
        found = self._listed(partitions, at, IsolationLevel.READ_COMMITTED)
        return {where: offset for where, offset in found.items() if offset >= 0}

    def _listed(self, partitions: Collection[Partition], spec: Any, isolation: Any) -> dict[Partition, int]:
        def listed() -> dict[Partition, int]:
            futures = self._admin.list_offsets(
                {TopicPartition(*partition): spec for partition in partitions},
                isolation_level=isolation,
                request_timeout=clients.REQUEST_TIMEOUT_SECONDS,
            )
            return {(where.topic, where.partition): future.result().offset for where, future in futures.items()}

        return self._retry("log offsets", listed) if partitions else {}

    def facts(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        """Ids and partition counts of topics that exist. Raises OffsetsUnavailableError."""

        names = sorted(set(topics))

        def described() -> dict[str, TopicFacts]:
            futures = self._admin.describe_topics(
                TopicCollection(names), request_timeout=clients.REQUEST_TIMEOUT_SECONDS
            )
            found = {name: future.result() for name, future in futures.items()}
            return {name: TopicFacts(str(topic.topic_id), len(topic.partitions)) for name, topic in found.items()}

        return self._retry("topic descriptions", described) if names else {}

    def delete_before(self, offsets: Mapping[Partition, int]) -> None:
        """Ask the brokers to delete records below the offsets; the answer isn't waited for."""
        if offsets:
            self._admin.delete_records(
                [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()],
                request_timeout=clients.REQUEST_TIMEOUT_SECONDS,
            )

    def _retry(self, what: str, call: Any) -> Any:
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return call()
            except KafkaException as error:
                code = error.args[0].code()
                if code not in _PASSING | _STALE_LEADERS or time.monotonic() > deadline:
                    raise OffsetsUnavailableError(f"{what} of group {self._group} can't be read: {error}") from error
                if code in _STALE_LEADERS:
                    self._ask_for_leaders()
            time.sleep(_RETRY_SECONDS)

    def _ask_for_leaders(self) -> None:
        with contextlib.suppress(KafkaException):  # the call that is repeated says what is wrong
            self._admin.list_topics(timeout=clients.REQUEST_TIMEOUT_SECONDS)
