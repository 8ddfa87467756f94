from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from sluice_pipeline.codecs.state import StateEncodingError, StateLayout
from sluice_pipeline.plan import Aggregate
from sluice_pipeline.schemas import arrow_schema

ALL = (
    Aggregate("rows", "count", None, "bigint"),
    Aggregate("present", "count", "n", "bigint"),
    Aggregate("total", "sum", "n", "bigint"),
    Aggregate("small", "sum", "i", "int"),
    Aggregate("real", "sum", "x", "double"),
    Aggregate("least", "min", "n", "bigint"),
    Aggregate("most", "max", "x", "double"),
    Aggregate("mean", "avg", "i", "int"),
    Aggregate("first", "min", "day", "date"),
    Aggregate("last", "max", "at", "timestamp"),
    Aggregate("low", "min", "f", "float"),
)
TYPES = {"n": "bigint", "i": "int", "x": "double", "day": "date", "at": "timestamp", "f": "float"}
EPOCH = datetime(1970, 1, 1)


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def stored(aggregate: Aggregate, value):
    """A column's value as partials have it."""
    if aggregate.type == "date":
        return (value - EPOCH.date()).days
    if aggregate.type == "timestamp":
        return (value - EPOCH) // timedelta(microseconds=1)
    return value


def partials(aggregates, groups) -> pa.Table:
    """What Spark hands over for each group of rows, computed row by row."""
    columns: dict[str, pa.Array] = {
        "#timestamp": pa.array([max(row["_timestamp"] for row in rows) for rows in groups], pa.int64()),
        "#rows": pa.array([len(rows) for rows in groups], pa.int64()),
    }
    for index, aggregate in enumerate(aggregates):
        present = [
            [stored(aggregate, row[aggregate.column]) for row in rows if row[aggregate.column] is not None]
            if aggregate.column
            else rows
            for rows in groups
        ]
        real = aggregate.output.type in ("double", "float")
        kind = pa.float64() if real else pa.int64()
        name = f"#{index}"
        if aggregate.function == "count":
            columns[name] = pa.array(list(map(len, present)), kind)
        elif aggregate.function in ("min", "max"):
            extreme = min if aggregate.function == "min" else max
            columns[name] = pa.array([extreme(values) if values else None for values in present], kind)
        elif aggregate.function == "sum" and aggregate.type == "bigint":
            high = [sum(value >> 32 for value in values) if values else None for values in present]
            low = [sum(value & 0xFFFFFFFF for value in values) if values else None for values in present]
            columns[name], columns[f"{name}.low"] = pa.array(high, kind), pa.array(low, kind)
        else:
            number = float if real else int
            columns[name] = pa.array([number(sum(values)) if values else None for values in present], kind)
            if aggregate.function == "avg":
                columns[f"{name}.count"] = pa.array(list(map(len, present)), pa.int64())
    return pa.table(columns)


def alike(found: list, wanted: list) -> bool:
    """Equal, but for the last digits of a double: sums depend on their order."""
    return len(found) == len(wanted) and all(
        math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
        if isinstance(one, float) and isinstance(other, float)
        else one == other
        for one, other in zip(found, wanted, strict=True)
    )


def truth(aggregates, rows) -> list:
    """The results over all rows at once."""
    results = []
    for aggregate in aggregates:
        values = (
            [row[aggregate.column] for row in rows if row[aggregate.column] is not None] if aggregate.column else rows
        )
        if aggregate.function == "count":
            results.append(len(values))
        elif not values:
            results.append(None)
        elif aggregate.function == "sum":
            results.append(math.fsum(values) if aggregate.type == "double" else wrapped(sum(values)))
        elif aggregate.function == "avg":
            results.append(sum(map(float, values)) / len(values))
        else:
            results.append(min(values) if aggregate.function == "min" else max(values))
    return results


def results(layout: StateLayout, values: list[bytes]) -> list[list]:
    columns = layout.results(layout.decode(values, "s"))
    listed = [
        column.cast(pa.timestamp("us")).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in columns.values()
    ]
    return list(map(list, zip(*listed, strict=True)))


