"""Kafka's admin client, as far as the coordinator needs it. Every call has a time-out; all of them block."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # type: ignore[attr-defined]

from sluice_coordinator.topics.connections import REQUEST_SECONDS, AdminConnection
from sluice_coordinator.topics.plan import InternalTopic, TopicPlan, plan_topics, topics_of
from sluice_protocol.heartbeat import Status, StatusCode
from sluice_protocol.ids import TaskId
from sluice_protocol.topology import TopologyDescription

_LATEST: Any = _OffsetSpec.latest()  # type: ignore[no-untyped-call]
_CHECK_SECONDS = 3.0
_VISIBLE_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
}
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}


class KafkaUnreachableError(Exception):
    """Kafka did not answer in time."""


class KafkaRefusedError(Exception):
    """Kafka answered with an error."""


class TopicAdmin:
    """Topics and offsets of one cluster. `replication_factor` is that of topics created here, -1 = the broker's.

    `check` is called right before each act, and raises OSError if this process may not act any more.
    """

    def __init__(
        self, connection: AdminConnection, *, replication_factor: int = -1, check: Callable[[], None] = lambda: None
    ) -> None:
        self._check = check
        self._connection = connection
        self._admin = connection.client
        self._replication_factor = replication_factor

    def check(self) -> str:
        """The id of the cluster. Raises KafkaUnreachableError or KafkaRefusedError if it doesn't answer."""
        cluster_id: str | None = self._await(self._admin.describe_cluster(request_timeout=_CHECK_SECONDS)).cluster_id
        if not cluster_id:
            raise KafkaRefusedError(f"Kafka at {self._connection.bootstrap_servers} tells no cluster id")
        return cluster_id

    def prepare(self, topology: TopologyDescription) -> tuple[int, ...] | Status:
        """Plan the tasks and create the internal topics: the tasks of each subtopology, or why there are none."""
        try:
            return self._prepare(topology)
        except KafkaUnreachableError as error:
            return Status(StatusCode.KAFKA_UNREACHABLE, str(error))
        except KafkaRefusedError as error:
            return Status(StatusCode.MISSING_INTERNAL_TOPICS, str(error))

    def _prepare(self, topology: TopologyDescription) -> tuple[int, ...] | Status:
        needed = topics_of(topology)
        plan = plan_topics(topology, self.describe(needed))
        if isinstance(plan, Status) or not plan.to_create:
            return plan if isinstance(plan, Status) else plan.partitions
        self.create(plan.to_create)
        return self._checked(topology, needed, plan)

    def _checked(
        self, topology: TopologyDescription, needed: Collection[str], plan: TopicPlan
    ) -> tuple[int, ...] | Status:
        """Plan again on what is there now: somebody else may have created a topic at the same moment, differently."""
        self._await_visible([topic.name for topic in plan.to_create])
        again = plan_topics(topology, self.describe(needed))
        if isinstance(again, Status):
            return again
        if again.to_create:
            names = ", ".join(topic.name for topic in again.to_create)
            return Status(StatusCode.MISSING_INTERNAL_TOPICS, f"internal topics {names} vanished after their creation")
        return again.partitions

    def describe(self, topics: Collection[str]) -> dict[str, int]:
        """The number of partitions of those that exist. Never creates one, whatever the broker's settings."""
        return {name: len(description.partitions) for name, description in self._descriptions(topics)}

    def racks(self, topics: Collection[str]) -> dict[tuple[str, int], frozenset[str]]:
        """The racks of the replicas of every partition; a broker without a rack adds none."""
        return {
            (name, partition.id): frozenset(replica.rack for replica in partition.replicas if replica.rack)
            for name, description in self._descriptions(topics)
            for partition in description.partitions
        }

    def _descriptions(self, topics: Collection[str]) -> Iterator[tuple[str, Any]]:
        if not topics:
            return
        futures = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_SECONDS)
        for name, future in futures.items():
            description = self._await(future, missing=KafkaError.UNKNOWN_TOPIC_OR_PART)
            if description is not None:
                yield name, description

    def create(self, topics: Sequence[InternalTopic]) -> None:
        """Create what does not exist yet."""
        new = [
            NewTopic(topic.name, topic.partitions, self._replication_factor, config=dict(topic.config))
            for topic in topics
        ]
        self._check()
        futures = self._admin.create_topics(new, operation_timeout=REQUEST_SECONDS, request_timeout=REQUEST_SECONDS)
        for name, future in futures.items():
            self._await(future, missing=KafkaError.TOPIC_ALREADY_EXISTS, what=f"internal topic {name} can't be created")

    def delete(self, topics: Sequence[str], group: str) -> None:
        """Delete the topics and the consumer group, as far as they are there. Raises KafkaUnreachableError or
        KafkaRefusedError."""
        if topics:
            self._check()
            gone = self._admin.delete_topics(
                list(topics), operation_timeout=REQUEST_SECONDS, request_timeout=REQUEST_SECONDS
            )
            for name, future in gone.items():
                self._await(future, missing=KafkaError.UNKNOWN_TOPIC_OR_PART, what=f"topic {name} can't be deleted")
        self._check()
        for future in self._admin.delete_consumer_groups([group], request_timeout=REQUEST_SECONDS).values():
            self._await(future, missing=KafkaError.GROUP_ID_NOT_FOUND, what=f"consumer group {group} can't be deleted")

    def end_offset_sums(self, changelogs: Mapping[TaskId, Sequence[str]]) -> dict[TaskId, int]:
        """The last stable offsets of each task's changelogs, summed: the ends that a copy can reach."""
        partitions = {
            (topic, task.partition): TopicPartition(topic, task.partition)
            for task, topics in changelogs.items()
            for topic in topics
        }
        try:
            ends = self._stable_ends(partitions.values())
        except KafkaRefusedError:
            self._ask_for_leaders()
            ends = self._stable_ends(partitions.values())
        return {task: sum(ends[topic, task.partition] for topic in topics) for task, topics in changelogs.items()}

    def _stable_ends(self, partitions: Iterable[TopicPartition]) -> dict[tuple[str, int], int]:
        futures = self._admin.list_offsets(
            dict.fromkeys(partitions, _LATEST),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_SECONDS,
        )
        return {(where.topic, where.partition): self._await(future).offset for where, future in futures.items()}

    def _ask_for_leaders(self) -> None:
        """After a broker's restart librdkafka's admin client repeats requests for the old leader, until it asks."""
        try:
            self._admin.list_topics(timeout=REQUEST_SECONDS)
        except KafkaException as error:
            raise self._unreachable(error.args[0].str()) from None

    def _await_visible(self, topics: Sequence[str]) -> None:
        """A topic is created before every broker knows it; Kafka tells nobody when that is over."""
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while self.describe(topics).keys() != set(topics):
            if time.monotonic() > deadline:
                raise KafkaRefusedError(
                    f"internal topics {', '.join(topics)} are not visible after {_VISIBLE_SECONDS:g} s"
                )
            time.sleep(_LOOK_SECONDS)

    def _await(self, future: Future[Any], *, missing: int | None = None, what: str = "Kafka refused") -> Any:
        """The answer; None if it is the error that means that nothing is there, or that nothing is to be done."""
        try:
            return future.result(timeout=REQUEST_SECONDS + 5)
        except TimeoutError:
            raise self._unreachable("no answer in time") from None
        except KafkaException as error:
            kafka_error = error.args[0]
            if kafka_error.code() == missing:
                return None
            if kafka_error.code() in _UNREACHABLE:
                raise self._unreachable(kafka_error.str()) from None
            raise KafkaRefusedError(f"{what}: {kafka_error.str()} ({kafka_error.name()})") from None

    def _unreachable(self, reason: str) -> KafkaUnreachableError | KafkaRefusedError:
        return unreachable(self._connection.bootstrap_servers, self._connection.last_error(), reason)


def unreachable(where: str, said: KafkaError | None, reason: str) -> KafkaUnreachableError | KafkaRefusedError:
    """Name what the connection itself has said, if anything: a time-out alone tells nobody what to mend."""
    if said is None:
        return KafkaUnreachableError(f"Kafka at {where} does not answer: {reason}")
    if said.code() in _REFUSED:
        return KafkaRefusedError(f"Kafka at {where} refuses the credentials: {said.str()}")
    if said.code() == KafkaError._SSL:  # librdkafka itself asks for a file, which an operator must not read
        hint = "the certificate of a private CA belongs, as text, into ssl.ca.pem"
        return KafkaRefusedError(f"TLS with Kafka at {where} fails ({hint}): {said.str()}")
    return KafkaUnreachableError(f"Kafka at {where} does not answer: {said.str()}")
