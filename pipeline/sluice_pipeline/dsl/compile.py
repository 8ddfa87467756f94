"""From what was declared to the plan: subtopologies, internal topics, and the names that Kafka Streams would give.

Nodes are numbered in the order of their declaration, and with the gaps that Kafka Streams leaves, so that
`describe` looks the same for the same pipeline. Subtopologies are numbered in the order of their sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sluice_pipeline.dsl.aggregates import AggregateCall
from sluice_pipeline.dsl.errors import TopologyError
from sluice_pipeline.dsl.nodes import (
    GroupNode,
    Node,
    RowsNode,
    SinkNode,
    StoreNode,
    StreamNode,
    TransformNode,
    UpdatesNode,
)
from sluice_pipeline.dsl.rowwise import Probe, no_rows, transformed
from sluice_pipeline.plan import (
    DEAD_LETTER,
    Aggregate,
    Column,
    Output,
    Source,
    SubtopologyPlan,
    TopologyPlan,
    ToStore,
    ToTopic,
    Transformation,
)
from sluice_pipeline.schemas import NUMERIC, TYPES, check_names, key_problem
from sluice_protocol.ids import changelog_topic, dead_letter_topic, repartition_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_READABLE = {"sum": NUMERIC, "avg": NUMERIC, "min": (*NUMERIC, "date", "timestamp"), "count": TYPES}
_READABLE["max"] = _READABLE["min"]


def compile_topology(
    application_id: str, on_error: str, nodes: Sequence[Node], spark: SparkSession | None
) -> TopologyPlan:
    """The plan of everything declared. Raises TopologyError naming the line of the first mistake."""
    compiler = _Compiler(application_id, on_error, spark)
    for node in nodes:
        compiler.add(node)
    return compiler.finish()


@dataclass(slots=True)
class _SubtopologyDraft:
    """A subtopology as far as it is known; a repartition source learns its columns while it is used."""

    where: str
    source: Source
    rows: _Rows
    outputs: list[_Draft] = field(default_factory=list)


@dataclass(slots=True)
class _TopicDraft:
    output: ToTopic
    fed: _SubtopologyDraft | None = None
    """The subtopology that reads it, when it is a repartition topic."""


@dataclass(slots=True)
class _StoreDraft:
    output: ToStore
    outputs: list[_Draft] = field(default_factory=list)


_Draft = _TopicDraft | _StoreDraft


@dataclass(frozen=True, slots=True)
class _Rows:
    """What flows out of a node, and how it came there from its root (a source, or a store)."""

    outputs: list[_Draft]
    """The root's outputs: what is made of these rows goes there."""
    root: tuple[Column, ...]
    key: tuple[Column, ...]
    """The columns of which the records' key is made."""
    types: Mapping[str, str]
    origins: Mapping[str, str]
    transformations: tuple[Transformation, ...] = ()
    path: tuple[str, ...] = ()
    probe: Probe | None = None


