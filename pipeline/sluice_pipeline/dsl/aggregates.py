"""The aggregates that a table may keep. Names of builtins carry an underscore, as `sum_`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of a column, before the column's type is known."""

    function: str
    column: str | None


def count(column: str | None = None) -> AggregateCall:
    """How many rows, or how many of them have a value in the column."""
    return AggregateCall("count", column)


def sum_(column: str) -> AggregateCall:
    """The sum of a number column: bigint for integers (wraps as Java's long), else double. Nulls don't count."""
    return AggregateCall("sum", column)


def min_(column: str) -> AggregateCall:
    """The smallest number, date or timestamp. Nulls don't count."""
    return AggregateCall("min", column)


def max_(column: str) -> AggregateCall:
    """The greatest number, date or timestamp. Nulls don't count; NaN is greater than every number."""
    return AggregateCall("max", column)


def avg(column: str) -> AggregateCall:
    """The mean of a number column, as double. Nulls don't count."""
    return AggregateCall("avg", column)
