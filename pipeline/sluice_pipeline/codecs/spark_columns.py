"""Keys and values decoded by Spark's executors: only those that are plain, which is nearly all.

Spark's `from_json` is lenient where our codecs are not: it takes numbers for text, the last of repeated fields, the
first of two objects. So a regular expression first says that a record is *plain*: one flat enough JSON object, its
declared fields of their types, written so that no two readers differ about it. What isn't plain isn't bad either: it
is doubtful, and the driver decodes it with the codecs themselves. Hence both sides of the source seam agree record by
record, and a topic whose every record is doubtful is read slowly, not wrongly.

Doubtful are: more than `_DEPTH` levels of nesting, a declared name that occurs twice (also in a nested object),
numbers too long to be exact, lone surrogates, whatever isn't UTF-8, and everything that can't be decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from sluice_pipeline.plan import Column
from sluice_pipeline.schemas import ddl

_DEPTH = 3
_CORRUPT = "_corrupt"

# Java's syntax; every quantifier is possessive ("*+"), so that a match is linear and needs no stack.
_SPACE = r"[ \t\r\n]*+"
_ESCAPED = (
    r'\\(?:["\\/bfnrt]|u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_TEXT = rf'"[^"\\\x00-\x1f]*+(?:{_ESCAPED}[^"\\\x00-\x1f]*+)*+"'
_NAME = r'"[^"\\\x00-\x1f]*+"'
_NUMBER = r"-?+(?:0|[1-9][0-9]{0,199}+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]{1,2}+)?+"
_SCALAR = rf"(?:{_TEXT}|{_NUMBER}|true|false|null)"
_DATE = r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]"
_DECIMAL = r"(?!-0(?![.eE]))-?+(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]{1,15}+)?+"
_PLAIN = {
    "string": _TEXT,
    "boolean": "(?:true|false)",
    "int": "-?+(?:0|[1-9][0-9]{0,8}+)",
    "bigint": "-?+(?:0|[1-9][0-9]{0,17}+)",
    "float": rf"{_DECIMAL}(?:[eE][+-]?+[0-9])?+",
    "double": rf"{_DECIMAL}(?:[eE][+-]?+[0-9]{{1,2}}+)?+",
    "date": rf'"{_DATE}"',
    "timestamp": rf'"{_DATE}[T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}}+)?+(?:Z|[+-][01][0-9]:[0-5][0-9])?+"',
}


@dataclass(frozen=True, slots=True)
class Plain:
    """Whether a key or value is plain, and then its columns."""

    is_plain: SparkColumn
    columns: tuple[SparkColumn, ...]


def plain_value(value: SparkColumn, columns: Sequence[Column]) -> Plain:
    """A JSON object's fields. A null value is plain, and its columns are null."""
    if not columns:
        return Plain(F.lit(True), ())
    text = value.cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
    parsed = F.from_json(text, f"{ddl(columns)}, `{_CORRUPT}` string", options)
    plain = (
        F.is_valid_utf8(text)
        & text.rlike(plain_object(columns))
        & ~text.rlike(_repeated(columns))
        & parsed.getField(_CORRUPT).isNull()
    )
    fields = tuple(parsed.getField(column.name).alias(column.name) for column in columns)
    return Plain(value.isNull() | F.coalesce(plain, F.lit(False)), fields)


def plain_key(key: SparkColumn, columns: Sequence[Column]) -> Plain:
    """The columns of a record's key. A null key is plain, and its columns are null."""
    if not columns:
        return Plain(F.lit(True), ())
    if len(columns) > 1:
        object_ = plain_value(key, columns)
        complete = reduce(and_, (column.isNotNull() for column in object_.columns))
        return Plain(key.isNull() | (object_.is_plain & complete), object_.columns)
    is_plain, decoded = _single_key(key, columns[0].type)
    return Plain(key.isNull() | F.coalesce(is_plain, F.lit(False)), (decoded.alias(columns[0].name),))


def plain_object(columns: Sequence[Column]) -> str:
    """The regular expression of a plain JSON object with these fields, each absent, null or of its type."""
    declared = [rf'"{_quoted(column)}"{_SPACE}:{_SPACE}(?:{_PLAIN[column.type]}|null)' for column in columns]
    others = rf"(?!\"(?:{_any_of(columns)})\"){_NAME}{_SPACE}:{_SPACE}{_any_value(_DEPTH)}"
    return rf"\A{_SPACE}{_members('|'.join([*declared, others]))}{_SPACE}\z"


def _members(member: str) -> str:
    """An object of such members: after each comes a comma and another, or the end."""
    return rf'\{{{_SPACE}(?:(?:{member}){_SPACE}(?:,{_SPACE}(?=")|(?=\}})))*+\}}'


def _any_value(depth: int) -> str:
    if depth == 0:
        return _SCALAR
    below = _any_value(depth - 1)
    array = rf"\[{_SPACE}(?:{below}{_SPACE}(?:,{_SPACE}(?!\])|(?=\])))*+\]"
    return rf"(?:{_SCALAR}|{_members(rf'{_NAME}{_SPACE}:{_SPACE}{below}')}|{array})"


def _repeated(columns: Sequence[Column]) -> str:
    return rf'(?s)"({_any_of(columns)})"{_SPACE}:.*?"\1"{_SPACE}:'


def _any_of(columns: Sequence[Column]) -> str:
    return "|".join(map(_quoted, columns))


def _quoted(column: Column) -> str:
    """A name as JSON has it between the quotes, and as a regular expression."""
    return re.escape(json.dumps(column.name, ensure_ascii=False)[1:-1])


def _single_key(key: SparkColumn, kind: str) -> tuple[SparkColumn, SparkColumn]:
    text = key.cast("string")
    if kind == "string":
        return F.is_valid_utf8(text), text
    if kind == "date":
        day = text.try_cast("date")
        return F.is_valid_utf8(text) & text.rlike(rf"\A{_DATE}\z") & day.isNotNull(), day
    if kind == "boolean":
        digits = F.hex(key)
        return digits.isin("00", "01"), digits == "01"
    width = 4 if kind == "int" else 8
    number = F.conv(F.hex(key), 16, -10).try_cast("bigint")
    fits = F.length(key) == width
    if kind == "int":  # the sign is the 32nd bit
        return fits, F.shiftright(F.shiftleft(number, 32), 32).try_cast("int")
    if kind == "double":
        bits = F.coalesce(number, F.lit(0))  # a Java method takes no null
        decimal = F.java_method(F.lit("java.lang.Double"), F.lit("longBitsToDouble"), bits)
        return fits, F.when(fits, decimal.try_cast("double"))
    return fits, number
