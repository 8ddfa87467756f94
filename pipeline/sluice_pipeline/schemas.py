"""Schemas as text ("customer string, amount double"), read without a JVM, and as Arrow and Spark want them.

The types are those that a record's key or value may have; in between, a transformation may use any of Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluice_pipeline.plan import RESERVED, Column

if TYPE_CHECKING:
    import pyarrow as pa

TYPES = ("string", "boolean", "int", "bigint", "float", "double", "date", "timestamp")
"""What a column of a record may be, by Spark's simple names."""

KEY_TYPES = ("string", "int", "bigint", "double", "boolean", "date")
"""What a key may be: types of which equal values have equal bytes."""

NUMERIC = ("int", "bigint", "float", "double")

_SYNONYMS = {"integer": "int", "long": "bigint", "real": "float"}
_COLUMN = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))\s+([A-Za-z_]\w*)\s*", re.ASCII)
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # outside backquotes


def parse_columns(text: str) -> tuple[Column, ...]:
    """Read "name type, name type"; an unusual name stands in backquotes. Raises ValueError naming the part."""
    columns = tuple(map(_parse_column, _COMMA.split(text)))
    check_names(column.name for column in columns)
    return columns


def check_names(names: Iterable[str]) -> None:
    """Raise ValueError if a name is reserved, or the same as another: Spark doesn't tell Amount from amount."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in RESERVED:
            raise ValueError(f"column {name!r} has a reserved name; {', '.join(RESERVED)} are Sluice's own")
        if name.lower() in seen:
            other = seen[name.lower()]
            raise ValueError(f"columns {other!r} and {name!r} have the same name (case doesn't count); rename one")
        seen[name.lower()] = name


def key_problem(columns: Iterable[Column]) -> str | None:
    """Why these columns can't be a key together, or None."""
    columns = tuple(columns)
    for column in columns:
        if column.type not in KEY_TYPES:
            return (
                f"column {column.name!r} is {column.type} and can't be part of a key; cast it to one of "
                f"{', '.join(KEY_TYPES)}"
            )
        if column.type == "double" and len(columns) > 1:
            return (
                f"column {column.name!r} is double and can't be part of a key of several columns, because its text "
                "differs from one Java to the next; cast it to bigint or string"
            )
    return None


def ddl(columns: Iterable[Column]) -> str:
    """The columns as Spark's DDL text."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as Arrow types; a timestamp is an instant in microseconds, as in Spark."""
    import pyarrow as pa  # noqa: PLC0415 - importing a pipeline must not need Arrow

    types = {
        "string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    }  # fmt: skip
    return pa.schema([(column.name, types[column.type]) for column in columns])


def _parse_column(part: str) -> Column:
    match = _COLUMN.fullmatch(part)
    if match is None:
        raise ValueError(f"{part.strip()!r} is not a column; write: name type, name type, …")
    name, kind = match[1] or match[2], match[3].lower()
    kind = _SYNONYMS.get(kind, kind)
    if kind not in TYPES:
        raise ValueError(f"column {name!r} has type {match[3]!r}, which is none of {', '.join(TYPES)}")
    return Column(name, kind)
