"""The value of a key in a store and in its changelog, version 1, and how a batch is merged into it.

    byte 0       version = 1
    bytes 1–8    the newest timestamp of the key's records (ms since the epoch)
    then for each aggregate, in order of its declaration:
      1 byte     1 if it has a value, 0 if not (a sum of nothing but nulls is null); then all its bytes are 0
      8 bytes    count; sum, min and max of int and bigint: two's complement
                 sum, min and max of float and double: IEEE 754
                 min and max of date: days since the epoch; of timestamp: microseconds since the epoch
      16 bytes   avg: its sum (IEEE 754), then its count

All big-endian. This layout is what a numpy record has in memory, so that a batch is read and written in one piece.

Sums of integers wrap around as Java's long does. That is why a batch's sum of bigints leaves Spark in two halves,
which can't overflow there. NaN is greater than every number, as in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sluice_pipeline.plan import Aggregate
from sluice_pipeline.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

VERSION = 1

States = np.ndarray[Any, Any]
"""One record a key, as it is stored (see `StateLayout.dtype`)."""

_NO_TIMESTAMP = np.iinfo(np.int64).min
_HALF = 32
_TIMESTAMP = "#timestamp"
_AMOUNT = ">i8"
_REAL = ">f8"


class StateEncodingError(ValueError):
    """A stored value isn't of this layout: another version of Sluice, or other aggregates, wrote it."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """One aggregate's place in the record, and its partial columns."""

    aggregate: Aggregate
    index: int

    @property
    def valid(self) -> str:
        return f"{self.index}.valid"

    @property
    def value(self) -> str:
        return f"{self.index}.value"

    @property
    def count(self) -> str:
        return f"{self.index}.count"

    @property
    def partial(self) -> str:
        return f"#{self.index}"

    @property
    def partial_low(self) -> str:
        return f"#{self.index}.low"

    @property
    def partial_count(self) -> str:
        return f"#{self.index}.count"

    @property
    def is_real(self) -> bool:
        return self.aggregate.function == "avg" or (
            self.aggregate.function != "count" and self.aggregate.type in ("float", "double")
        )

    @property
    def is_split(self) -> bool:
        """Whether the batch's sum comes in two halves."""
        return self.aggregate.function == "sum" and self.aggregate.type == "bigint"

    def fields(self) -> list[tuple[str, str]]:
        fields = [(self.valid, "u1"), (self.value, _REAL if self.is_real else _AMOUNT)]
        return [*fields, (self.count, _AMOUNT)] if self.aggregate.function == "avg" else fields


class StateLayout:
    """The layout of one store's values. Everything works on whole batches."""

    ROWS = "#rows"
    """The partial column that counts the rows behind each key."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._cells = [_Cell(aggregate, index) for index, aggregate in enumerate(aggregates)]
        fields = [field for cell in self._cells for field in cell.fields()]
        self.dtype = np.dtype([("version", "u1"), ("timestamp", _AMOUNT), *fields])
        absent = np.zeros(1, self.dtype)
        absent["version"] = VERSION
        absent["timestamp"] = _NO_TIMESTAMP
        self._absent = absent.tobytes()

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return self.dtype.itemsize

    def partials(self) -> dict[str, SparkColumn]:
        """What to aggregate in Spark, grouped by key: the columns that `merge` reads, by name."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - restorers decode state without PySpark

        columns = {_TIMESTAMP: F.max("_timestamp"), self.ROWS: F.count(F.lit(1))}
        for cell in self._cells:
            columns |= _partials(cell)
        return columns

    def decode(self, values: Sequence[bytes | None], store: str) -> States:
        """The stored values as records; where there is none, an empty one. Raises StateEncodingError."""
        absent = self._absent
        stored = [absent if value is None else value for value in values]
        widths = set(map(len, stored)) - {self.width}
        if widths:
            raise StateEncodingError(
                f"store {store}: a value is {min(widths)} bytes long and must be {self.width}; its aggregates were "
                "changed after it was written. Give the store another name, or delete its changelog and start again"
            )
        states = np.frombuffer(b"".join(stored), self.dtype)
        unknown = states["version"] != VERSION
        if unknown.any():
            raise StateEncodingError(
                f"store {store}: a value has encoding version {int(states['version'][unknown][0])} and this is Sluice "
                f"with version {VERSION}; run the version of Sluice that wrote it"
            )
        return states

    def merge(self, old: Sequence[bytes | None], delta: pa.Table, store: str) -> States:
        """The stored values with a batch's partial aggregates (one row a key, in the same order) merged in.

        Raises StateEncodingError.
        """
        before = self.decode(old, store)
        after = before.copy()
        after["timestamp"] = np.maximum(before["timestamp"], _filled(delta, _TIMESTAMP, _NO_TIMESTAMP)[0])
        with np.errstate(over="ignore", invalid="ignore"):
            for cell in self._cells:
                _merge_cell(cell, before, after, delta)
        return after

    def encode(self, states: States) -> list[bytes]:
        """The values to store."""
        return np.ascontiguousarray(states).view(f"V{self.width}").tolist()  # type: ignore[no-any-return]

    def timestamps(self, states: States) -> list[int]:
        """The newest timestamp of each key."""
        return states["timestamp"].tolist()  # type: ignore[no-any-return]

    def results(self, states: States) -> dict[str, pa.Array]:
        """What readers of the store see: one column an aggregate, null where it has no value."""
        return {
            cell.aggregate.name: _result(cell, states, kind)
            for cell, kind in zip(self._cells, self.result_types().values(), strict=True)
        }

    def result_types(self) -> dict[str, pa.DataType]:
        """The Arrow types of `results`."""
        schema = arrow_schema(cell.aggregate.output for cell in self._cells)
        return {field.name: field.type for field in schema}


