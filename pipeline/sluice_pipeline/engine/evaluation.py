"""From the rows of a batch to what is to be written: a few Spark queries, then the merge into keyed state.

Everything is computed before the transaction begins, so that a long job holds none open. If a job fails, the rows on
which it fails are found by halving, set aside as rejected, and the rest is computed again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sluice_pipeline.arrow_frames import to_frame, to_table
from sluice_pipeline.codecs.json_values import encode_values
from sluice_pipeline.codecs.keys import decode_keys
from sluice_pipeline.codecs.state import StateLayout
from sluice_pipeline.engine.failures import FAILURES, is_of_rows, reason
from sluice_pipeline.engine.queries import Query, queries
from sluice_pipeline.plan import Column, Output, SubtopologyPlan, ToStore, ToTopic, Transformation
from sluice_pipeline.schemas import arrow_schema
from sluice_pipeline.source.batch import Rejected, Rows
from sluice_pipeline.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_BATCH = 10_000
"""Below this many rows one Spark partition is faster than a shuffle (-9 to -30 ms)."""

MAX_REJECTED = 1_000
"""More failing rows than this in one batch is not bad data but a bad transformation."""

_NO_PARTITION = -1

Stores = Mapping[int, Mapping[str, Store]]
"""Open stores by partition (of the task) and name."""


class TransformationFailingError(Exception):
    """The user's transformation fails on so many rows that it isn't the rows."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records for one topic; `partition` None lets the partitioner choose by key."""

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class StoreUpdate:
    """New values of one store of one task, in order of the key."""

    partition: int
    store: str
    changelog: str
    keys: Sequence[bytes]
    values: Sequence[bytes]


@dataclass(slots=True)
class Outcome:
    """Everything that a batch leads to."""

    records: list[Records] = field(default_factory=list)
    updates: list[StoreUpdate] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    null_keys: int = 0


class Evaluation:
    """Evaluates the batches of one subtopology."""

    def __init__(self, spark: SparkSession, plan: SubtopologyPlan) -> None:
        self._spark = spark
        self._plan = plan
        self._layouts = {store.store: StateLayout(store.aggregates) for store in plan.stores()}
        self._columns = _needed_columns(plan)
        self._queries = queries(plan.outputs, self._layouts)
        self._below = {
            store.store: queries([output for output in store.outputs if not _is_plain(output)], self._layouts)
            for store in plan.stores()
        }

    def warm_up(self, rounds: int) -> None:
        """Run every query so many times, so that the first real batch isn't the slow one (0.9 s on two busy cores).

        Spark is given a row and filters it out before the user's transformations, which must not be run on made-up
        data. What they raise while the query is built they will raise again when there are rows to be told with it.
        """
        source = _no_row((*self._plan.source.key, *self._plan.source.value))
        tables = [(self._queries, source if self._columns is None else source.select(list(self._columns)))]
        tables += [(self._below[store.store], _no_row(store.columns)) for store in self._plan.stores()]
        for wanted, table in tables * rounds:
            for query in wanted:
                with contextlib.suppress(*FAILURES):
                    frame = to_frame(self._spark, table).where(f"_partition > {_NO_PARTITION}")
                    _asked([query], frame.coalesce(1))

    def evaluate(self, rows: Rows, stores: Stores) -> Outcome:
        """Compute a batch. Raises TransformationFailingError, StoreError, StateEncodingError."""
        outcome = Outcome()
        if not rows.count:
            return outcome
        try:
            results = self._run(rows)
        except FAILURES as error:
            if not is_of_rows(error):
                raise
            outcome.rejected = self._find_rejected(rows)
            results = self._run(rows.without([rejected.record for rejected in outcome.rejected]))
        for output, table in results:
            self._finish(output, table, stores, outcome)
        return outcome

    def _run(self, rows: Rows) -> list[tuple[Output, pa.Table]]:
        frame = rows.frame(self._spark, self._columns)
        return _asked(self._queries, frame.coalesce(1) if rows.count <= SMALL_BATCH else frame)

    def _find_rejected(self, rows: Rows) -> list[Rejected]:
        found: list[Rejected] = []
        parts = [rows]
        while parts:
            part = parts.pop()
            try:
                self._run(part)
            except FAILURES as error:
                if not is_of_rows(error):
                    raise
                if part.count == 1:
                    found.append(Rejected(part.first(), reason(error)))
                else:
                    parts += reversed(part.halves())
            if len(found) > MAX_REJECTED:
                raise TransformationFailingError(
                    f"the transformation fails on more than {MAX_REJECTED} of {rows.count} records, last at "
                    f"{found[-1].record.topic}-{found[-1].record.partition} offset {found[-1].record.offset}: "
                    f"{found[-1].reason}"
                )
        return found

    def _finish(self, output: Output, table: pa.Table, stores: Stores, outcome: Outcome) -> None:
        if isinstance(output, ToStore):
            self._merge(output, table, stores, outcome)
        else:
            _to_topic(output, table, outcome)

    def _merge(self, output: ToStore, table: pa.Table, stores: Stores, outcome: Outcome) -> None:
        known = table.filter(table.column("_key").is_valid())
        layout = self._layouts[output.store]
        counted = table.column(StateLayout.ROWS)
        outcome.null_keys += int(pa.compute.sum(counted).as_py() or 0)
        outcome.null_keys -= int(pa.compute.sum(known.column(StateLayout.ROWS)).as_py() or 0)
        if not known.num_rows:
            return
        known = known.sort_by([("_partition", "ascending"), ("_key", "ascending")]).combine_chunks()
        partitions = known.column("_partition").to_numpy()
        keys = _to_bytes(known.column("_key"))
        for partition in np.unique(partitions):
            start, end = (int(np.searchsorted(partitions, partition, side)) for side in ("left", "right"))
            of_task = keys[start:end]
            merged = layout.merge(
                stores[int(partition)][output.store].get(of_task), known.slice(start, end - start), output.store
            )
            outcome.updates.append(
                StoreUpdate(int(partition), output.store, output.changelog, of_task, layout.encode(merged))
            )
            if output.outputs:
                self._pass_on(output, int(partition), of_task, layout, merged, stores, outcome)

    def _pass_on(
        self, output: ToStore, partition: int, keys: list[bytes], layout: StateLayout, merged: np.ndarray,
        stores: Stores, outcome: Outcome,
    ) -> None:  # fmt: skip
        """Send a store's updates down its outputs."""
        columns = {**_named(decode_keys(keys, output.key).table), **layout.results(merged)}
        timestamps = layout.timestamps(merged)
        for below in output.outputs:
            if isinstance(below, ToTopic) and _is_plain(below):
                chosen = {column.name: columns[column.name] for column in below.value}
                outcome.records.append(Records(below.topic, keys, encode_values(chosen), timestamps))
        if wanted := self._below[output.store]:
            frame = to_frame(self._spark, _updates_table(columns, keys, partition, timestamps))
            frame = frame.coalesce(1) if len(keys) <= SMALL_BATCH else frame
            for below, table in _asked(wanted, frame):
                self._finish(below, table, stores, outcome)