ROWS = st.fixed_dictionaries(
    {
        "_timestamp": st.integers(-(2**40), 2**50),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "x": st.none() | st.integers(-(2**40), 2**40).map(float),  # whole, so that sums don't depend on their order
        "day": st.none() | st.dates(date(1900, 1, 1), date(2100, 1, 1)),
        "at": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
        "f": st.none() | st.floats(width=32, allow_nan=False),
    }
)
BATCHES = st.lists(st.dictionaries(st.integers(0, 3), st.lists(ROWS, min_size=1, max_size=4), max_size=3), max_size=5)


@settings(max_examples=200, deadline=None)
@given(BATCHES)
def test_merging_batches_gives_what_all_rows_at_once_give(batches):
    layout = StateLayout(ALL)
    store: dict[int, bytes] = {}
    seen: dict[int, list] = {}
    for batch in batches:
        keys = sorted(batch)
        if not keys:
            continue
        delta = partials(ALL, [batch[key] for key in keys])
        merged = layout.merge([store.get(key) for key in keys], delta, "s")
        store.update(zip(keys, layout.encode(merged), strict=True))
        for key in keys:
            seen.setdefault(key, []).extend(batch[key])

    keys = sorted(store)
    assert {len(value) for value in store.values()} <= {layout.width}
    for key, found in zip(keys, results(layout, [store[key] for key in keys]), strict=True):
        assert alike(found, truth(ALL, seen[key]))
    timestamps = layout.timestamps(layout.decode([store[key] for key in keys], "s"))
    assert timestamps == [max(row["_timestamp"] for row in seen[key]) for key in keys]


def test_the_encoding_is_the_documented_one_to_the_byte():
    aggregates = (
        Aggregate("orders", "count", None, "bigint"),
        Aggregate("total", "sum", "x", "double"),
        Aggregate("least", "min", "n", "bigint"),
        Aggregate("mean", "avg", "x", "double"),
    )
    layout = StateLayout(aggregates)
    rows = [{"_timestamp": 1000, "x": 2.5, "n": None}, {"_timestamp": 900, "x": None, "n": None}]

    [value] = layout.encode(layout.merge([None], partials(aggregates, [rows]), "s"))

    assert value == struct.pack(">BqBqBdBqBdq", 1, 1000, 1, 2, 1, 2.5, 0, 0, 1, 2.5, 1)
    assert layout.width == len(value)


def test_a_sum_of_nothing_but_nulls_is_null_until_a_value_comes():
    aggregates = (Aggregate("total", "sum", "n", "bigint"),)
    layout = StateLayout(aggregates)
    nothing = partials(aggregates, [[{"_timestamp": 1, "n": None}]])
    something = partials(aggregates, [[{"_timestamp": 1, "n": 0}]])

    first = layout.encode(layout.merge([None], nothing, "s"))
    second = layout.encode(layout.merge(list(first), something, "s"))
    third = layout.encode(layout.merge(list(second), nothing, "s"))

    assert [results(layout, values)[0][0] for values in (first, second, third)] == [None, 0, 0]


def test_sums_of_integers_wrap_as_javas_long_does():
    aggregates = (Aggregate("total", "sum", "n", "bigint"),)
    layout = StateLayout(aggregates)
    delta = partials(aggregates, [[{"_timestamp": 1, "n": 2**63 - 1}, {"_timestamp": 1, "n": 2}]])

    assert results(layout, layout.encode(layout.merge([None], delta, "s"))) == [[-(2**63) + 1]]


def test_nan_is_greater_than_every_number():
    aggregates = (Aggregate("least", "min", "x", "double"), Aggregate("most", "max", "x", "double"))
    layout = StateLayout(aggregates)
    values: list[bytes | None] = [None]
    for number in (1.0, math.nan, math.inf):
        delta = pa.table({"#timestamp": [1], "#rows": [1], "#0": [number], "#1": [number]})
        values = list(layout.encode(layout.merge(values, delta, "s")))

    [[least, most]] = results(layout, values)
    assert least == 1.0
    assert math.isnan(most)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"\x02" + b"\x00" * 17, "encoding version 2"),
        (b"\x01" + b"\x00" * 16, "17 bytes long and must be 18"),
        (b"", "0 bytes long"),
    ],
)
def test_a_value_of_another_layout_is_refused_naming_the_store(value: bytes, problem: str):
    layout = StateLayout((Aggregate("orders", "count", None, "bigint"),))

    with pytest.raises(StateEncodingError, match=rf"store by-customer: .*{problem}"):
        layout.decode([None, value], "by-customer")


