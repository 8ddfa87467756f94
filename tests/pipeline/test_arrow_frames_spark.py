"""Our own short way between Arrow and Spark gives what PySpark's own gives."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sluice_pipeline.arrow_frames import ROWS_A_PARTITION, to_frame, to_table
from sluice_pipeline.schemas import arrow_schema, parse_columns

pytestmark = pytest.mark.spark

COLUMNS = parse_columns("s string, t boolean, i int, l bigint, f float, d double, day date, at timestamp")
ROW = {"s": "ä", "t": True, "i": -1, "l": 2**62, "f": 0.5, "d": 1e300, "day": 3, "at": 1_600_000_000_123_456}
NOTHING = dict.fromkeys(ROW)
SCHEMA = pa.schema([*arrow_schema(COLUMNS), pa.field("_key", pa.binary())])


def table_of(rows):
    return pa.Table.from_pylist([{**row, "_key": b"\xff\x00"} for row in rows], schema=SCHEMA)


@pytest.mark.parametrize("rows", [[], [NOTHING], [ROW, NOTHING] * 3], ids=["none", "nulls", "several"])
def test_a_table_becomes_the_frame_that_pyspark_makes_of_it(spark, rows):
    table = table_of(rows)
    ours, pysparks = to_frame(spark, table), spark.createDataFrame(table)
    assert ours.schema == pysparks.schema
    assert ours.collect() == pysparks.collect()


@pytest.mark.parametrize("rows", [[], [NOTHING], [ROW, NOTHING] * 3], ids=["none", "nulls", "several"])
def test_a_frame_becomes_the_table_that_pyspark_makes_of_it(spark, rows):
    frame = spark.createDataFrame(table_of(rows))
    assert to_table(frame).to_pylist() == frame.toArrow().to_pylist()
    assert to_table(frame).schema.types == frame.toArrow().schema.types


def test_a_slice_and_a_table_of_several_chunks_keep_their_rows(spark):
    numbers = pa.table({"n": pa.chunked_array([range(5), range(5, 12)])}).slice(3, 7)
    assert to_table(to_frame(spark, numbers)).column("n").to_pylist() == list(range(3, 10))


def test_a_table_of_several_batches_keeps_its_rows(spark):
    table = pa.table({"n": range(2 * ROWS_A_PARTITION + 1)})
    assert to_frame(spark, table).agg(F.count("n"), F.max("n")).first() == (table.num_rows, table.num_rows - 1)


def test_what_a_query_raises_is_raised(spark):
    frame = to_frame(spark, pa.table({"n": [1]})).select(F.raise_error(F.lit("no")))
    with pytest.raises(PySparkException, match="no"):
        to_table(frame)
