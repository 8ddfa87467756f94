"""Record keys: the bytes that Java's serialisers write, so that Java's producers and consumers agree with ours.

| key | bytes |
|---|---|
| string | UTF-8 |
| int, bigint, double | 4, 8 and 8 bytes, big-endian (two's complement; IEEE 754) |
| boolean | one byte, 1 or 0 |
| date | its ISO text, 2013-01-31 |
| several columns | a compact JSON object, fields in order of the columns, as Spark's `to_json` writes it |

Two keys are the same when their bytes are. So −0.0 is written as 0.0 and every NaN as the same one, and a key that
somebody else wrote keeps the bytes that it came with.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sluice_pipeline.codecs.json_values import decode_values
from sluice_pipeline.plan import Column
from sluice_pipeline.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

KeyPart = str | int | float | bool | date

_WIDTHS = {"int": 4, "bigint": 8, "double": 8, "boolean": 1}
_NUMBERS = {"int": ">i4", "bigint": ">i8", "double": ">f8", "boolean": "u1"}
_READER_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


@dataclass(frozen=True, slots=True)
class DecodedKeys:
    """The key columns, one row a record; all null where the key is null or bad."""

    table: pa.Table
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Index and reason of each key that can't be decoded."""


def key_expression(columns: Sequence[Column]) -> SparkColumn:
    """The key's bytes as a Spark expression, null if any part is null."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - restorers decode without PySpark

    if len(columns) == 1:
        return _single_expression(F.col(_quoted(columns[0])), columns[0].type)
    parts = [F.col(_quoted(column)).alias(column.name) for column in columns]
    complete = F.lit(True)
    for column in columns:
        complete = complete & F.col(_quoted(column)).isNotNull()
    return F.when(complete, F.to_json(F.struct(*parts)).cast("binary"))


def encode_key(parts: Sequence[KeyPart | None], columns: Sequence[Column]) -> bytes | None:
    """The key's bytes, null if any part is null. One key at a time: the reference for the Spark expression."""
    if any(part is None for part in parts):
        return None
    if len(columns) == 1:
        return _encode_single(parts[0], columns[0].type)
    fields = (
        (column.name, str(part) if isinstance(part, date) else part)
        for column, part in zip(columns, parts, strict=True)
    )
    return b"{" + b",".join(_json_text(name) + b":" + _json_text(part) for name, part in fields) + b"}"


def decode_keys(keys: Sequence[bytes | None] | pa.Array, columns: Sequence[Column]) -> DecodedKeys:
    """The columns of a batch of keys. Never raises for a key's content; without columns the table has none."""
    if not columns:
        return DecodedKeys(pa.table({}))
    if len(columns) > 1:
        return _decode_objects(_as_list(keys), columns)
    binary = _as_array(keys)
    try:
        return DecodedKeys(_table(_decode_single(binary, columns[0].type), columns))
    except _READER_ERRORS:
        return _without_bad(binary, columns)


def _quoted(column: Column) -> str:
    return f"`{column.name}`"


def _single_expression(value: SparkColumn, kind: str) -> SparkColumn:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    if kind in ("string", "date"):
        return value.cast("string").cast("binary")
    if kind == "boolean":
        return F.unhex(F.when(value, "01").when(~value, "00"))
    if kind == "double":  # + 0.0 turns -0.0 into 0.0; Java's method makes every NaN the same
        bits = F.java_method(F.lit("java.lang.Double"), F.lit("doubleToLongBits"), value + F.lit(0.0))
        return F.when(value.isNotNull(), _big_endian(bits.cast("bigint"), 16))
    return _big_endian(value.cast("bigint"), 8 if kind == "int" else 16)


