from __future__ import annotations

import json
from datetime import UTC, date, datetime

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice_pipeline.codecs.json_values import decode_values, encode_values
from sluice_pipeline.schemas import parse_columns

COLUMNS = parse_columns("a string, n bigint")
GOOD = [b'{"a":"x","n":1}', b'{"n":2,"a":"y","other":[1,{"b":null}]}', b"{}", b'{"a":null,"n":null}']
GOOD_ROWS = [("x", 1), ("y", 2), (None, None), (None, None)]


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))


def test_a_batch_of_good_records_becomes_one_row_each():
    decoded = decode_values(GOOD, COLUMNS)

    assert rows(decoded.table) == GOOD_ROWS
    assert decoded.bad == []
    assert decoded.nulls == []


@pytest.mark.parametrize(
    "trap",
    [
        b"", b" ", b"\n", b"\n\n", b"null", b'{"a":"1"}{"a":"2"}', b'{"a":"1"} null {"a":"2"}', b'{"a":"1"}\n{"a":"2"}',
        b'{"a":"1"', b',"n":2}', b'{"a":', b'{"a":"1"}}', b"[]", b'"text"', b"1", b'{"a":"x\ny"}', b'{"a":"x\ry"}',
        b'{"a":1}', b'{"a":true}', b'{"n":"1"}', b'{"n":1.5}', b'{"n":99999999999999999999}', b'{"a":"\xff"}',
        b'{"a":"\\ud800"}', b'{"a":"x","a":"y"}', b'{"a":{}}', b'{"n":[1]}', b'\xef\xbb\xbf{"a":"x"}', b"{'a':'x'}",
        b'{"a":"x",}', b'{"a":"x"}\x00', b'{"n":01}', b'{"n":1e999}',
    ],
)  # fmt: skip
def test_a_bad_record_is_reported_and_shifts_no_other(trap: bytes):
    decoded = decode_values([*GOOD, trap, *GOOD], COLUMNS)

    assert [index for index, _ in decoded.bad] == [len(GOOD)]
    assert decoded.bad[0][1]
    assert rows(decoded.table) == [*GOOD_ROWS, (None, None), *GOOD_ROWS]


def test_two_traps_that_make_up_for_each_other_shift_nothing():
    """Two objects in one record and one object over two: as many rows as records, and all of them wrong."""
    decoded = decode_values([b'{"a":"1"}{"a":"2"}', b'{"a":"3"', b',"n":4}', b'{"a":"5"}'], COLUMNS)

    assert [index for index, _ in decoded.bad] == [0, 1, 2]
    assert rows(decoded.table)[3] == ("5", None)


def test_whitespace_around_and_inside_an_object_is_fine():
    pretty = json.dumps({"a": "x", "n": 1}, indent=2).encode()

    decoded = decode_values([b'  {"a":"x","n":1}\r\n', pretty, b'{"a":"x","n":1}'], COLUMNS)

    assert decoded.bad == []
    assert rows(decoded.table) == [("x", 1)] * 3


def test_tombstones_are_told_apart_from_bad_records():
    decoded = decode_values([None, b'{"a":"x"}', None, b"oops"], COLUMNS)

    assert decoded.nulls == [0, 2]
    assert [index for index, _ in decoded.bad] == [3]
    assert rows(decoded.table) == [(None, None), ("x", None), (None, None), (None, None)]


def test_nothing_but_tombstones_and_nothing_at_all():
    assert decode_values([None, None], COLUMNS).table.num_rows == 2
    assert decode_values([], COLUMNS).table.num_rows == 0
    assert decode_values([b"anything", None], ()).nulls == [1]


def test_reasons_say_what_is_wrong():
    decoded = decode_values([b'{"a":1}', b"oops", b'{"a":"x"', b'{"a":"1"}{"a":"2"}', b'{"n":1.5}'], COLUMNS)

    reasons = dict(decoded.bad)
    assert reasons[0] == "field 'a' is a number and not text"
    assert reasons[1] == reasons[2] == "it is not a JSON object"
    assert reasons[3].startswith("it is not JSON: ") or "more than one" in reasons[3]
    assert "couldn't parse:1.5" in reasons[4]


