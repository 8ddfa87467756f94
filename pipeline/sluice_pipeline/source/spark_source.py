"""The source for a cluster's Spark master: the executors read Kafka themselves, with Spark's own connector.

The driver only decides on offsets. A batch is the range of each partition from its position to its last stable offset,
as far as the limit allows. It is read and decoded once, into the executors' storage, from where every output of the
subtopology takes it; what Spark can't decode for sure (`codecs.spark_columns`) comes to the driver.

A range may hold fewer records than offsets, or none: markers of transactions and aborted records take offsets too. A
batch ends where its range ends, not after its last record, and an empty one is a batch like others: its end is
committed. Otherwise the group would stand still before an aborted tail for ever, read it again after each hand-over,
and seem to lag.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from sluice_pipeline.codecs.spark_columns import plain_key, plain_value
from sluice_pipeline.offsets import Offsets, OffsetsUnavailableError
from sluice_pipeline.plan import RESERVED, Source
from sluice_pipeline.source.batch import Batch, OffsetOutOfRangeError, Partition, RawRecord, Rejected
from sluice_pipeline.source.decoding import decode_records

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.02
_FEW_OFFSETS = 10_000
"""So many offsets are read by one task (-30 ms); more of them by one a partition."""

_TOPIC, _STATE, _DOUBTFUL_VALUE = "_topic", "_state", "_doubtful_value"
_GOOD, _TOMBSTONE, _DOUBTFUL = 0, 1, 2
_PLACE = (_TOPIC, "_partition", "_offset")

_FOREIGN_SETTINGS = ("security.", "sasl.", "ssl.")


class UntranslatableSettingsError(ValueError):
    """Settings of librdkafka that Java's client, with which executors read, would not understand."""