def _big_endian(number: SparkColumn, digits: int) -> SparkColumn:
    """The number as so many hexadecimal digits' worth of bytes; hex() of a negative number has all 16."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    return F.unhex(F.right(F.lpad(F.hex(number), 16, "0"), F.lit(digits)))


def _encode_single(part: Any, kind: str) -> bytes:
    if kind == "string":
        return str(part).encode()
    if kind == "date":
        return str(part).encode()
    if kind == "double":
        return struct.pack(">d", float("nan") if part != part else part + 0.0)  # noqa: PLR0124 - a NaN's mark
    return struct.pack({"int": ">i", "bigint": ">q", "boolean": ">?"}[kind], part)


def _json_text(value: Any) -> bytes:
    """As Jackson writes it: control characters in upper-case hexadecimal, everything else as it is."""
    text = json.dumps(value, ensure_ascii=False)
    for code in range(0x20):
        text = text.replace(f"\\u{code:04x}", f"\\u{code:04X}")
    return text.encode()


def _decode_objects(keys: list[bytes | None], columns: Sequence[Column]) -> DecodedKeys:
    decoded = decode_values(keys, columns)
    known_bad = {index for index, _ in decoded.bad} | set(decoded.nulls)
    bad = list(decoded.bad)
    for column in columns:
        empty = np.flatnonzero(decoded.table.column(column.name).is_null().to_numpy()).tolist()
        bad += [(index, f"key column {column.name!r} is missing") for index in empty if index not in known_bad]
        known_bad.update(empty)
    table = decoded.table
    if len(bad) > len(decoded.bad):
        rows = np.arange(len(keys))
        table = table.take(pa.array(rows, mask=np.isin(rows, [index for index, _ in bad])))
    return DecodedKeys(table, sorted(bad))


def _as_array(keys: Sequence[bytes | None] | pa.Array) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if isinstance(keys, pa.Array):
        return keys.cast(pa.binary())
    return pa.array(keys, pa.binary())


def _as_list(keys: Sequence[bytes | None] | pa.Array) -> list[bytes | None]:
    return list(keys.to_pylist() if isinstance(keys, (pa.Array, pa.ChunkedArray)) else keys)


def _table(array: pa.Array, columns: Sequence[Column]) -> pa.Table:
    return pa.table([array], schema=arrow_schema(columns))


def _decode_single(keys: pa.Array, kind: str) -> pa.Array:
    """The column, all at once. Raises ArrowInvalid if any key is bad."""
    if kind in ("string", "date"):
        text = keys.cast(pa.string())
        return text.cast(pa.date32()) if kind == "date" else text
    present = keys.drop_null()
    lengths = np.diff(_offsets(present))
    if (lengths != _WIDTHS[kind]).any():
        raise pa.ArrowInvalid(f"it is not {_WIDTHS[kind]} bytes long, as a key of type {kind} is")
    data = present.buffers()[2]
    start = int(_offsets(present)[0]) if len(present) else 0
    numbers = np.frombuffer(data or b"", _NUMBERS[kind], len(present), start)
    if kind == "boolean" and (numbers > 1).any():
        raise pa.ArrowInvalid("its byte is neither 0 nor 1, as a key of type boolean is")
    target = arrow_schema([Column("key", kind)]).field(0).type
    values = pa.array(numbers.astype(numbers.dtype.newbyteorder("="))).cast(target)
    if keys.null_count == 0:
        return values
    mask = keys.is_null().to_numpy(zero_copy_only=False)
    return values.take(pa.array(np.cumsum(~mask) - 1, mask=mask))


def _offsets(keys: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    buffer = keys.buffers()[1]
    if buffer is None or len(keys) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]


def _without_bad(keys: pa.Array, columns: Sequence[Column]) -> DecodedKeys:
    """The same with every bad key found one by one and read as null."""
    bad: list[tuple[int, str]] = []
    texts: list[bytes | None] = keys.to_pylist()
    for index, key in enumerate(texts):
        try:
            _decode_single(pa.array([key], pa.binary()), columns[0].type)
        except _READER_ERRORS as error:
            bad.append((index, f"the key can't be read: {error}"))
            texts[index] = None
    return DecodedKeys(_table(_decode_single(pa.array(texts, pa.binary()), columns[0].type), columns), bad)
