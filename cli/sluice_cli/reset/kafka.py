"""What a reset reads from Kafka, and changes there.

Topics and the group's offsets are the coordinator's and the worker's own clients; only to commit for a group in which
nobody is needs one more call.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluice_cli.errors import CommandError
from sluice_cli.reset.positions import Aim, Log, Partition
from sluice_coordinator.fencing import Fencer, FencingError
from sluice_coordinator.topics.admin import KafkaRefusedError, KafkaUnreachableError, TopicAdmin
from sluice_coordinator.topics.connections import AdminConnection, InvalidKafkaConfigError
from sluice_pipeline import clients
from sluice_pipeline.offsets import Offsets, OffsetsUnavailableError

_GONE_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class ApplicationOnKafka:
    """The topics and the group of one application. Every method blocks, and raises CommandError."""

    def __init__(self, bootstrap_servers: str, kafka_config: Mapping[str, str], application_id: str) -> None:
        self._servers = bootstrap_servers
        self._config = kafka_config
        self._group = application_id
        try:
            self._topics = TopicAdmin(AdminConnection(bootstrap_servers, kafka_config))
        except InvalidKafkaConfigError as error:
            raise CommandError(f"librdkafka refuses the Kafka settings: {error}") from None

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """The number of partitions of those that exist."""
        try:
            self._topics.check()
            return self._topics.describe(topics)
        except (KafkaUnreachableError, KafkaRefusedError) as error:
            raise CommandError(str(error)) from None

    def logs(self, partitions: Collection[Partition], aim: Aim) -> dict[Partition, Log]:
        """What has to be known of each to aim."""
        try:
            offsets = Offsets(self._servers, self._config, self._group, patience_seconds=_GONE_SECONDS)
            starts, ends = offsets.log_starts(partitions), offsets.stable_ends(partitions)
            committed = offsets.committed(partitions)
            found = {} if aim.since_ms is None else offsets.since(partitions, aim.since_ms)
        except (OffsetsUnavailableError, KafkaException) as error:
            raise CommandError(f"offsets of group {self._group} can't be read: {error}") from None
        return {where: Log(starts[where], ends[where], committed[where], found.get(where)) for where in partitions}

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """The offset of each that the group has committed."""
        try:
            offsets = Offsets(self._servers, self._config, self._group, patience_seconds=_GONE_SECONDS)
            return offsets.committed(partitions)
        except (OffsetsUnavailableError, KafkaException) as error:
            raise CommandError(f"offsets of group {self._group} can't be read: {error}") from None

    def fence(self, transactional_ids: Collection[str]) -> None:
        """Let nobody commit any more who could until now."""
        try:
            Fencer(self._servers, self._config).fence(sorted(transactional_ids))
        except FencingError as error:
            raise CommandError(f"workers can't be fenced: {error}") from None

    def delete(self, topics: Collection[str]) -> None:
        """The topics, and all offsets of the group; returns when they are gone."""
        try:
            self._topics.delete((), self._group)  # first: state without an offset is refused, the reverse would go on
            self._topics.delete(sorted(topics), self._group)
            deadline = time.monotonic() + _GONE_SECONDS
            while left := self._topics.describe(topics):
                if time.monotonic() > deadline:
                    raise CommandError(f"topics {', '.join(sorted(left))} are still there after {_GONE_SECONDS:g} s")
                time.sleep(_LOOK_SECONDS)
        except (KafkaUnreachableError, KafkaRefusedError) as error:
            raise CommandError(str(error)) from None

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """For the whole group, of which nobody is a member."""
        settings = clients.consumer(self._servers, self._config, **{"group.id": self._group})
        consumer = Consumer(settings)
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False) or []
            problems = [str(each.error.str()) for each in done if each.error is not None]
        except KafkaException as error:
            problems = [str(error.args[0].str())]
        finally:
            consumer.close()
        if problems:
            raise CommandError(f"offsets of group {self._group} can't be committed: {problems[0]}")