def test_two_wrong_widths_that_make_up_for_each_other_are_refused():
    layout = StateLayout((Aggregate("orders", "count", None, "bigint"),))

    with pytest.raises(StateEncodingError, match="bytes long"):
        layout.decode([b"\x01" * 17, b"\x01" * 19], "s")


def test_results_have_the_types_that_the_plan_promises():
    layout = StateLayout(ALL)

    columns = layout.results(layout.decode([None, None], "s"))

    assert {name: column.type for name, column in columns.items()} == layout.result_types()
    assert list(layout.result_types().values()) == arrow_schema(aggregate.output for aggregate in ALL).types


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(3))
def test_partials_in_batches_and_merges_equal_sparks_own_aggregate(spark, seed: int):
    random = np.random.default_rng(seed)
    count = 600
    layout = StateLayout(ALL)

    def some(values):
        return pa.array(values, mask=random.random(count) < 0.3)

    table = pa.table(
        {
            "k": pa.array([b"%d" % number for number in random.integers(0, 20, count)], pa.binary()),
            "_timestamp": random.integers(0, 2**40, count),
            "n": some(random.integers(-(2**60), 2**60, count) if seed else random.integers(-(2**63), 2**63 - 1, count)),
            "i": some(random.integers(-(2**31), 2**31, count).astype(np.int32)),
            "x": some(np.where(random.random(count) < 0.02, np.nan, random.integers(-1000, 1000, count) / 4)),
            "day": some(random.integers(-10_000, 30_000, count).astype("datetime64[D]")),
            "at": some(random.integers(-(2**50), 2**50, count).astype("datetime64[us]")).cast(
                pa.timestamp("us", "UTC")
            ),
            "f": some(random.random(count).astype(np.float32)),
        }
    )
    store: dict[bytes, bytes] = {}
    cuts = [0, *sorted(random.integers(0, count, 4).tolist()), count]
    for start, stop in pairwise(cuts):
        frame = spark.createDataFrame(table.slice(start, stop - start))
        delta = (
            frame.groupBy("k")
            .agg(*(column.alias(name) for name, column in layout.partials().items()))
            .toArrow()
            .sort_by("k")
        )
        keys = delta.column("k").to_pylist()
        store.update(zip(keys, layout.encode(layout.merge(list(map(store.get, keys)), delta, "s")), strict=True))

    whole = spark.createDataFrame(table)
    sum_n = F.sum(F.col("n").cast("decimal(38,0)")).alias("total")
    expected = whole.groupBy("k").agg(
        F.count(F.lit(1)).alias("rows"), F.count("n").alias("present"), sum_n, F.sum("i").alias("small"),
        F.sum("x").alias("real"), F.min("n").alias("least"), F.max("x").alias("most"), F.avg("i").alias("mean"),
        F.min("day").alias("first"), F.max("at").alias("last"), F.min("f").alias("low"),
    ).toArrow().sort_by("k")  # fmt: skip
    keys = expected.column("k").to_pylist()
    assert sorted(store) == keys
    columns = layout.results(layout.decode([store[key] for key in keys], "s"))
    for name, column in columns.items():
        wanted = expected.column(name).to_pylist()
        if name == "total":
            wanted = [None if number is None else wrapped(int(number)) for number in wanted]
        assert alike(column.to_pylist(), wanted), name


@pytest.mark.spark
def test_a_batch_whose_sum_overflows_does_not_fail_in_spark(spark):
    layout = StateLayout((Aggregate("total", "sum", "n", "bigint"),))
    frame = spark.createDataFrame([(b"k", 1, 2**63 - 1), (b"k", 2, 2**63 - 1)], "k binary, _timestamp bigint, n bigint")

    delta = frame.groupBy("k").agg(*(column.alias(name) for name, column in layout.partials().items())).toArrow()

    assert results(layout, layout.encode(layout.merge([None], delta, "s"))) == [[-2]]
