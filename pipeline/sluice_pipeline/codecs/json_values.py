"""Record values as JSON objects, read and written a batch at a time.

Arrow's reader parses a whole batch joined by newlines, but knows nothing of records: two objects in one record, or one
object spread over two, would shift every row after them. So a batch is only given to it when every record starts with
"{", ends with "}" and holds no newline; then every record holds at least one whole object, and as many rows as records
means exactly one each. (The first "{" also matters because the reader dies of a leading `null`.) What doesn't pass is
screened record by record, and the last doubts are settled by halving, always with the same reader: a record is good
or bad by itself, whatever its neighbours are.

What is good: a JSON object whose declared fields are absent, null, or of their type. Numbers are never taken for
text, nor text for numbers; fields that aren't declared are ignored; a repeated declared field is refused. A date is
"2013-01-31", a timestamp ISO 8601 (no zone means UTC; beyond microseconds is cut off).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sluice_pipeline.plan import Column
from sluice_pipeline.schemas import arrow_schema

_BLOCK_BYTES = 1 << 20
_WHITESPACE = b" \t\r\n"
_READER_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True, slots=True)
class Decoded:
    """One row a record, in order; the rows of bad records and of tombstones are all null."""

    table: pa.Table
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Index and reason of each record that can't be decoded."""
    nulls: list[int] = field(default_factory=list)
    """The records without a value (tombstones)."""


def decode_values(values: Sequence[bytes | None], columns: Sequence[Column]) -> Decoded:
    """Decode a batch of JSON objects. Never raises for a record's content.

    Without columns (a repartition topic of which only rows are counted) nothing is read, and the table has none.
    """
    if not columns:
        return Decoded(pa.table({}), nulls=[index for index, value in enumerate(values) if value is None])
    shape = _shape(tuple(columns))
    records = [value for value in values if value is not None]
    nulls = [index for index, value in enumerate(values) if value is None] if len(records) < len(values) else []
    try:
        table = _read(records, shape)
        bad: list[tuple[int, str]] = []
    except _UnreadableError:
        table, bad = _decode_one_by_one(records, shape)
    if nulls:
        positions = [index for index, value in enumerate(values) if value is not None]
        table = _spread(table, positions, len(values))
        bad = [(positions[index], reason) for index, reason in bad]
    return Decoded(table, bad, nulls)


def encode_values(columns: Mapping[str, Any]) -> list[bytes]:
    """One JSON object a row, fields in the order given. Columns are Arrow arrays, numpy arrays or sequences.

    NaN and infinities become null, as JSON has none; dates and timestamps are ISO 8601 (UTC, microseconds).
    """
    parts = [_written(values) for values in columns.values()]
    names = [orjson.dumps(name).replace(b"%", b"%%") for name in columns]
    template = b"{" + b",".join(name + b":%b" for name in names) + b"}"
    return list(map(template.__mod__, zip(*parts, strict=True)))


class _UnreadableError(ValueError):
    """A batch that can't be read as one JSON object a record."""


class _Shape:
    """The declared columns, prepared for the reader."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.schema = arrow_schema(columns)
        as_text = {column.name for column in columns if column.type in ("date", "timestamp")}
        wire = [(field.name, pa.string() if field.name in as_text else field.type) for field in self.schema]
        self.options = pa.json.ParseOptions(explicit_schema=pa.schema(wire), unexpected_field_behavior="ignore")
        self.expected = [(column.name, *_EXPECTED[column.type]) for column in columns]

    def finish(self, table: pa.Table) -> pa.Table:
        """The table as declared. Raises ArrowInvalid for text that is no UTF-8, or no date or timestamp."""
        table.validate(full=True)
        arrays = []
        for column in self.columns:
            array = table.column(column.name)
            if column.type == "date":
                array = array.cast(pa.date32())
            elif column.type == "timestamp":
                array = _to_timestamps(array)
            arrays.append(array)
        return pa.table(arrays, schema=self.schema)


@functools.lru_cache(maxsize=256)
def _shape(columns: tuple[Column, ...]) -> _Shape:
    return _Shape(columns)


def _read(records: list[bytes], shape: _Shape) -> pa.Table:
    """The records as rows, one each. Raises _UnreadableError with the reason."""
    if not records:
        return shape.schema.empty_table()
    joined = b"\n".join(records)
    if not _is_framed(joined, len(records)):
        raise _UnreadableError("it is not a JSON object")
    block = _BLOCK_BYTES if len(joined) < _BLOCK_BYTES else max(_BLOCK_BYTES, max(map(len, records)) + 1)
    options = pa.json.ReadOptions(use_threads=len(joined) > _BLOCK_BYTES, block_size=block)
    try:
        table = pa.json.read_json(pa.BufferReader(joined), options, shape.options)
        if table.num_rows != len(records):
            raise _UnreadableError("it holds more than one JSON object")
        return shape.finish(table)
    except _READER_ERRORS as error:
        raise _UnreadableError(_reason(error)) from None


def _is_framed(joined: bytes, records: int) -> bool:
    """Whether each record starts with "{", ends with "}" and has no newline inside."""
    if not (joined.startswith(b"{") and joined.endswith(b"}")):
        return False
    data = np.frombuffer(joined, np.uint8)
    newlines = np.flatnonzero(data == ord("\n"))
    return len(newlines) == records - 1 and bool(
        (data[newlines - 1] == ord("}")).all() and (data[newlines + 1] == ord("{")).all()
    )


def _decode_one_by_one(records: list[bytes], shape: _Shape) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Sort out what is surely bad, and halve what is left until it can be read."""
    bad: list[tuple[int, str]] = []
    doubtful: list[bytes] = []
    positions: list[int] = []
    for position, record in enumerate(map(_on_one_line, records)):
        problem = _screen(record, shape)
        if problem is None:
            doubtful.append(record)
            positions.append(position)
        else:
            bad.append((position, problem))
    tables = [shape.schema.empty_table()]
    good: list[int] = []
    for start, stop, table in _halve(doubtful, 0, len(doubtful), shape):
        if isinstance(table, str):
            bad.append((positions[start], table))
        else:
            tables.append(table)
            good += positions[start:stop]
    table = pa.concat_tables(tables)
    return (_spread(table, good, len(records)) if bad else table), sorted(bad)


