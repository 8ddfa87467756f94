"""From keys and values as they lie in a topic to typed rows, at the driver: the reference for both sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sluice_pipeline.codecs.json_values import decode_values
from sluice_pipeline.codecs.keys import decode_keys
from sluice_pipeline.plan import Source


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """The good records as rows; row i is record `index[i]`."""

    table: pa.Table
    index: np.ndarray
    bad: Mapping[int, str]
    """Why a record, by its place, can't be decoded."""
    tombstones: int


def decode_records(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], reserved: Mapping[str, Any], source: Source
) -> DecodedRecords:
    """Decode a batch; `reserved` are the other reserved columns besides `_key`. Never raises for a record's content."""
    decoded = decode_values(values, source.value)
    key_columns = decode_keys(keys, source.key)
    bad = {**dict(decoded.bad), **dict(key_columns.bad)}
    # Each decoder returns one row a record; bad and null ones are placeholders to be left out here.
    table = pa.table(
        {"_key": pa.array(keys, pa.binary()), **reserved, **_columns(key_columns.table), **_columns(decoded.table)}
    )
    index = np.arange(len(keys))
    dropped = [*bad, *decoded.nulls]
    if dropped:
        index = np.delete(index, dropped)
        table = table.take(pa.array(index))
    return DecodedRecords(table, index, bad, len(set(decoded.nulls) - bad.keys()))


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table.column(name) for name in table.column_names}
