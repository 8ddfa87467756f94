"""One micro-batch, whatever it was read with: typed rows, where it began and ends, and the raw record of any row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as it lies in its topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that can't be decoded, or on which the user's transformation raises, and why."""

    record: RawRecord
    reason: str


class Rows(Protocol):
    """A part of a batch that Spark can read: it can be halved until a failing row is found."""

    @property
    def count(self) -> int:
        """How many rows, before any transformation."""
        ...

    def frame(self, spark: SparkSession, columns: Sequence[str] | None) -> DataFrame:
        """A fresh DataFrame of these columns; None for all: the reserved ones, the key's and the value's."""
        ...

    def halves(self) -> tuple[Rows, Rows]:
        """The first and the second half."""
        ...

    def without(self, records: Collection[RawRecord]) -> Rows:
        """The same less these records."""
        ...

    def without_partitions(self, partitions: Collection[int]) -> Rows:
        """The same less every row of these partitions."""
        ...

    def first(self) -> RawRecord:
        """The raw record of the first row."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read brought. `starts` and `ends` (the next offsets) name every partition that it touched."""

    rows: Rows
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    records: int
    rejected: tuple[Rejected, ...] = ()
    tombstones: int = 0
    is_full: bool = False
    """Whether the limit ended it: more may be waiting."""
    read_seconds: float = 0.0
    """How long reading took where it is work; waiting for a first record isn't."""


class RecordSource(Protocol):
    """What a loop reads from."""

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        """Go on reading these partitions, each from its offset."""
        ...

    def unassign(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions."""
        ...

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read again from these offsets."""
        ...

    def read(self, limit: int, wait_seconds: float) -> Batch | None:
        """Take what is there, up to `limit` records; wait only for the first. Raises OffsetOutOfRangeError."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


class OffsetOutOfRangeError(Exception):
    """A partition's next record is no longer in the log."""

    def __init__(self, topic: str, partition: int, message: str) -> None:
        super().__init__(f"{topic}-{partition}: {message}")
        self.topic = topic
        self.partition = partition
