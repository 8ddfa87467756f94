"""Whether a transformation is row-wise, found out by running it once on no rows and reading the plan that it made.

State is routed by the reserved columns, and a batch is an accident of time: code that looks at several rows would
give results that depend on where batches end. So a plan may hold nothing but operators from a list that were
checked one by one; whatever Spark adds one day is refused until somebody has looked at it.

The same walk tells which columns still *are* the record's key: the same attribute, seen through projections, and in
every branch of a union. Names prove nothing. What Python code makes of whole batches (mapInArrow, mapInPandas) can't be
looked into: its columns are nobody's key, and that it keeps the reserved ones and works row by row is its own promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sluice_pipeline.dsl.errors import TopologyError
from sluice_pipeline.plan import RESERVED, Column, Transformation
from sluice_pipeline.schemas import check_names, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESERVED_COLUMNS = tuple(
    Column(name, kind) for name, kind in zip(RESERVED, ("binary", "int", "bigint", "bigint"), strict=True)
)

_KEPT = ("_key", "_partition", "_offset")
"""Reserved columns that must stay what they are; `_timestamp` may be computed."""

_PASSING = frozenset({"Filter", "SubqueryAlias", "View", "Generate", "ResolvedHint"})
_MAPPING = frozenset({"MapInPandas", "MapInArrow"})
_SEVERAL_ROWS = {
    "Aggregate": "an aggregate", "Deduplicate": "distinct", "Distinct": "distinct", "Sort": "a sort",
    "GlobalLimit": "a limit", "LocalLimit": "a limit", "Offset": "an offset", "Tail": "a tail", "Window": "a window",
    "Join": "a join", "AsOfJoin": "a join", "LateralJoin": "a join", "Sample": "a sample", "Intersect": "an intersect",
    "Except": "an except", "Repartition": "a repartition", "RepartitionByExpression": "a repartition",
    "FlatMapGroupsInPandas": "a grouped map", "FlatMapGroupsInArrow": "a grouped map", "Pivot": "a pivot",
}  # fmt: skip

_UNSEEN = ""
"""The origin of a column that came out of Python code."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Rows as a transformation sees them, but none of them."""

    frame: DataFrame
    rdd: Any
    """The JVM object by which the stream's own rows are known in a plan."""
    names: tuple[str, ...]
    types: Mapping[str, str]
    """Spark's type of each column that isn't reserved."""
    origins: Mapping[str, str]
    """For each column that is unchanged, the stream's column that it is."""


class _NotRowWiseError(Exception):
    """Something in the plan that a row-wise transformation can't have."""


def no_rows(spark: SparkSession, columns: Sequence[Column]) -> Probe:
    """A stream of these columns."""
    frame = spark.createDataFrame([], ddl([*RESERVED_COLUMNS, *columns]))
    names = tuple(frame.columns)
    types = {column.name: column.type for column in columns}
    return Probe(frame, _analyzed(frame).rdd(), names, types, {name: name for name in names})


def transformed(probe: Probe, transformation: Transformation) -> Probe:
    """The rows after the transformation. Raises TopologyError naming its line, and what it may not do."""
    where = transformation.where
    frame = _run(probe.frame, transformation)
    try:
        origins = _named_origins(frame, probe)
    except _NotRowWiseError as problem:
        raise TopologyError(where, f"the transformation is not row-wise: {problem}") from None
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    _check_reserved(where, types, origins)
    rest = {name: kind for name, kind in types.items() if name not in RESERVED}
    try:
        check_names(name for name in frame.columns if name not in RESERVED)
    except ValueError as error:
        raise TopologyError(where, f"the transformation's result: {error}") from None
    return replace(probe, frame=frame, types=rest, origins=origins)