def _partials(cell: _Cell) -> dict[str, SparkColumn]:
    """One aggregate's partial columns, all bigint or double."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    function, column = cell.aggregate.function, cell.aggregate.column
    if column is None:
        return {cell.partial: F.count(F.lit(1))}
    value = F.col(f"`{column}`")
    if function == "count":
        return {cell.partial: F.count(value)}
    if function == "avg":
        return {cell.partial: F.sum(value.cast("double")), cell.partial_count: F.count(value)}
    if cell.is_split:
        high, low = F.shiftright(value, _HALF), value.bitwiseAND(F.lit((1 << _HALF) - 1))
        return {cell.partial: F.sum(high), cell.partial_low: F.sum(low)}
    if function == "sum":
        return {cell.partial: F.sum(value.cast("double" if cell.is_real else "bigint"))}
    extreme = F.min(value) if function == "min" else F.max(value)
    return {cell.partial: _as_stored(extreme, cell.aggregate.type)}


def _as_stored(value: SparkColumn, kind: str) -> SparkColumn:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    if kind == "date":
        return F.unix_date(value).cast("bigint")
    if kind == "timestamp":
        return F.unix_micros(value)
    return value.cast("double" if kind in ("float", "double") else "bigint")


def _merge_cell(cell: _Cell, before: States, after: States, delta: pa.Table) -> None:
    """Merge one aggregate: where only one side has a value it is taken, where both have one they are combined."""
    added, has_added = _filled(delta, cell.partial, 0)
    if cell.is_split:
        low, _ = _filled(delta, cell.partial_low, 0)
        added = (added << _HALF) + low
    had = before[cell.valid] != 0
    old = before[cell.value]
    function = cell.aggregate.function
    if function in ("count", "sum", "avg"):
        after[cell.value] = old + added  # what has no value is 0
    else:
        extreme = np.fmin if function == "min" else np.maximum  # so that NaN is the greatest
        after[cell.value] = np.where(had & has_added, extreme(old, added), np.where(has_added, added, old))
    if function == "avg":
        after[cell.count] = before[cell.count] + _filled(delta, cell.partial_count, 0)[0]
    after[cell.valid] = had | has_added


def _filled(delta: pa.Table, name: str, missing: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A partial column with its nulls filled, and where it had a value."""
    column = delta.column(name).combine_chunks()
    if column.null_count == 0:
        return column.to_numpy(), np.ones(len(column), np.bool_)
    return column.fill_null(missing).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False)


def _result(cell: _Cell, states: States, kind: pa.DataType) -> pa.Array:
    missing = states[cell.valid] == 0
    values = states[cell.value]
    values = values.astype(values.dtype.newbyteorder("="))
    if cell.aggregate.function == "avg":
        values = values / np.maximum(states[cell.count], 1)
    mask = missing if missing.any() else None
    if pa.types.is_date(kind):
        return pa.array(values.astype(np.int32), pa.int32(), mask=mask).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int64(), mask=mask).cast(kind)
    return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=mask)
