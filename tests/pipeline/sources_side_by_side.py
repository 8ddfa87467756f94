"""Both sources over the same topics, in a process of its own: a session's class path is fixed when its JVM starts.

    python sources_side_by_side.py bootstrap directory topic=key-type …

Prints one JSON object: for each topic what each source brought, as text that can be compared.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from sluice_jvm.jars import SPARK_KAFKA, resolve
from sluice_pipeline.engine.session import start_engine
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.plan import Source
from sluice_pipeline.schemas import parse_columns
from sluice_pipeline.source.batch import Batch, RecordSource, Rows
from sluice_pipeline.source.consumer_source import ConsumerSource
from sluice_pipeline.source.spark_source import KafkaReader, SparkSource

VALUE = "a string, b boolean, c int, d bigint, e float, f double, g date, `h h` timestamp"
LIMIT = 250
SECONDS = 60.0


def main() -> None:
    bootstrap, directory, *topics = sys.argv[1:]
    engine = start_engine("local[2]", 2, {}, jars=resolve(SPARK_KAFKA), log=Path(directory, "spark.log"))
    try:
        found = {}
        for one in topics:
            topic, _, key = one.partition("=")
            columns = parse_columns(VALUE) if key != "nothing" else ()
            source = Source((topic,), parse_columns(key.replace("nothing", "k string")), columns, "earliest", False)
            found[topic] = _side_by_side(engine.spark, bootstrap, source, check_parts=not found)
        print(json.dumps(found))
    finally:
        engine.stop()


def _side_by_side(spark: SparkSession, bootstrap: str, source: Source, *, check_parts: bool) -> dict[str, Any]:
    offsets = Offsets(bootstrap, {}, "unused", 0.0)
    topic = source.topics[0]
    partitions = [(topic, partition) for partition in range(offsets.facts([topic])[topic].partitions)]
    ends = offsets.stable_ends(partitions)
    local = ConsumerSource(bootstrap, {}, source)
    cluster = SparkSource(spark, KafkaReader(bootstrap, "side-by-side"), offsets, source)
    found = {}
    for name, side in (("local", local), ("cluster", cluster)):
        side.assign(dict.fromkeys(partitions, 0))
        # Only the cluster's side ends behind markers and aborted records; the other has read all when nothing comes.
        found[name] = _drain(spark, side, dict(ends) if side is cluster else None, side is cluster and check_parts)
        side.close()
    return found


def _drain(spark: SparkSession, source: RecordSource, ends: dict[Any, int] | None, check_parts: bool) -> dict[str, Any]:
    positions: dict[Any, int] = {}
    rows: list[str] = []
    rejected: list[str] = []
    batches = records = tombstones = 0
    schema = ""
    parts: dict[str, bool] = {}
    deadline = time.monotonic() + SECONDS
    while positions != ends and time.monotonic() < deadline:
        batch = source.read(LIMIT, 1.0)
        if batch is None:
            if ends is None and batches:
                break
            continue
        positions.update(batch.ends)
        batches, records, tombstones = batches + 1, records + batch.records, tombstones + batch.tombstones
        rejected += [repr(one) for one in batch.rejected]
        if batch.rows.count:
            schema = batch.rows.frame(spark, None).schema.simpleString()
        rows += _texts(spark, batch.rows)
        if batches == 1 and check_parts:
            parts = _parts(spark, batch)
    return {
        "batches": batches, "records": records, "rows": sorted(rows), "rejected": sorted(rejected),
        "tombstones": tombstones, "schema": schema, "parts": parts,
    }  # fmt: skip


def _texts(spark: SparkSession, rows: Rows) -> list[str]:
    table = rows.frame(spark, None).toArrow()
    assert table.num_rows == rows.count, f"{rows.count} rows are announced and {table.num_rows} come"
    for place, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type):  # Arrow knows the year 0, Python doesn't
            table = table.set_column(place, field.name, table.column(place).cast(pa.string()))
    return list(map(repr, table.to_pylist()))


def _parts(spark: SparkSession, batch: Batch) -> dict[str, bool]:
    """Whether the parts of the rows are what their names say."""
    rows = batch.rows
    every = set(_texts(spark, rows))
    one, other = rows.halves()
    quarters = [part for half in (one, other) for part in half.halves()]
    first = one.first()
    rest = rows.without([first])
    of_others = rows.without_partitions([first.partition])
    return {
        "halves make the whole": set(_texts(spark, one)) | set(_texts(spark, other)) == every,
        "halves are halves": abs(one.count - other.count) <= 1 and one.count + other.count == rows.count,
        "quarters make the whole": set().union(*(_texts(spark, part) for part in quarters)) == every,
        "the first is in the first half": any(_place(first) in text for text in _texts(spark, one)),
        "it is whole": first.value is not None,
        "without it one is missing": len(every - set(_texts(spark, rest))) == 1 and rest.count == rows.count - 1,
        "and it is the one": not any(_place(first) in text for text in _texts(spark, rest)),
        "without its partition": not any(f"'_partition': {first.partition}," in t for t in _texts(spark, of_others)),
        "but with the others": of_others.count > 0,
        "columns are chosen": rows.frame(spark, ["_offset", "_key"]).columns == ["_offset", "_key"],
    }


def _place(record: Any) -> str:
    return f"'_partition': {record.partition}, '_offset': {record.offset},"


if __name__ == "__main__":
    main()