class _Compiler:
    """Takes nodes in order of their declaration, so that parents come before children."""

    def __init__(self, application_id: str, on_error: str, spark: SparkSession | None) -> None:
        self._application_id = application_id
        self._on_error = on_error
        self._spark = spark
        self._numbered = 0
        self._subtopologies: list[_SubtopologyDraft] = []
        self._rows: dict[RowsNode, _Rows] = {}
        self._stores: dict[StoreNode, _StoreDraft] = {}
        self._key_selects: dict[GroupNode, str] = {}
        self._shared: dict[GroupNode, _SubtopologyDraft] = {}
        self._used: dict[tuple[str, str], str] = {}
        self._external: list[tuple[str, str]] = []

    def add(self, node: Node) -> None:
        """Compile one more node."""
        match node:
            case StreamNode():
                self._rows[node] = self._stream(node)
            case TransformNode():
                self._rows[node] = self._transform(node)
            case UpdatesNode():
                self._rows[node] = self._updates(node)
            case GroupNode():
                self._group(node)
            case StoreNode():
                self._store(node)
            case SinkNode():
                self._sink(node)

    def finish(self) -> TopologyPlan:
        """The plan of all nodes that were added."""
        if not self._subtopologies:
            raise TopologyError(self._application_id, "the topology has no stream; begin with app.stream(topic, …)")
        for draft in self._subtopologies:
            if not draft.outputs:
                raise TopologyError(
                    draft.where,
                    f"the stream of {', '.join(draft.source.topics)} leads nowhere; end it with .to(topic) or "
                    ".group_by(…).aggregate(…), or remove it",
                )
        plan = TopologyPlan(
            self._application_id,
            tuple(
                SubtopologyPlan(index, draft.source, _finished(draft.outputs))
                for index, draft in enumerate(self._subtopologies)
            ),
            self._on_error,
        )
        self._check_external(plan)
        return plan

    def _stream(self, node: StreamNode) -> _Rows:
        for topic in node.topics:
            _check_topic(node.where, topic)
            self._use(node.where, "topic", topic, "is read by a stream already; use that stream again")
            self._external.append((topic, node.where))
        name = self._name("KSTREAM-SOURCE")
        source = Source(node.topics, node.key, node.value, node.offset_reset, repartition=False, node=name)
        return self._subtopology(node.where, source).rows

    def _subtopology(self, where: str, source: Source) -> _SubtopologyDraft:
        outputs: list[_Draft] = []
        columns = source.key + source.value
        rows = _Rows(outputs, columns, source.key, *_as_declared(columns))
        draft = _SubtopologyDraft(where, source, rows, outputs)
        self._subtopologies.append(draft)
        return draft

    def _transform(self, node: TransformNode) -> _Rows:
        rows = self._rows[node.parent]
        transformation = Transformation(node.function, node.where)
        probe = transformed(rows.probe or no_rows(self._session(), rows.root), transformation)
        return replace(
            rows,
            types=probe.types,
            origins=probe.origins,
            transformations=(*rows.transformations, transformation),
            path=(*rows.path, self._name(node.prefix)),
            probe=probe,
        )

    def _session(self) -> SparkSession:
        if self._spark is None:
            from pyspark.sql import SparkSession as Session  # noqa: PLC0415 - only transformations need PySpark

            self._spark = Session.builder.getOrCreate()
        return self._spark

    def _updates(self, node: UpdatesNode) -> _Rows:
        draft = self._stores[node.parent]
        store = draft.output
        return _Rows(
            draft.outputs, store.columns, store.key, *_as_declared(store.columns), path=(self._name("KTABLE-TOSTREAM"),)
        )

    def _group(self, node: GroupNode) -> None:
        rows = self._rows[node.parent]
        key = _columns(node.where, "group_by", node.columns, rows)
        problem = key_problem(key)
        if problem is not None:
            raise TopologyError(node.where, problem)
        if not _is_own_key(key, rows):
            number = self._name("KSTREAM-KEY-SELECT")
            self._key_selects[node] = node.name or number

    def _store(self, node: StoreNode) -> None:
        rows = self._rows[node.parent.parent]
        key = _columns(node.parent.where, "group_by", node.parent.columns, rows)
        aggregates = tuple(_aggregate(node, name, call, rows) for name, call in node.aggregates.items())
        _check_columns(node.where, [*key, *(aggregate.output for aggregate in aggregates)])
        changelog = changelog_topic(self._application_id, node.store)
        _check_topic(node.where, changelog)
        self._use(node.where, "store", node.store, "is the name of another store already; each needs its own")
        aggregate_name = self._name("KSTREAM-AGGREGATE")
        if node.parent in self._key_selects:
            rows = self._repartitioned(node, rows, key, aggregates)
        output = ToStore(
            node.store, changelog, rows.transformations, key, aggregates, (), (*rows.path, aggregate_name)
        )  # fmt: skip
        draft = _StoreDraft(output)
        rows.outputs.append(draft)
        self._stores[node] = draft

    def _repartitioned(
        self, node: StoreNode, rows: _Rows, key: tuple[Column, ...], aggregates: Iterable[Aggregate]
    ) -> _Rows:
        """The same rows behind a repartition topic, which carries what the aggregates read and nothing else."""
        self._numbered += 3  # Kafka Streams counts sink, filter and source, and then names them after the topic
        read = {aggregate.column for aggregate in aggregates} - {column.name for column in key}
        draft = self._shared.get(node.parent) or self._repartition(node, rows, key)
        if node.parent.name is not None:
            self._shared[node.parent] = draft
        carried = {column.name for column in draft.source.value} | read
        value = tuple(Column(name, kind) for name, kind in rows.types.items() if name in carried)
        draft.source = replace(draft.source, value=value)
        return draft.rows

    def _repartition(self, node: StoreNode, rows: _Rows, key: tuple[Column, ...]) -> _SubtopologyDraft:
        name = node.parent.name or node.store
        where = node.where if node.parent.name is None else node.parent.where
        topic = repartition_topic(self._application_id, name)
        _check_topic(where, topic)
        self._use(where, "repartition topic", name, "is the name of another repartition topic already")
        source = Source((topic,), key, (), "earliest", repartition=True, node=f"{name}-repartition-source")
        draft = self._subtopology(where, source)
        path = (self._key_selects[node.parent], f"{name}-repartition-filter", f"{name}-repartition-sink")
        sink = ToTopic(topic, rows.transformations, key, (), repartition=True, nodes=(*rows.path, *path))
        rows.outputs.append(_TopicDraft(sink, draft))
        return draft

    def _sink(self, node: SinkNode) -> None:
        rows = self._rows[node.parent]
        _check_topic(node.where, node.topic)
        self._external.append((node.topic, node.where))
        key, path = None, rows.path
        if node.key is not None:
            key = _columns(node.where, "key", node.key, rows)
            problem = key_problem(key)
            if problem is not None:
                raise TopologyError(node.where, problem)
            path = (*path, self._name("KSTREAM-KEY-SELECT"))
        value = _sink_value(node, key, rows)
        path = (*path, self._name("KSTREAM-SINK"))
        output = ToTopic(node.topic, rows.transformations, key, value, repartition=False, nodes=path)
        rows.outputs.append(_TopicDraft(output))

    def _name(self, prefix: str) -> str:
        number, self._numbered = self._numbered, self._numbered + 1
        return f"{prefix}-{number:010d}"

    def _use(self, where: str, kind: str, name: str, problem: str) -> None:
        if (kind, name) in self._used:
            raise TopologyError(where, f"{kind} {name!r} {problem} (it is at {self._used[kind, name]})")
        self._used[kind, name] = where

    def _check_external(self, plan: TopologyPlan) -> None:
        internal = {topic for described in plan.description().subtopologies for topic in described.changelog_topics}
        internal |= {draft.source.topics[0] for draft in self._subtopologies if draft.source.repartition}
        if self._on_error == DEAD_LETTER:
            internal.add(dead_letter_topic(self._application_id))
        for topic, where in self._external:
            if topic in internal:
                raise TopologyError(where, f"topic {topic!r} is an internal topic of this application; use another")