def test_all_types_are_read():
    columns = parse_columns("s string, b boolean, i int, l bigint, f float, d double, day date, at timestamp")
    record = (
        b'{"s":"\\u00e9","b":true,"i":-1,"l":9007199254740993,"f":0.5,"d":3,'
        b'"day":"2013-01-31","at":"2013-01-31T05:00:00.5+02:00"}'
    )

    table = decode_values([record, b"{}"], columns).table

    assert rows(table) == [
        ("é", True, -1, 9007199254740993, 0.5, 3.0, date(2013, 1, 31), datetime(2013, 1, 31, 3, 0, 0, 500_000, UTC)),
        (None,) * 8,
    ]
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-31T05:00:00Z", datetime(2013, 1, 31, 5, tzinfo=UTC)),
        ("2013-01-31 05:00:00", datetime(2013, 1, 31, 5, tzinfo=UTC)),
        ("2013-01-31T05:00:00.123456789Z", datetime(2013, 1, 31, 5, 0, 0, 123456, UTC)),
        ("2013-01-31T05:00:00-01:30", datetime(2013, 1, 31, 6, 30, tzinfo=UTC)),
        ("2013-01-31", datetime(2013, 1, 31, tzinfo=UTC)),
    ],
)
def test_timestamps_of_all_usual_forms_are_read_alone_and_among_others(text: str, expected: datetime):
    columns = parse_columns("at timestamp")
    record, other = json.dumps({"at": text}).encode(), b'{"at":"2020-01-01T00:00:00Z"}'

    assert rows(decode_values([record], columns).table) == [(expected,)]
    assert rows(decode_values([other, record], columns).table)[1] == (expected,)


def test_a_wrong_date_is_that_records_fault_alone():
    columns = parse_columns("day date, at timestamp")

    decoded = decode_values([b'{"day":"2013-02-30"}', b'{"at":"noon"}', b'{"day":"2013-02-28"}'], columns)

    assert [index for index, _ in decoded.bad] == [0, 1]
    assert rows(decoded.table)[2][0] == date(2013, 2, 28)


def test_a_record_longer_than_a_block_is_read():
    long = orjson.dumps({"pad": "x" * 3_000_000, "a": "far", "n": 1})

    decoded = decode_values([long, *GOOD, long], COLUMNS)

    assert decoded.bad == []
    assert decoded.table.num_rows == len(GOOD) + 2


FRAGMENTS = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b" ", b"null", b"NaN", b"1", b"1.5", b"-", b"e9", b'"a"', b'"n"',
     b'"a":"x"', b'"n":7', b"\\", b"\\u0041", b"\xff", b"\x00", b"{}", b'{"a":"x"}', b'{"n":1}', b"true"]
)  # fmt: skip
RECORDS = st.one_of(
    st.none(),
    st.lists(FRAGMENTS, max_size=8).map(b"".join),
    st.lists(FRAGMENTS, max_size=6).map(lambda parts: b"{" + b"".join(parts) + b"}"),
    st.fixed_dictionaries(
        {"a": st.text() | st.integers() | st.none(), "n": st.integers(-(2**70), 2**70) | st.floats()}
    ).map(lambda value: json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(RECORDS, max_size=12))
def test_a_record_is_read_the_same_alone_and_in_any_company(records: list[bytes | None]):
    together = decode_values(records, COLUMNS)
    alone = [decode_values([record], COLUMNS) for record in records]

    assert together.table.num_rows == len(records)
    assert [index for index, _ in together.bad] == [index for index, one in enumerate(alone) if one.bad]
    assert together.nulls == [index for index, one in enumerate(alone) if one.nulls]
    assert list(map(repr, rows(together.table))) == [repr(rows(one.table)[0]) for one in alone]


def test_rows_are_written_as_objects_in_order_of_the_columns():
    columns = {
        "n": np.array([1, 2], np.int64),
        "x": np.array([0.5, float("nan")]),
        "s": pa.array(['say "hi", é', None]),
        "b": [True, None],
        "50%": pa.chunked_array([["a"], ["b"]]),
    }

    assert [json.loads(value) for value in encode_values(columns)] == [
        {"n": 1, "x": 0.5, "s": 'say "hi", é', "b": True, "50%": "a"},
        {"n": 2, "x": None, "s": None, "b": None, "50%": "b"},
    ]
    assert encode_values({"b": [1], "a": [2]}) == [b'{"b":1,"a":2}']
    assert encode_values({"a": []}) == []


def test_dates_and_timestamps_are_written_so_that_they_are_read_again():
    columns = parse_columns("day date, at timestamp")
    table = pa.table(
        {
            "day": pa.array([date(2013, 1, 31), None]),
            "at": pa.array([datetime(2013, 1, 31, 5, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        }
    )

    values = encode_values({name: table.column(name) for name in table.column_names})

    assert values[0] == b'{"day":"2013-01-31","at":"2013-01-31T05:00:00.000000Z"}'
    assert rows(decode_values(values, columns).table) == rows(table)


@given(
    st.lists(
        st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)),
        max_size=20,
    )
)
def test_what_is_written_is_read_again(written: list[tuple[str, int, float]]):
    columns = parse_columns("s string, n bigint, x double")
    texts, numbers, reals = ([row[index] for row in written] for index in range(3))

    values = encode_values({"s": texts, "n": numbers, "x": reals})

    assert rows(decode_values(values, columns).table) == written
