"""Arrow tables to Spark frames and back, with a few calls through PySpark's gateway where its own methods make sixty.

A call takes 0.1 ms on an idle machine and a time slice on a busy one, and a batch waits for each of them. PySpark asks
for its settings again at every conversion; here they are known, since they are ours (`engine.session`), and the tables
have only the types of `schemas`. This reaches below PySpark's public methods, so that its version is pinned, and a
test compares both ways.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_PARTITION = 200_000


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The table as a frame: what `spark.createDataFrame` gives."""
    if _is_encrypted(spark):
        return spark.createDataFrame(table)
    read, convert = _entry_points(spark)
    with tempfile.NamedTemporaryFile(dir=_directory(spark)) as file:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, ROWS_A_PARTITION)
        file.flush()
        batches = read(file.name)
    frame: DataFrame = ClassicFrame(convert(batches, _schema(table.schema), spark._jsparkSession), spark)
    return frame


def to_table(frame: DataFrame) -> pa.Table:
    """The frame's rows: what `frame.toArrow` gives. Raises PySparkException."""
    batches = frame._collect_as_arrow(empty_list_if_zero_records=False)  # type: ignore[operator]
    return pa.Table.from_batches(batches)


@functools.lru_cache(maxsize=1)
def _entry_points(spark: SparkSession) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    return jvm.PythonSQLUtils.readArrowStreamFromFile, jvm.PythonSQLUtils.toDataFrame


@functools.lru_cache(maxsize=1)
def _directory(spark: SparkSession) -> Path:
    """Where Spark keeps its own files of this kind; it goes with the session."""
    return Path(spark.sparkContext._temp_dir)


@functools.lru_cache(maxsize=1)
def _is_encrypted(spark: SparkSession) -> bool:
    """Whether Spark must not write rows to the disk as they are."""
    return bool(spark.sparkContext._encryption_enabled)


@functools.lru_cache(maxsize=256)
def _schema(schema: pa.Schema) -> str:
    return from_arrow_schema(schema).json()
