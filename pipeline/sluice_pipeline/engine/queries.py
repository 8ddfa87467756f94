"""What Spark is asked about a batch: one query for all outputs of one kind that have the same transformations.

Planning, not rows, is what a small batch costs, so that outputs share queries. The columns of a query are made once,
because each of them costs several calls through the gateway (20 of 65 ms for one store with two aggregates).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from sluice_pipeline.codecs.keys import key_expression
from sluice_pipeline.codecs.state import StateLayout
from sluice_pipeline.plan import Output, ToStore, ToTopic, Transformation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TASK_AND_KEY = ("_partition", "_key")


class Query(Protocol):
    """One Spark query, over rows to which its transformations have been applied."""

    @property
    def transformations(self) -> tuple[Transformation, ...]:
        """What the outputs have in common."""
        ...

    def over(self, frame: DataFrame) -> DataFrame:
        """The query."""
        ...

    def results(self, table: pa.Table) -> Iterator[tuple[Output, pa.Table]]:
        """What it found, for each output by itself."""
        ...


class PartialAggregates:
    """For stores: one row a partition and key, with the partial aggregates that `StateLayout.merge` reads."""

    def __init__(self, stores: Sequence[ToStore], layouts: Mapping[str, StateLayout]) -> None:
        self.transformations = stores[0].transformations
        self._stores = stores
        self._partials = [layouts[store.store].partials() for store in stores]
        self._columns = _prefixed(self._partials)
        self._keys = [F.col(name) for name in _TASK_AND_KEY]

    def over(self, frame: DataFrame) -> DataFrame:
        return frame.groupBy(*self._keys).agg(*self._columns)

    def results(self, table: pa.Table) -> Iterator[tuple[Output, pa.Table]]:
        shared = {name: table.column(name) for name in _TASK_AND_KEY}
        for index, (store, partials) in enumerate(zip(self._stores, self._partials, strict=True)):
            yield store, pa.table({**shared, **_of(table, index, partials)})


class Projections:
    """For topics: the encoded key and value of every row."""

    def __init__(self, topics: Sequence[ToTopic]) -> None:
        self.transformations = topics[0].transformations
        self._topics = topics
        self._records = [_record(topic) for topic in topics]
        self._columns = [*_prefixed(self._records), F.col("_timestamp")]

    def over(self, frame: DataFrame) -> DataFrame:
        return frame.select(*self._columns)

    def results(self, table: pa.Table) -> Iterator[tuple[Output, pa.Table]]:
        for index, (topic, record) in enumerate(zip(self._topics, self._records, strict=True)):
            yield topic, pa.table({**_of(table, index, record), "_timestamp": table.column("_timestamp")})


def queries(outputs: Sequence[Output], layouts: Mapping[str, StateLayout]) -> list[Query]:
    """As few queries as serve all outputs."""
    stores: dict[tuple[Transformation, ...], list[ToStore]] = {}
    topics: dict[tuple[Transformation, ...], list[ToTopic]] = {}
    for output in outputs:
        if isinstance(output, ToStore):
            stores.setdefault(output.transformations, []).append(output)
        else:
            topics.setdefault(output.transformations, []).append(output)
    return [
        *(PartialAggregates(group, layouts) for group in stores.values()),
        *(Projections(group) for group in topics.values()),
    ]


def _record(topic: ToTopic) -> dict[str, Column]:
    key = F.col("_key") if topic.key is None else key_expression(topic.key)
    options = {"ignoreNullFields": "true" if topic.repartition else "false"}
    value = F.to_json(F.struct(*[column.name for column in topic.value]), options)
    return {"key": key, "value": value.cast("binary")}


def _prefixed(columns: Sequence[Mapping[str, Column]]) -> list[Column]:
    return [column.alias(f"{index}{name}") for index, named in enumerate(columns) for name, column in named.items()]


def _of(table: pa.Table, index: int, columns: Mapping[str, Column]) -> dict[str, pa.ChunkedArray]:
    return {name: table.column(f"{index}{name}") for name in columns}