def _run(frame: DataFrame, transformation: Transformation) -> DataFrame:
    from pyspark.sql import DataFrame as AnyFrame  # noqa: PLC0415 - importing a pipeline must not need PySpark

    where = transformation.where
    try:
        result = transformation.function(frame)
    except Exception as error:
        raise TopologyError(where, f"the transformation raised {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(result, AnyFrame):
        raise TopologyError(where, f"the transformation returned {type(result).__name__} and not a DataFrame")
    return result


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or ["(it says nothing)"]
    return lines[0].rstrip("; ")[:400]


def _check_reserved(where: str, types: Mapping[str, str], origins: Mapping[str, str]) -> None:
    for column in RESERVED_COLUMNS:
        found = types.get(column.name)
        if found is None:
            raise TopologyError(
                where,
                f"the transformation loses the column {column.name}; keep {', '.join(RESERVED)}, as with "
                f'df.select("{RESERVED[0]}", …) or df.withColumn',
            )
        if found != column.type:
            raise TopologyError(where, f"the transformation makes {column.name} {found}; it must stay {column.type}")
        if column.name in _KEPT and origins.get(column.name) not in (column.name, _UNSEEN):
            raise TopologyError(
                where,
                f"the transformation changes the column {column.name}, by which state is routed; "
                "to give the rows another key use group_by, or to(…, key=…)",
            )


def _named_origins(frame: DataFrame, probe: Probe) -> dict[str, str]:
    plan = _analyzed(frame)
    if plan.subqueriesAll().size():
        raise _NotRowWiseError("it has a subquery, which reads more than the row")
    origins = _origins(plan, probe)
    identified = ((attribute.name(), attribute.exprId().id()) for attribute in _each(plan.output()))
    return {name: origins[identity] for name, identity in identified if identity in origins}


def _origins(plan: Any, probe: Probe) -> dict[int, str]:
    """For each attribute of the plan that is a column of the stream, which one. Raises _NotRowWiseError."""
    kind = plan.getClass().getSimpleName()
    children = list(_each(plan.children()))
    if not children:
        return _origins_of_leaf(plan, kind, probe)
    if kind == "Project":
        return _origins_of_project(plan, _origins(children[0], probe))
    if kind in _PASSING:
        return _origins(children[0], probe)
    if kind == "Union":
        return _origins_of_union(plan, children, probe)
    if kind in _MAPPING:
        _origins(children[0], probe)
        return {attribute.exprId().id(): _UNSEEN for attribute in _each(plan.output())}
    raise _NotRowWiseError(
        f"it has {_SEVERAL_ROWS.get(kind, f'the operator {kind}')}; what needs several rows is an operator of the "
        "topology (group_by, aggregate)"
    )


def _origins_of_leaf(plan: Any, kind: str, probe: Probe) -> dict[int, str]:
    if kind != "LogicalRDD" or not plan.rdd().equals(probe.rdd):
        raise _NotRowWiseError(f"it reads other rows than the stream's ({kind})")
    attributes = (attribute.exprId().id() for attribute in _each(plan.output()))
    return dict(zip(attributes, probe.names, strict=True))


def _origins_of_project(plan: Any, below: Mapping[int, str]) -> dict[int, str]:
    origins = {}
    for expression in _each(plan.projectList()):
        kind = expression.getClass().getSimpleName()
        attribute = expression.child() if kind == "Alias" else expression
        if attribute.getClass().getSimpleName() != "AttributeReference":
            continue
        origin = below.get(attribute.exprId().id())
        if origin is not None:
            origins[expression.exprId().id()] = origin
    return origins


def _origins_of_union(plan: Any, children: Sequence[Any], probe: Probe) -> dict[int, str]:
    """A column of a union is the stream's where it is so in every branch."""
    branches = []
    for child in children:
        below = _origins(child, probe)
        branches.append([below.get(attribute.exprId().id()) for attribute in _each(child.output())])
    origins = {}
    for attribute, found in zip(_each(plan.output()), zip(*branches, strict=True), strict=True):
        if found[0] is not None and len(set(found)) == 1:
            origins[attribute.exprId().id()] = found[0]
    return origins


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala Seq."""
    return (sequence.apply(index) for index in range(sequence.size()))
