"""The source for a local Spark master: librdkafka consumer → Arrow, decoded there by the declared schema → Spark.

Spark's own `from_json` is the dearest step of a cycle, and its Kafka source costs a planning round; both are avoided.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluice_pipeline import clients
from sluice_pipeline.arrow_frames import to_frame
from sluice_pipeline.plan import Source
from sluice_pipeline.source.batch import Batch, OffsetOutOfRangeError, Partition, RawRecord, Rejected
from sluice_pipeline.source.decoding import decode_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS_A_CALL = 10_000
_FIRST_FETCH_SECONDS = 0.1
"""How long a batch waits for the first records of new partitions: else they wait for the whole of it."""
_FETCH_STEP_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Decoded rows; row i is `messages[index[i]]`."""

    table: pa.Table
    messages: Sequence[Message]
    index: np.ndarray

    @property
    def count(self) -> int:
        """How many rows, before any transformation."""
        return int(self.table.num_rows)

    def frame(self, spark: SparkSession, columns: Sequence[str] | None) -> DataFrame:
        """A fresh DataFrame of these columns; None for all: the reserved ones, the key's and the value's."""
        return to_frame(spark, self.table if columns is None else self.table.select(list(columns)))

    def halves(self) -> tuple[ArrowRows, ArrowRows]:
        """The first and the second half."""
        middle = self.count // 2
        return self._slice(0, middle), self._slice(middle, self.count)

    def without(self, records: Collection[RawRecord]) -> ArrowRows:
        """The same less these records."""
        dropped = {(record.topic, record.partition, record.offset) for record in records}
        kept = [
            (message.topic(), message.partition(), message.offset()) not in dropped
            for message in (self.messages[int(position)] for position in self.index)
        ]
        return self._keep(np.array(kept, dtype=bool))

    def without_partitions(self, partitions: Collection[int]) -> ArrowRows:
        """The same less every row of these partitions."""
        return self._keep(~np.isin(self.table.column("_partition").to_numpy(), list(partitions)))

    def first(self) -> RawRecord:
        """The raw record of the first row."""
        return raw_record(self.messages[int(self.index[0])])

    def _slice(self, start: int, end: int) -> ArrowRows:
        return ArrowRows(self.table.slice(start, end - start), self.messages, self.index[start:end])

    def _keep(self, kept: np.ndarray) -> ArrowRows:
        return ArrowRows(self.table.filter(pa.array(kept)), self.messages, self.index[kept])


class ConsumerSource:
    """The records of one subtopology's assigned partitions. Used from its loop's thread only."""

    def __init__(self, bootstrap_servers: str, kafka_config: Mapping[str, str], source: Source) -> None:
        self._source = source
        self._consumer = Consumer(clients.consumer(bootstrap_servers, kafka_config))
        self._known: set[str] = set()
        self._new: set[Partition] = set()
        self._new_until = 0.0

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        """Go on reading these partitions, each from its offset."""
        for topic in {topic for topic, _ in offsets} - self._known:
            clients.know_topic(self._consumer, topic)
            self._known.add(topic)
        self._consumer.incremental_assign(
            [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        )
        self._new.update(offsets)
        self._new_until = time.monotonic() + _FIRST_FETCH_SECONDS

    def unassign(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions; what was fetched of them and not read is dropped."""
        self._consumer.incremental_unassign([TopicPartition(*partition) for partition in partitions])
        self._new.difference_update(partitions)

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read again from these offsets (a transaction was aborted)."""
        self.unassign(offsets.keys())
        self.assign(offsets)

    def read(self, limit: int, wait_seconds: float) -> Batch | None:
        """Take what is there, up to `limit` records; None if no first one comes in `wait_seconds`.

        After that it waits only for what partitions bring that have just come, and not for long.

        Raises OffsetOutOfRangeError.
        """
        first = self._consumer.poll(wait_seconds)
        if first is None:
            return None
        messages = more = [first]
        while len(messages) < limit:
            waits = self._waits_for_new(more)
            more = self._consumer.consume(
                min(_RECORDS_A_CALL, limit - len(messages)), _FETCH_STEP_SECONDS if waits else 0.0
            )
            if not more and not waits:
                break
            messages += more
        records = self._without_errors(messages)
        return self._decode(records, is_full=len(messages) >= limit) if records else None

    def _waits_for_new(self, messages: list[Message]) -> bool:
        """Whether a partition that has just come has brought nothing yet and still has time to."""
        if self._new:
            self._new.difference_update({(message.topic(), message.partition()) for message in messages})
            if time.monotonic() > self._new_until:
                self._new.clear()
        return bool(self._new)

    def close(self) -> None:
        """Let the connection go."""
        self._consumer.close()

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        failed = [message for message in messages if message.error() is not None]
        if not failed:
            return messages
        records = [message for message in messages if message.error() is None]
        lost = _first_out_of_range(failed)
        if lost is not None:
            self.rewind(_first_offsets(records))  # who asks again must get them
            raise lost
        return records

    def _decode(self, messages: list[Message], *, is_full: bool) -> Batch:
        partitions = np.array([message.partition() for message in messages], dtype=np.int32)
        offsets = np.array([message.offset() for message in messages], dtype=np.int64)
        starts, ends = self._bounds(messages, partitions, offsets)
        decoded = decode_records(
            [message.key() for message in messages],
            [message.value() for message in messages],
            {
                "_partition": partitions,
                "_offset": offsets,
                "_timestamp": np.array([message.timestamp()[1] for message in messages], dtype=np.int64),
            },
            self._source,
        )
        rejected = tuple(Rejected(raw_record(messages[at]), reason) for at, reason in sorted(decoded.bad.items()))
        rows = ArrowRows(decoded.table, messages, decoded.index)
        return Batch(rows, starts, ends, len(messages), rejected, decoded.tombstones, is_full)

    def _bounds(
        self, messages: list[Message], partitions: np.ndarray, offsets: np.ndarray
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        if len(self._source.topics) == 1:
            topics = {self._source.topics[0]: np.ones(len(messages), dtype=bool)}
        else:
            names = np.array([message.topic() for message in messages])
            topics = {topic: names == topic for topic in self._source.topics}
        starts: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        for topic, mask in topics.items():
            for partition in np.unique(partitions[mask]):
                of_partition = offsets[mask & (partitions == partition)]
                starts[topic, int(partition)] = int(of_partition[0])
                ends[topic, int(partition)] = int(of_partition[-1]) + 1
        return starts, ends


def _first_out_of_range(failed: Sequence[Message]) -> OffsetOutOfRangeError | None:
    """Raises KafkaException when the consumer is broken for good; the client gets over other errors by itself."""
    for message in failed:
        error, topic, partition = message.error(), message.topic(), message.partition()
        if error is None or topic is None or partition is None:
            continue
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return OffsetOutOfRangeError(topic, partition, error.str())
        if error.fatal():
            raise KafkaException(error)
    return None


def _first_offsets(records: Sequence[Message]) -> dict[Partition, int]:
    first: dict[Partition, int] = {}
    for record in records:
        first.setdefault((record.topic() or "", record.partition() or 0), record.offset() or 0)
    return first


def raw_record(message: Message) -> RawRecord:
    """A client's message as a record."""
    return RawRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        _as_bytes(message.key()),
        _as_bytes(message.value()),
    )


def _as_bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