def _as_declared(columns: Sequence[Column]) -> tuple[dict[str, str], dict[str, str]]:
    """Types and origins of a root's columns."""
    return {column.name: column.type for column in columns}, {column.name: column.name for column in columns}


def _finished(drafts: Iterable[_Draft]) -> tuple[Output, ...]:
    return tuple(map(_finished_one, drafts))


def _finished_one(draft: _Draft) -> Output:
    if isinstance(draft, _StoreDraft):
        return replace(draft.output, outputs=_finished(draft.outputs))
    return draft.output if draft.fed is None else replace(draft.output, value=draft.fed.source.value)


def _columns(where: str, what: str, names: Iterable[str], rows: _Rows) -> tuple[Column, ...]:
    return tuple(_column(where, what, name, rows) for name in names)


def _column(where: str, what: str, name: str, rows: _Rows) -> Column:
    kind = rows.types.get(name)
    if kind is None:
        raise TopologyError(where, f"{what} names the column {name!r}, and the rows have {_listed(rows.types)}")
    return Column(name, kind)


def _is_own_key(key: tuple[Column, ...], rows: _Rows) -> bool:
    """Whether these columns are what the record's key is made of, unchanged. Names count where they are in the key."""
    if tuple(rows.origins.get(column.name) for column in key) != tuple(column.name for column in rows.key):
        return False
    return len(key) == 1 or key == rows.key


def _aggregate(node: StoreNode, name: str, call: AggregateCall, rows: _Rows) -> Aggregate:
    if call.column is None:
        return Aggregate(name, call.function, None, "bigint")
    column = _column(node.where, f"{name} of store {node.store!r}", call.column, rows)
    readable = _READABLE[call.function]
    if column.type not in readable:
        raise TopologyError(
            node.where,
            f"{name} of store {node.store!r} is the {call.function} of {column.name!r}, which is {column.type}; "
            f"it must be one of {', '.join(readable)}",
        )
    return Aggregate(name, call.function, column.name, "bigint" if call.function == "count" else column.type)


def _sink_value(node: SinkNode, key: tuple[Column, ...] | None, rows: _Rows) -> tuple[Column, ...]:
    """Every column that isn't in the record's key already."""
    if key is None:
        in_key = {column.name for column in rows.key if rows.origins.get(column.name) == column.name}
    else:
        in_key = {column.name for column in key}
    value = tuple(Column(name, kind) for name, kind in rows.types.items() if name not in in_key)
    if not value:
        raise TopologyError(node.where, f"no column is left for the value of topic {node.topic!r}; add one")
    for column in value:
        if column.type not in TYPES:
            raise TopologyError(
                node.where,
                f"column {column.name!r} is {column.type} and can't be written to topic {node.topic!r}; "
                f"drop it or cast it to one of {', '.join(TYPES)}",
            )
    return value


def _check_columns(where: str, columns: Iterable[Column]) -> None:
    try:
        check_names(column.name for column in columns)
    except ValueError as error:
        raise TopologyError(where, str(error)) from None


def _check_topic(where: str, topic: str) -> None:
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise TopologyError(
            where, f"{topic!r} can't be the name of a topic: use 1 to 249 of the characters a-z A-Z 0-9 . _ -"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
