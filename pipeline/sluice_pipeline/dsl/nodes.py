"""What the user has declared, call by call, each with its line. Compared by identity; compiled by `compile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice_pipeline.dsl.aggregates import AggregateCall
from sluice_pipeline.plan import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RowWise = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, slots=True, eq=False)
class StreamNode:
    """Records of topics."""

    where: str
    topics: tuple[str, ...]
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    offset_reset: str


@dataclass(frozen=True, slots=True, eq=False)
class TransformNode:
    """Row-wise DataFrame code. `prefix` is the kind of node that Kafka Streams would make of it."""

    where: str
    parent: RowsNode
    function: RowWise
    prefix: str


@dataclass(frozen=True, slots=True, eq=False)
class GroupNode:
    """Rows by key. `name` names the repartition topic that its aggregates share, if one is needed."""

    where: str
    parent: RowsNode
    columns: tuple[str, ...]
    name: str | None


@dataclass(frozen=True, slots=True, eq=False)
class StoreNode:
    """Aggregates of a group, kept in a store."""

    where: str
    parent: GroupNode
    store: str
    aggregates: dict[str, AggregateCall]


@dataclass(frozen=True, slots=True, eq=False)
class UpdatesNode:
    """The updates of a store, as rows."""

    where: str
    parent: StoreNode


@dataclass(frozen=True, slots=True, eq=False)
class SinkNode:
    """Rows to a topic, with the record's own key or one made of columns."""

    where: str
    parent: RowsNode
    topic: str
    key: tuple[str, ...] | None


RowsNode = StreamNode | TransformNode | UpdatesNode
Node = RowsNode | GroupNode | StoreNode | SinkNode
