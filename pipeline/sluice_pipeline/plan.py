"""The compiled pipeline: what the DSL hands to the engine. Plain data, apart from the user's own functions.

Each output is a linear chain of row-wise transformations from its parent's rows, then a terminal: a topic, or a store.
A store has outputs of its own, which read its *updates*: one row per changed key and batch. A change of key ends a
subtopology: the rows go to a repartition topic, and another subtopology reads that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice_protocol.ids import dead_letter_topic
from sluice_protocol.topology import Subtopology, TopologyDescription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESERVED = ("_key", "_partition", "_offset", "_timestamp")
"""The columns that every frame has besides its own: binary, int, bigint, bigint (ms since the epoch)."""

DEAD_LETTER = "dead-letter"
STOP = "stop"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a key or a value. `type` is one of Spark's simple names (see `schemas.TYPES`)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of a store. `type` is the type of the column that it reads ("bigint" for count)."""

    name: str
    function: str
    """count, sum, min, max or avg."""
    column: str | None
    """None only for count(): every row counts."""
    type: str

    @property
    def output(self) -> Column:
        """The column that readers of the store see."""
        if self.function == "avg" or (self.function == "sum" and self.type in ("float", "double")):
            return Column(self.name, "double")
        return Column(self.name, "bigint" if self.function in ("count", "sum") else self.type)


@dataclass(frozen=True, slots=True)
class Source:
    """What a subtopology reads. The key columns are decoded from the record's key, the others from its value."""

    topics: tuple[str, ...]
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    offset_reset: str
    """earliest, latest or error: where to start without a committed offset, or when it is out of range."""
    repartition: bool
    node: str = field(default="", compare=False)
    """Its name in `describe`."""


@dataclass(frozen=True, slots=True, eq=False)
class Transformation:
    """The user's row-wise DataFrame code, and the line that it comes from ("orders.py:12").

    Equal only to itself: two calls of `transform` are two transformations, whatever they were given.
    """

    function: Callable[[DataFrame], DataFrame]
    where: str


@dataclass(frozen=True, slots=True)
class ToTopic:
    """Rows become records of a topic. `key` None keeps the record's own `_key`."""

    topic: str
    transformations: tuple[Transformation, ...]
    key: tuple[Column, ...] | None
    value: tuple[Column, ...]
    repartition: bool
    nodes: tuple[str, ...] = field(default=(), compare=False)
    """The names in `describe` of all nodes from the parent (without it) to this one; a shared start is shared nodes."""


@dataclass(frozen=True, slots=True)
class ToStore:
    """Rows are aggregated by the record's key into a store. `key` are the columns whose bytes `_key` is."""

    store: str
    changelog: str
    transformations: tuple[Transformation, ...]
    key: tuple[Column, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[ToTopic | ToStore, ...]
    nodes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its updates, besides the reserved ones."""
        return self.key + tuple(aggregate.output for aggregate in self.aggregates)


Output = ToTopic | ToStore


@dataclass(frozen=True, slots=True)
class SubtopologyPlan:
    """One subtopology: a source and what becomes of its rows."""

    id: int
    source: Source
    outputs: tuple[Output, ...]

    def all_outputs(self) -> Iterator[Output]:
        """Every output, those of stores included, parents before children."""
        return _walk(self.outputs)

    def stores(self) -> tuple[ToStore, ...]:
        """Every store of this subtopology."""
        return tuple(output for output in self.all_outputs() if isinstance(output, ToStore))


@dataclass(frozen=True, slots=True)
class TopologyPlan:
    """The whole application. `on_error` says what becomes of a record that can't be processed."""

    application_id: str
    subtopologies: tuple[SubtopologyPlan, ...]
    on_error: str
    """dead-letter or stop."""

    def description(self) -> TopologyDescription:
        """What the coordinator needs to know of it."""
        return TopologyDescription(
            self.application_id,
            tuple(map(_describe, self.subtopologies)),
            dead_letter_topic(self.application_id) if self.on_error == DEAD_LETTER else None,
        )


def _walk(outputs: tuple[Output, ...]) -> Iterator[Output]:
    for output in outputs:
        yield output
        if isinstance(output, ToStore):
            yield from _walk(output.outputs)


def _describe(plan: SubtopologyPlan) -> Subtopology:
    source, outputs = plan.source, list(plan.all_outputs())
    sinks = [output for output in outputs if isinstance(output, ToTopic)]
    changelogs = tuple(output.changelog for output in outputs if isinstance(output, ToStore))
    return Subtopology(
        plan.id,
        source_topics=() if source.repartition else source.topics,
        repartition_source_topics=source.topics if source.repartition else (),
        changelog_topics=changelogs,
        repartition_sink_topics=_unique(sink.topic for sink in sinks if sink.repartition),
        sink_topics=_unique(sink.topic for sink in sinks if not sink.repartition),
        copartitioned=(source.topics,) if changelogs and len(source.topics) > 1 else (),
    )


def _unique(topics: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(topics))
