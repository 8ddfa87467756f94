from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_pipeline.codecs.keys import decode_keys, encode_key, key_expression
from sluice_pipeline.schemas import ddl, parse_columns

VECTORS = [
    ("k string", ("é",), "c3a9"),
    ("k string", ("",), ""),
    ("k int", (1,), "00000001"),
    ("k int", (-2,), "fffffffe"),
    ("k int", (-(2**31),), "80000000"),
    ("k bigint", (1,), "0000000000000001"),
    ("k bigint", (-1,), "ffffffffffffffff"),
    ("k bigint", (2**63 - 1,), "7fffffffffffffff"),
    ("k bigint", (-(2**63),), "8000000000000000"),
    ("k double", (1.5,), "3ff8000000000000"),
    ("k double", (-2.0,), "c000000000000000"),
    ("k double", (0.0,), "0000000000000000"),
    ("k double", (-0.0,), "0000000000000000"),
    ("k double", (float("nan"),), "7ff8000000000000"),
    ("k double", (float("inf"),), "7ff0000000000000"),
    ("k boolean", (True,), "01"),
    ("k boolean", (False,), "00"),
    ("k date", (date(2013, 1, 31),), b"2013-01-31".hex()),
    ("k date", (date(987, 1, 1),), b"0987-01-01".hex()),
    ("a string, b bigint", ("x", -7), b'{"a":"x","b":-7}'.hex()),
    ("b bigint, a string", (-7, "x"), b'{"b":-7,"a":"x"}'.hex()),
    ("a string, b date", ("", date(2013, 1, 31)), b'{"a":"","b":"2013-01-31"}'.hex()),
    ("a boolean, b int", (True, 0), b'{"a":true,"b":0}'.hex()),
    ("a string, b string", ('q"\\/\n\t\x1f\x7f', "é\u2028😀"),
     '{"a":"q\\"\\\\/\\n\\t\\u001F\x7f","b":"é\u2028😀"}'.encode().hex()),
    ("`a é` string", ("x",), "78"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "parts", "expected"), VECTORS)
def test_keys_have_the_bytes_of_javas_serialisers(schema: str, parts: tuple, expected: str):
    assert encode_key(parts, parse_columns(schema)) == bytes.fromhex(expected)


@pytest.mark.parametrize(("schema", "parts", "expected"), VECTORS)
def test_keys_are_read_again(schema: str, parts: tuple, expected: str):
    columns = parse_columns(schema)

    decoded = decode_keys([bytes.fromhex(expected), None], columns)

    assert decoded.bad == []
    assert str(list(decoded.table.to_pylist()[0].values())) == str(list(parts)).replace("-0.0", "0.0")
    assert set(decoded.table.to_pylist()[1].values()) == {None}


def test_a_key_with_a_null_part_is_null():
    assert encode_key([None], parse_columns("a string")) is None
    assert encode_key(["x", None], parse_columns("a string, b int")) is None


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        ("k string", b"\xff"),
        ("k int", b"\x00"),
        ("k bigint", b"\x00" * 7),
        ("k bigint", b""),
        ("k double", b"\x00" * 9),
        ("k boolean", b"\x02"),
        ("k date", b"2013-02-30"),
        ("a string, b int", b'{"a":"x"}'),
        ("a string, b int", b'{"a":"x","b":null}'),
        ("a string, b int", b"oops"),
    ],
)
def test_a_bad_key_is_reported_by_its_index_and_reads_as_null(schema: str, bad: bytes):
    columns = parse_columns(schema)
    good = {"string": "x", "int": 1, "bigint": 1, "double": 1.0, "boolean": True, "date": date(2013, 1, 31)}
    key = encode_key([good[column.type] for column in columns], columns)

    decoded = decode_keys([None, key, bad, key], columns)

    assert [index for index, _ in decoded.bad] == [2]
    read = [list(row.values()) for row in decoded.table.to_pylist()]
    assert read[0] == read[2] == [None] * len(columns)
    assert read[1] == read[3] == [good[column.type] for column in columns]


def test_a_stream_without_key_columns_reads_any_key():
    assert decode_keys([b"anything", None], ()).table.num_columns == 0


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(0, 5), st.integers(0, 5))
def test_arrow_arrays_of_keys_are_read_wherever_they_are_cut(numbers: list, skipped: int, dropped: int):
    columns = parse_columns("k bigint")
    array = pa.array([encode_key([number], columns) for number in numbers], pa.binary())
    kept = slice(skipped, max(skipped, len(numbers) - dropped))
    part = array.slice(kept.start, kept.stop - kept.start)

    assert decode_keys(part, columns).table.column("k").to_pylist() == numbers[kept]
    assert decode_keys(pa.chunked_array([part, part]), columns).table.num_rows == 2 * len(part)


@pytest.mark.spark
@pytest.mark.parametrize("schema", sorted({schema for schema, _, _ in VECTORS}))
def test_spark_makes_the_same_bytes(spark, schema: str):
    columns = parse_columns(schema)
    rows = [parts for of, parts, _ in VECTORS if of == schema]
    rows += [tuple(None if index == at else part for index, part in enumerate(rows[0])) for at in range(len(columns))]

    made = [row[0] for row in spark.createDataFrame(rows, ddl(columns)).select(key_expression(columns)).collect()]

    assert [None if key is None else bytes(key) for key in made] == [encode_key(parts, columns) for parts in rows]


@pytest.mark.spark
def test_spark_agrees_on_random_keys(spark):
    random = np.random.default_rng(7)
    columns = {
        "string": ["".join(map(chr, random.integers(1, 0x2FF, 6))) for _ in range(200)],
        "int": random.integers(-(2**31), 2**31, 200).tolist(),
        "bigint": random.integers(-(2**63), 2**63 - 1, 200).tolist(),
        "double": random.normal(0, 1e20, 200).tolist(),
    }
    for kind, values in columns.items():
        one, two = parse_columns(f"k {kind}"), parse_columns(f"k {kind}, s string")
        frame = spark.createDataFrame([(value, columns["string"][0]) for value in values], ddl(two))

        single = [bytes(row[0]) for row in frame.select(key_expression(one)).collect()]

        assert single == [encode_key([value], one) for value in values]
        if kind != "double":
            double = [bytes(row[0]) for row in frame.select(key_expression(two)).collect()]
            assert double == [encode_key([value, columns["string"][0]], two) for value in values]