def _spread(table: pa.Table, positions: Sequence[int], rows: int) -> pa.Table:
    """The rows at their positions in a table of so many rows, and null rows between them."""
    source = np.full(rows, -1, np.int64)
    source[positions] = np.arange(len(positions))
    return table.take(pa.array(source, mask=source < 0))


def _on_one_line(record: bytes) -> bytes:
    """The record without the whitespace around it, and its inner newlines made other whitespace.

    Inside a text a raw newline is as forbidden as the carriage return that takes its place: what is bad stays bad.
    """
    return record.strip(_WHITESPACE).replace(b"\n", b"\r")


def _halve(records: list[bytes], start: int, stop: int, shape: _Shape) -> Iterator[tuple[int, int, pa.Table | str]]:
    """The largest readable parts in order, each with its table; an unreadable single record with its reason."""
    try:
        table = _read(records[start:stop], shape)
    except _UnreadableError as error:
        if stop - start == 1:
            yield start, stop, str(error)
            return
        middle = (start + stop) // 2
        yield from _halve(records, start, middle, shape)
        yield from _halve(records, middle, stop, shape)
        return
    yield start, stop, table


def _screen(record: bytes, shape: _Shape) -> str | None:
    """Why a record is surely bad, or None. Only ever refuses what the reader would refuse too, but cheaply."""
    if not (record.startswith(b"{") and record.endswith(b"}")):
        return "it is not a JSON object"
    try:
        value = orjson.loads(record)
    except orjson.JSONDecodeError as refused:
        return _screen_leniently(record, str(refused))
    for name, accepted, wanted in shape.expected:
        found = value.get(name)
        if found is not None and type(found) not in accepted:
            return f"field {name!r} is {_JSON_NAMES[type(found)]} and not {wanted}"
    return None


def _screen_leniently(record: bytes, refused: str) -> str | None:
    """A second opinion: Arrow reads NaN, huge numbers and broken text in fields that nobody wants; orjson doesn't."""
    try:
        json.loads(record.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        return None if isinstance(error, RecursionError) else f"it is not JSON: {refused}"
    return None


def _to_timestamps(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 texts as instants. The usual form takes one cast; others are brought into it first."""
    instant = pa.timestamp("us", "UTC")
    try:
        return texts.cast(instant)
    except _READER_ERRORS:
        precise = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
        zoned = pc.match_substring_regex(precise, r"(Z|[+-]\d\d(:?\d\d)?)$")
        dates = pc.match_substring_regex(precise, r"^\d+-\d\d-\d\d$")
        suffix = pc.if_else(dates, " 00:00:00Z", pc.if_else(zoned, "", "Z"))
        return pc.binary_join_element_wise(precise, suffix, "").cast(instant)


def _reason(error: Exception) -> str:
    text = str(error).removeprefix("JSON parse error: ").split(" in row ")[0]
    return f"it can't be read: {text}"


def _written(values: Any) -> list[bytes]:
    """A column as JSON texts, one a row."""
    values = _plain(values)
    if len(values) == 0:
        return []
    if isinstance(values, np.ndarray):
        whole = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    else:
        whole = orjson.dumps(values)
    if whole.count(b",") == len(values) - 1:  # no comma inside a value: one call for all of them
        return whole[1:-1].split(b",")
    return list(map(orjson.dumps, values))


def _plain(values: Any) -> Any:
    """A column as a numpy array of numbers or a list of what orjson writes."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_date(values.type):
            values = values.cast(pa.string())
        elif pa.types.is_timestamp(values.type):
            texts = values.cast(pa.timestamp("us", "UTC")).cast(pa.string())
            values = pc.replace_substring(texts, " ", "T", max_replacements=1)
        elif values.null_count == 0 and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return values.to_numpy()
        return values.to_pylist()
    return values if isinstance(values, (np.ndarray, list)) else list(values)


_EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "boolean": ((bool,), "true or false"),
    "int": ((int, float), "a number"),
    "bigint": ((int, float), "a number"),
    "float": ((int, float), "a number"),
    "double": ((int, float), "a number"),
    "date": ((str,), "text with a date"),
    "timestamp": ((str,), "text with a timestamp"),
}

_JSON_NAMES: dict[type, str] = {
    str: "text", bool: "a boolean", int: "a number", float: "a number", dict: "an object", list: "an array",
}  # fmt: skip
