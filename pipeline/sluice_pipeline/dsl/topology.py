"""What a user writes a pipeline with. It only records what was declared, with its line; `build` does the rest.

Nothing here needs PySpark, and `build` needs a session only for transformations, which it runs once on no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from sluice_pipeline.dsl.aggregates import AggregateCall
from sluice_pipeline.dsl.compile import compile_topology
from sluice_pipeline.dsl.errors import TopologyError, calling_line
from sluice_pipeline.dsl.nodes import (
    GroupNode,
    Node,
    RowsNode,
    RowWise,
    SinkNode,
    StoreNode,
    StreamNode,
    TransformNode,
    UpdatesNode,
)
from sluice_pipeline.plan import DEAD_LETTER, RESERVED, STOP, TopologyPlan
from sluice_pipeline.schemas import check_names, key_problem, parse_columns
from sluice_protocol.ids import check_application_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
NodeT = TypeVar("NodeT", bound=Node)

_OFFSET_RESETS = ("earliest", "latest", "error")


class Topology:
    """A pipeline: streams, what becomes of them, and where it goes."""

    def __init__(self, application_id: str, *, on_error: str = DEAD_LETTER) -> None:
        """`application_id` is the prefix of internal topics and names the group; it must never change.

        `on_error` says what becomes of a record that can't be decoded or transformed: "dead-letter" (it goes to the
        topic <application_id>-dead-letters) or "stop" (its task stops until it is resumed).
        """
        where = calling_line()
        self.application_id = _checked(where, lambda: check_application_id(application_id))
        if on_error not in (DEAD_LETTER, STOP):
            raise TopologyError(where, f"on_error is {on_error!r}; it must be {DEAD_LETTER!r} or {STOP!r}")
        self.on_error = on_error
        self._nodes: list[Node] = []

    def stream(self, *topics: str, value: str, key: str | None = None, offset_reset: str = "earliest") -> Stream:
        """Read topics of JSON objects. Several topics have the same schema, and the same number of partitions if their
        rows go into a store by the key that they have.

        `value` and `key` are schemas, as "amount double, country string". `offset_reset` says where to start without
        a committed offset, or when it is out of range: earliest, latest or error.
        """
        where = calling_line()
        if not topics:
            raise TopologyError(where, "a stream needs at least one topic")
        if offset_reset not in _OFFSET_RESETS:
            raise TopologyError(where, f"offset_reset is {offset_reset!r}; it must be {', '.join(_OFFSET_RESETS)}")
        key_columns = _checked(where, lambda: parse_columns(key)) if key is not None else ()
        value_columns = _checked(where, lambda: parse_columns(value))
        _checked(where, lambda: check_names(column.name for column in key_columns + value_columns))
        problem = key_problem(key_columns)
        if problem is not None:
            raise TopologyError(where, problem)
        node = StreamNode(where, topics, key_columns, value_columns, offset_reset)
        return Stream(self, self._add(node))

    @property
    def needs_spark(self) -> bool:
        """Whether `build` will need a Spark session: only for transformations."""
        return any(isinstance(node, TransformNode) for node in self._nodes)

    def build(self, spark: SparkSession | None = None, *, application_id: str | None = None) -> TopologyPlan:
        """Compile it, running each transformation once on no rows. Raises TopologyError.

        Without a session one is made, if there are transformations. `application_id` overrides the topology's own.
        """
        if application_id is None:
            application_id = self.application_id
        chosen = _checked("application id", lambda: check_application_id(application_id))
        return compile_topology(chosen, self.on_error, self._nodes, spark)

    def _add(self, node: NodeT) -> NodeT:
        self._nodes.append(node)
        return node


class Stream:
    """Rows on their way. Every method leaves it as it is and returns what comes next."""

    def __init__(self, topology: Topology, node: RowsNode) -> None:
        self._topology = topology
        self._node = node

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> Stream:
        """Apply row-wise DataFrame code. It must keep the columns _key, _partition, _offset and _timestamp, and use
        no aggregate, distinct, sort, limit, window or join: what needs several rows is an operator of the topology.
        """
        where = calling_line()
        if not callable(function):
            raise TopologyError(where, f"transform needs a function of a DataFrame, and got {function!r}")
        return self._then(where, function, "KSTREAM-TRANSFORM")

    def filter(self, condition: str) -> Stream:
        """Keep the rows for which an SQL condition holds, as "amount > 10"."""
        return self._then(calling_line(), lambda frame: frame.where(condition), "KSTREAM-FILTER")

    def select(self, *expressions: str) -> Stream:
        """Replace the columns by SQL expressions, as "customer", "amount * 2 as twice". The key's bytes stay."""
        return self._then(calling_line(), lambda frame: frame.selectExpr(*RESERVED, *expressions), "KSTREAM-MAPVALUES")

    def group_by(self, *columns: str, name: str | None = None) -> Grouped:
        """Group by columns. If they aren't the record's own key, the rows go through a repartition topic.

        It is named after the store, or `name`: then all aggregates of this group share one. A row of which a group
        column is null is dropped and counted.
        """
        where = calling_line()
        if not columns:
            raise TopologyError(where, "group_by needs at least one column")
        _checked(where, lambda: check_names(columns))
        return Grouped(self._topology, self._topology._add(GroupNode(where, self._node, columns, name)))

    def to(self, topic: str, *, key: str | Sequence[str] | None = None) -> None:
        """Write the rows to a topic as JSON, without the key columns, and with their timestamp.

        The record's own key is kept unless `key` names one or more columns.
        """
        where = calling_line()
        columns = (key,) if isinstance(key, str) else None if key is None else tuple(key)
        if columns == ():
            raise TopologyError(where, "key names no column; leave it out to keep the record's own key")
        self._topology._add(SinkNode(where, self._node, topic, columns))

    def _then(self, where: str, function: RowWise, prefix: str) -> Stream:
        return Stream(self._topology, self._topology._add(TransformNode(where, self._node, function, prefix)))


class Grouped:
    """Rows by key, to be aggregated."""

    def __init__(self, topology: Topology, node: GroupNode) -> None:
        self._topology = topology
        self._node = node

    def aggregate(self, store: str, **aggregates: AggregateCall) -> Table:
        """Keep aggregates for each key in a store: `aggregate("by-customer", orders=count(), total=sum_("amount"))`."""
        where = calling_line()
        if not aggregates:
            raise TopologyError(where, f"store {store!r} has no aggregate; name at least one, as orders=count()")
        for name, call in aggregates.items():
            if not isinstance(call, AggregateCall):
                raise TopologyError(where, f"{name}={call!r} is not an aggregate; use count, sum_, min_, max_ or avg")
        return Table(self._topology, self._topology._add(StoreNode(where, self._node, store, aggregates)))


class Table:
    """A store of aggregates by key."""

    def __init__(self, topology: Topology, node: StoreNode) -> None:
        self._topology = topology
        self._node = node

    def to_stream(self) -> Stream:
        """The updates as rows: key columns and aggregates, one row for each key that a batch changed."""
        return Stream(self._topology, self._topology._add(UpdatesNode(calling_line(), self._node)))

    def to(self, topic: str, *, key: str | Sequence[str] | None = None) -> None:
        """Write the updates to a topic: `to_stream().to(topic)`."""
        self.to_stream().to(topic, key=key)


def _checked(where: str, check: Callable[[], T]) -> T:
    try:
        return check()
    except ValueError as error:
        raise TopologyError(where, str(error)) from None