@dataclass(frozen=True, slots=True)
class KafkaReader:
    """Spark's batch reader of ranges of offsets. `group` is never the application's: nothing is committed with it."""

    bootstrap_servers: str
    group: str

    def read(self, spark: SparkSession, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> DataFrame:
        """The committed records of the ranges, as the connector gives them."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.group.id": self.group,  # lets executors use their consumers again
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "5",  # look-ups wait out the fetch in flight (690 ms a batch -> 55 ms)
            "kafkaConsumer.pollTimeoutMs": "30000",  # shorter than the time that a member has to let go of a task
            "failOnDataLoss": "true",
            "assign": json.dumps({topic: sorted(of_topic) for topic, of_topic in _by_topic(starts).items()}),
            "startingOffsets": json.dumps(_by_topic(starts)),
            "endingOffsets": json.dumps(_by_topic(ends)),
        }
        return spark.read.format("kafka").options(**options).load()

    def record(self, spark: SparkSession, topic: str, partition: int, offset: int) -> RawRecord:
        """One record as it lies in its topic."""
        where = (topic, partition)
        frame = self.read(spark, {where: offset}, {where: offset + 1})
        (row,) = frame.select(F.unix_millis("timestamp"), "key", "value").toArrow().to_pylist()
        timestamp, key, value = row.values()
        return RawRecord(topic, partition, offset, timestamp, key, value)


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Decoded rows in the executors' storage. What it does beyond `frame` is for the case that a row fails."""

    decoded: DataFrame
    counts: Mapping[Partition, int]
    reader: KafkaReader
    places: pa.Table | None = None
    """Topic, partition and offset of each row in this order; looked up when first needed."""

    @property
    def count(self) -> int:
        """How many rows, before any transformation."""
        return sum(self.counts.values())

    def frame(self, spark: SparkSession, columns: Sequence[str] | None) -> DataFrame:
        """A fresh DataFrame of these columns; None for all: the reserved ones, the key's and the value's."""
        wanted = [name for name in self.decoded.columns if name != _TOPIC] if columns is None else columns
        return self.decoded.select(*map(_column, wanted))

    def halves(self) -> tuple[SparkRows, SparkRows]:
        """The first and the second half."""
        places = self._sorted_places()
        middle = places.num_rows // 2
        return self._at(places.slice(0, middle)), self._at(places.slice(middle))

    def without(self, records: Collection[RawRecord]) -> SparkRows:
        """The same less these records."""
        offsets: dict[Partition, list[int]] = {}
        for record in records:
            offsets.setdefault((record.topic, record.partition), []).append(record.offset)
        decoded, counts = self.decoded, dict(self.counts)
        for where, dropped in offsets.items():
            decoded = decoded.where(~(_is_of(where) & F.col("_offset").isin(dropped)))
            counts[where] -= len(dropped)
        return SparkRows(decoded, counts, self.reader)

    def without_partitions(self, partitions: Collection[int]) -> SparkRows:
        """The same less every row of these partitions."""
        counts = {where: count for where, count in self.counts.items() if where[1] not in partitions}
        return SparkRows(self.decoded.where(~F.col("_partition").isin(list(partitions))), counts, self.reader)

    def first(self) -> RawRecord:
        """The raw record of the first row."""
        topic, partition, offset = self._sorted_places().slice(0, 1).to_pylist()[0].values()
        return self.reader.record(self.decoded.sparkSession, topic, partition, offset)

    def _sorted_places(self) -> pa.Table:
        if self.places is not None:
            return self.places
        return self.decoded.select(*_PLACE).toArrow().sort_by([(name, "ascending") for name in _PLACE])

    def _at(self, places: pa.Table) -> SparkRows:
        """The rows from the first to the last of these places, which lie side by side."""
        found = places.group_by([_TOPIC, "_partition"]).aggregate(
            [("_offset", "min"), ("_offset", "max"), ("_offset", "count")]
        )
        ranges, counts = [F.lit(False)], {}
        for part in found.to_pylist():
            where = (part[_TOPIC], part["_partition"])
            ranges.append(_is_of(where) & F.col("_offset").between(part["_offset_min"], part["_offset_max"]))
            counts[where] = part["_offset_count"]
        return SparkRows(self.decoded.where(functools.reduce(or_, ranges)), counts, self.reader, places)


class SparkSource:
    """The records of one subtopology's assigned partitions. Used from its loop's thread only.

    A batch's rows can be read until the next one is asked for. `offsets` should give up soon: while Kafka doesn't
    answer there is nothing to read, and the loop has other things to do than to wait.
    """

    def __init__(self, spark: SparkSession, reader: KafkaReader, offsets: Offsets, source: Source) -> None:
        self._spark = spark
        self._reader = reader
        self._offsets = offsets
        self._source = source
        self._positions: dict[Partition, int] = {}
        self._stored: DataFrame | None = None
        self._silence = threading.Event()

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        """Go on reading these partitions, each from its offset."""
        self._positions.update(offsets)

    def unassign(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions."""
        for where in partitions:
            self._positions.pop(where, None)

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read again from these offsets (a transaction was aborted)."""
        self._positions.update(offsets)

    def read(self, limit: int, wait_seconds: float) -> Batch | None:
        """Read what is there and stable, up to `limit` offsets; wait only until something is.

        Raises OffsetOutOfRangeError, and what PySpark and Py4J raise when the executors can't read.
        """
        ends = self._await(limit, wait_seconds)
        if not ends:
            return None
        started = time.monotonic()
        self._forget()
        starts = {where: self._positions[where] for where in ends}
        batch = self._decode(starts, ends)
        self._positions.update(ends)
        return replace(
            batch,
            is_full=_span(starts, ends) >= limit,
            read_seconds=time.monotonic() - started,
        )

    def close(self) -> None:
        """Let the last batch go."""
        self._forget()

    def _forget(self) -> None:
        if self._stored is not None:
            self._stored.unpersist()
            self._stored = None

    def _await(self, limit: int, wait_seconds: float) -> dict[Partition, int]:
        """Where the next batch ends; empty when nothing came in time."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                ends = self._look(limit)
            except OffsetsUnavailableError as error:
                log.warning("%s; nothing is read until Kafka answers", error)
                ends = {}
            left = deadline - time.monotonic()
            if ends or left <= 0:
                return ends
            self._silence.wait(min(left, _LOOK_SECONDS))  # Kafka tells nobody of a new record who doesn't fetch it

    def _look(self, limit: int) -> dict[Partition, int]:
        stable = self._offsets.stable_ends(self._positions)
        waiting = {where: stable[where] - position for where, position in self._positions.items()}
        if beyond := [where for where, count in waiting.items() if count < 0]:
            self._require_below(beyond)
        shares = share(limit, {where: count for where, count in waiting.items() if count > 0})
        self._require_not_deleted(shares)
        return {where: self._positions[where] + count for where, count in shares.items()}

    def _require_below(self, partitions: Collection[Partition]) -> None:
        """A position beyond the stable end may wait for an open transaction; one beyond the log's end is lost."""
        for where, end in self._offsets.log_ends(partitions).items():
            position = self._positions[where]
            if position > end:
                raise OffsetOutOfRangeError(*where, f"the position {position} is beyond the log's end, {end}")

    def _require_not_deleted(self, partitions: Collection[Partition]) -> None:
        for where, start in self._offsets.log_starts(partitions).items():
            position = self._positions[where]
            if position < start:
                raise OffsetOutOfRangeError(*where, f"the position {position} is below the log's start, {start}")

    def _decode(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> Batch:
        stored = self._columns(self._reader.read(self._spark, starts, ends))
        if _span(starts, ends) <= _FEW_OFFSETS:
            stored = stored.coalesce(1)
        self._stored = stored = stored.persist()
        good, tombstones, doubtful = _count(stored)
        decoded = stored.where(F.col(_STATE) == _GOOD).drop(_STATE, _DOUBTFUL_VALUE)
        rejected: tuple[Rejected, ...] = ()
        records = sum(good.values()) + tombstones + doubtful
        if doubtful:
            doubts = self._doubtful(stored)
            judged = decode_records(
                doubts["_key"].to_pylist(),
                doubts[_DOUBTFUL_VALUE].to_pylist(),
                {name: doubts[name] for name in RESERVED if name != "_key"} | {_TOPIC: doubts[_TOPIC]},
                self._source,
            )
            raw = doubts.to_pylist()
            rejected = tuple(Rejected(_raw_record(raw[at]), reason) for at, reason in sorted(judged.bad.items()))
            tombstones += judged.tombstones
            if judged.table.num_rows:
                decoded = decoded.unionByName(self._spark.createDataFrame(judged.table))
                _add(good, judged.table)
        return Batch(SparkRows(decoded, good, self._reader), starts, ends, records, rejected, tombstones)

    def _columns(self, records: DataFrame) -> DataFrame:
        """Reserved columns, the key's, the value's, and whether that could be decoded here."""
        key, value = plain_key(F.col("key"), self._source.key), plain_value(F.col("value"), self._source.value)
        plain = key.is_plain & value.is_plain
        state = F.when(~plain, _DOUBTFUL).when(F.col("value").isNull(), _TOMBSTONE).otherwise(_GOOD)
        return records.select(
            F.col("key").alias("_key"),
            F.col("partition").alias("_partition"),
            F.col("offset").alias("_offset"),
            F.unix_millis("timestamp").alias("_timestamp"),
            *key.columns,
            *value.columns,
            F.col("topic").alias(_TOPIC),
            state.alias(_STATE),
            F.when(~plain, F.col("value")).alias(_DOUBTFUL_VALUE),
        )

    def _doubtful(self, stored: DataFrame) -> pa.Table:
        wanted = [*RESERVED, _TOPIC, _DOUBTFUL_VALUE]
        doubts = stored.where(F.col(_STATE) == _DOUBTFUL).select(*map(_column, wanted)).toArrow()
        return doubts.sort_by([(name, "ascending") for name in _PLACE])


def share(limit: int, waiting: Mapping[Partition, int]) -> dict[Partition, int]:
    """How much to take of each partition: as even as it goes, at least one of each, no more than is there."""
    shares: dict[Partition, int] = {}
    for place, (where, count) in enumerate(sorted(waiting.items(), key=lambda one: one[1])):
        fair = max(1, (limit - sum(shares.values())) // (len(waiting) - place))
        shares[where] = min(count, fair)
    return shares


def require_translatable(kafka_config: Mapping[str, str]) -> None:
    """Refuse settings without which executors would not get in. Raises UntranslatableSettingsError."""
    foreign = sorted(name for name in kafka_config if name.startswith(_FOREIGN_SETTINGS))
    if foreign:
        raise UntranslatableSettingsError(
            f"Kafka settings {', '.join(foreign)}: with a cluster master the executors read Kafka with Java's client, "
            "which does not know librdkafka's security settings; use a local master, or a listener without them."
        )


def _count(stored: DataFrame) -> tuple[dict[Partition, int], int, int]:
    """Good rows by partition, tombstones, doubtful ones: the job that reads and stores the batch."""
    good: dict[Partition, int] = {}
    others = {_TOMBSTONE: 0, _DOUBTFUL: 0}
    for topic, partition, state, count in _tuples(stored.groupBy(_TOPIC, "_partition", _STATE).count().toArrow()):
        if state == _GOOD:
            good[topic, partition] = count
        else:
            others[state] += count
    return good, others[_TOMBSTONE], others[_DOUBTFUL]


def _add(counts: dict[Partition, int], rows: pa.Table) -> None:
    for topic, partition, count in _tuples(rows.group_by([_TOPIC, "_partition"]).aggregate([([], "count_all")])):
        counts[topic, partition] = counts.get((topic, partition), 0) + count


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _raw_record(row: Mapping[str, Any]) -> RawRecord:
    return RawRecord(
        row[_TOPIC], row["_partition"], row["_offset"], row["_timestamp"], row["_key"], row[_DOUBTFUL_VALUE]
    )


def _by_topic(offsets: Mapping[Partition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[partition] = offset
    return found


def _span(starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int:
    return sum(end - starts[where] for where, end in ends.items())


def _is_of(where: Partition) -> SparkColumn:
    topic, partition = where
    return (F.col(_TOPIC) == topic) & (F.col("_partition") == partition)


def _column(name: str) -> SparkColumn:
    return F.col(f"`{name}`")