def _asked(wanted: Iterable[Query], frame: DataFrame) -> list[tuple[Output, pa.Table]]:
    """Run the queries over the rows; transformations that several have in common are written once."""
    frames: dict[tuple[Transformation, ...], DataFrame] = {}
    found: list[tuple[Output, pa.Table]] = []
    for query in wanted:
        if query.transformations not in frames:
            frames[query.transformations] = _transformed(frame, query.transformations)
        found += query.results(to_table(query.over(frames[query.transformations])))
    return found


def _is_plain(output: Output) -> bool:
    """Whether a store's updates go to a topic just as they are, which needs no Spark."""
    return isinstance(output, ToTopic) and output.key is None and not output.transformations


def _transformed(frame: DataFrame, transformations: Iterable[Transformation]) -> DataFrame:
    for transformation in transformations:
        frame = transformation.function(frame)
    return frame


def _needed_columns(plan: SubtopologyPlan) -> tuple[str, ...] | None:
    """The columns that Spark must see; None (all) where the user's own code may look at any."""
    needed = {"_partition", "_key", "_timestamp"}
    for output in plan.outputs:
        if output.transformations:
            return None
        if isinstance(output, ToStore):
            needed |= {aggregate.column for aggregate in output.aggregates if aggregate.column is not None}
        else:
            needed |= {column.name for column in (*(output.key or ()), *output.value)}
    return tuple(sorted(needed))


def _to_topic(output: ToTopic, table: pa.Table, outcome: Outcome) -> None:
    keyed = output.key is not None
    if keyed:
        known = table.filter(table.column("key").is_valid())
        outcome.null_keys += table.num_rows - known.num_rows
        table = known
    outcome.records.append(
        Records(
            output.topic,
            _to_bytes(table.column("key")),
            _to_bytes(table.column("value")),
            table.column("_timestamp").to_pylist(),
        )
    )


def _no_row(columns: Iterable[Column]) -> pa.Table:
    """A row that is of no task."""
    reserved = [("_key", pa.binary()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("_timestamp", pa.int64())]
    schema = pa.schema([*starmap(pa.field, reserved), *arrow_schema(columns)])
    return pa.Table.from_pylist([{"_partition": _NO_PARTITION}], schema=schema)


def _updates_table(
    columns: Mapping[str, pa.ChunkedArray | pa.Array], keys: list[bytes], partition: int, timestamps: Sequence[int]
) -> pa.Table:
    count = len(keys)
    return pa.table(
        {
            "_key": pa.array(keys, pa.binary()),
            "_partition": np.full(count, partition, dtype=np.int32),
            "_offset": np.full(count, -1, dtype=np.int64),  # an update has no offset of its own
            "_timestamp": np.array(timestamps, dtype=np.int64),
            **columns,
        }
    )


def _named(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table.column(name) for name in table.column_names}


def _to_bytes(column: pa.ChunkedArray) -> list[bytes]:
    """The fastest way from Arrow to Python bytes (0.04 µs each)."""
    return column.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
