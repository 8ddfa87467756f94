"""One Kafka transaction a batch: changelog, outputs, repartition records and source offsets, or nothing of them.

The order is always begin → produce → flush → send offsets → commit (design, "commit order"). Without the flush a
transaction costs 90 ms instead of 3. A producer is initialised once a process start: a fenced one is dead for ever,
because initialising it again would let an old batch through and move the group's offset backwards.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluice_pipeline import clients
from sluice_pipeline.call_thread import CallOverdueError, CallThread
from sluice_pipeline.observer import Observer, Step
from sluice_pipeline.offsets import Offsets, OffsetsUnavailableError, Partition

FLUSH_TIMEOUT_SECONDS = 30.0
COMMIT_TIMEOUT_SECONDS = clients.TRANSACTION_TIMEOUT_SECONDS
"""What takes longer is aborted by its coordinator."""
INIT_TIMEOUT_SECONDS = 15.0
_GRACE_SECONDS = 2.0
"""How much longer than its time-out a call of the client may take before it is given up."""


class ProducerDeadError(Exception):
    """The producer is fenced or broken for good: drop every task, write nothing, start a new incarnation."""


class KafkaUnavailableError(Exception):
    """Kafka did not answer in time; the call may be repeated."""


class TransactionAbortedError(Exception):
    """The transaction was aborted and nothing of it will be seen: read again from the old offsets."""


class Transactions:
    """The transactions of one subtopology on one worker."""

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, str],
        group: str,
        transactional_id: str,
        offsets: Offsets,
        observer: Observer,
        commit_timeout_seconds: float = COMMIT_TIMEOUT_SECONDS,
    ) -> None:
        self.transactional_id = transactional_id
        self._commit_timeout_seconds = commit_timeout_seconds
        self._thread = CallThread(f"transactions of {transactional_id}")
        self._offsets = offsets
        self._observer = observer
        self._producer = Producer(clients.transactional_producer(bootstrap_servers, kafka_config, transactional_id))
        member = Consumer({**clients.common(bootstrap_servers, kafka_config), "group.id": group})
        self._group = member.consumer_group_metadata()
        member.close()
        self._numbered: set[Partition] = set()

    def initialise(self) -> None:
        """Fence whoever had this transactional id before, and abort its open transaction.

        Raises KafkaUnavailableError, ProducerDeadError.
        """
        try:
            self._call("init_transactions", self._producer.init_transactions, INIT_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].retriable():
                raise KafkaUnavailableError(f"{self.transactional_id}: Kafka does not answer: {error}") from error
            raise ProducerDeadError(f"{self.transactional_id}: init_transactions failed: {error}") from error
        self._observer.reached(Step.INITIALISED)

    def begin(self) -> None:
        """Begin, only once a batch's results are at hand: a long Spark job must hold no transaction open."""
        self._numbered = set()
        self._guard_local("begin_transaction", self._producer.begin_transaction)

    def produce(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        """Hand records to the producer; Java's default partitioner chooses their partitions by key."""
        self._guard_local("produce", lambda: self._produce_each(topic, zip(keys, values, timestamps, strict=True)))

    def produce_to(self, topic: str, partition: int, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Hand records for one partition to the producer (a changelog); their time is now."""
        if keys:
            self._numbered.add((topic, partition))
            self._guard_local("produce", lambda: self._produce_batch(topic, partition, keys, values))

    def produce_with_headers(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Mapping[str, bytes]
    ) -> None:
        """Hand one record with headers to the producer (dead letters)."""
        self._guard_local("produce", lambda: self._producer.produce(topic, value, key, headers=list(headers.items())))

    def _produce_each(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None, int]]) -> None:
        produce = self._producer.produce  # the batch call knows no timestamps
        for key, value, timestamp in records:
            while True:
                try:
                    produce(topic, value, key, timestamp=timestamp)
                except BufferError:
                    self._producer.poll(0.05)
                else:
                    break

    def _produce_batch(self, topic: str, partition: int, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        messages: list[dict[str, Any]] = [
            {"key": key, "value": value, "partition": partition} for key, value in zip(keys, values, strict=True)
        ]
        while self._producer.produce_batch(topic, messages) < len(messages):
            messages = [message for message in messages if "_error" in message]
            for message in messages:
                error = message.pop("_error")
                if error.code() != KafkaError._QUEUE_FULL:
                    raise KafkaException(error)
            self._producer.poll(0.05)

    def commit(self, offsets: Mapping[Partition, tuple[int, str]]) -> dict[Partition, int]:
        """Flush, send the source offsets, each with its metadata (`worker@epoch`), commit.

        Returns, for every partition that was produced to by number, the boundary after its last record: the log's end
        between flush and commit. Nobody else can have written there if the commit succeeds. (A delivery report would
        say the same, but in a fenced producer the client calls it with an exception pending, and the interpreter dies.)
        Raises TransactionAbortedError or ProducerDeadError.
        """
        self._observer.reached(Step.PRODUCED)
        self._guard_local("flush", self._flush)
        self._observer.reached(Step.FLUSHED)
        boundaries = self._boundaries()
        positions = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in offsets.items()
        ]
        self._guard(
            "send_offsets_to_transaction",
            lambda left: self._producer.send_offsets_to_transaction(positions, self._group, left),
        )
        self._observer.reached(Step.OFFSETS_SENT)
        self._guard("commit_transaction", self._producer.commit_transaction)
        self._observer.reached(Step.COMMITTED)
        return boundaries

    def _boundaries(self) -> dict[Partition, int]:
        try:
            return self._offsets.log_ends(self._numbered)
        except OffsetsUnavailableError as error:
            self._abort(f"{self.transactional_id}: {error}", error)

    def _flush(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT_SECONDS)
        if left:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{left} records not delivered in time"))

    def _guard(self, what: str, call: Callable[[float], object]) -> None:
        """Make a call of which the client may lose sight."""
        self._guard_local(what, lambda: self._call(what, call, self._commit_timeout_seconds))

    def _guard_local(self, what: str, call: Callable[[], object]) -> None:
        """Make a call that returns in time by itself."""
        try:
            call()
        except (KafkaException, BufferError) as error:
            self._fail(what, error)

    def _call(self, what: str, call: Callable[[float], object], timeout: float) -> None:
        try:
            self._thread.call(lambda: _retried(call, timeout), timeout + _GRACE_SECONDS)
        except CallOverdueError as error:
            raise ProducerDeadError(f"{self.transactional_id}: {what} hangs in the client: {error}") from error

    def _fail(self, what: str, error: Exception) -> None:
        problem = f"{self.transactional_id}: {what} failed: {error}"
        detail = error.args[0] if error.args else None
        if isinstance(detail, KafkaError) and detail.fatal():
            raise ProducerDeadError(problem) from error
        if what in ("begin_transaction", "commit_transaction") and not _wants_abort(detail):
            # Not abortable and no longer retriable: its outcome is not known, and only a new incarnation may ask.
            raise ProducerDeadError(problem) from error
        self._abort(problem, error)

    def _abort(self, problem: str, error: Exception) -> NoReturn:
        try:
            self._call("abort_transaction", self._producer.abort_transaction, self._commit_timeout_seconds)
        except KafkaException as abort_error:
            raise ProducerDeadError(f"{problem}, and so did its abort: {abort_error}") from abort_error
        raise TransactionAbortedError(problem) from error

    def close(self) -> None:
        """Let the producer's threads go; nothing is flushed."""
        self._thread.close()
        with contextlib.suppress(KafkaException):  # a dead producer says once more what killed it
            self._producer.purge()
            self._producer.flush(0)


def _wants_abort(detail: object) -> bool:
    return isinstance(detail, KafkaError) and detail.txn_requires_abort()


def _retried(call: Callable[[float], object], timeout: float) -> None:
    """Call again while librdkafka says that the same call may be repeated, up to the deadline."""
    deadline = time.monotonic() + timeout
    while True:
        left = max(0.1, deadline - time.monotonic())
        try:
            call(left)
        except KafkaException as error:
            detail = error.args[0]
            if not detail.retriable() or time.monotonic() >= deadline:
                raise
        else:
            return
