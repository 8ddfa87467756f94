"""What Spark takes for plain it decodes as the codecs do; all that they refuse is doubtful to it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from codec_corpus import BAD_KEYS, FIELDS, GOOD_KEYS, values
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice_pipeline.codecs.json_values import decode_values
from sluice_pipeline.codecs.keys import decode_keys
from sluice_pipeline.codecs.spark_columns import Plain, plain_key, plain_value
from sluice_pipeline.schemas import parse_columns

pytestmark = pytest.mark.spark

SEED = 7
VALUE = "a string, b boolean, c int, d bigint, e float, f double, g date, `h h` timestamp"
KEYS = [kind for kind in GOOD_KEYS if kind != "nothing"]


def by_spark(spark: SparkSession, data: list[bytes | None], plain: Plain) -> tuple[list[bool], pa.Table]:
    frame = spark.createDataFrame(pa.table({"place": range(len(data)), "data": pa.array(data, pa.binary())}))
    table = frame.select("place", plain.is_plain.alias("is_plain"), *plain.columns).toArrow().sort_by("place")
    return table.column("is_plain").to_pylist(), table.drop_columns(["place", "is_plain"])


def assert_same(plain: list[bool], found: pa.Table, wanted: pa.Table, data: list[bytes | None]) -> None:
    texts = [table.select(wanted.column_names).cast(_as_text(table)).to_pylist() for table in (found, wanted)]
    for is_plain, one, other, record in zip(plain, *texts, data, strict=True):
        assert not is_plain or one == other, record


def _as_text(table: pa.Table) -> pa.Schema:
    """Arrow knows the year 0, Python doesn't."""
    return pa.schema(
        [(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type) for field in table.schema]
    )


def test_plain_values_are_decoded_alike(spark: SparkSession) -> None:
    data = list(values(SEED, 1_000))
    columns = parse_columns(VALUE)
    wanted = decode_values(data, columns)

    plain, found = by_spark(spark, data, plain_value(F.col("data"), columns))

    assert not [data[index] for index, _ in wanted.bad if plain[index]]
    assert all(plain[index] for index in wanted.nulls)
    assert_same(plain, found, wanted.table, data)


def test_what_producers_write_is_plain(spark: SparkSession) -> None:
    """Or everything would go through the driver."""
    data: list[bytes | None] = [
        b'{"a": "x", "b": true, "c": -1, "d": 12345678901, "e": 1.5, "f": -0.25e-3, "g": "2013-01-31"}',
        b'{"h h":"2013-01-31T12:13:14.123Z","a":"caf\\u00e9 \\ud83d\\ude00 \\"x\\" \\n"}',
        '{"a": "café", "unknown": {"list": [1, {"deep": "]}"}], "empty": {}, "none": []}}'.encode(),
        b'{"c": null, "f": 1}\n',
        b"{}",
    ]

    plain, _ = by_spark(spark, data, plain_value(F.col("data"), parse_columns(VALUE)))

    assert plain == [True] * len(data)


def test_long_texts_and_many_members_need_no_stack(spark: SparkSession) -> None:
    long = b'{"a": "' + rb"x\n" * 500_000 + b'", "z": [' + b"[1], " * 100_000 + b"2]}"
    wide = b"{" + b",".join(b'"m%d": {"n": %d}' % (number, number) for number in range(50_000)) + b"}"

    plain, found = by_spark(spark, [long, wide], plain_value(F.col("data"), parse_columns("a string")))

    assert plain == [True, True]
    assert len(found.column("a")[0].as_py()) == 1_000_000


@pytest.mark.parametrize("kind", KEYS)
def test_plain_keys_are_decoded_alike(spark: SparkSession, kind: str) -> None:
    data: list[bytes | None] = [None, *GOOD_KEYS[kind], *BAD_KEYS[kind]]
    columns = parse_columns(kind)
    wanted = decode_keys(data, columns)

    plain, found = by_spark(spark, data, plain_key(F.col("data"), columns))

    assert plain == [True] * (1 + len(GOOD_KEYS[kind])) + [False] * len(BAD_KEYS[kind])
    assert len(wanted.bad) == len(BAD_KEYS[kind])
    assert found.num_rows == len(data)
    texts = [repr(table.slice(0, 1 + len(GOOD_KEYS[kind])).to_pylist()) for table in (found, wanted.table)]
    assert texts[0] == texts[1]


def test_every_type_has_odd_values() -> None:
    assert FIELDS.keys() == {column.name for column in parse_columns(VALUE)}
