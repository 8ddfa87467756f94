from __future__ import annotations

import pytest

from sluice_pipeline.plan import Column
from sluice_pipeline.schemas import TYPES, arrow_schema, ddl, parse_columns


def test_names_and_types_are_read_with_any_spacing_and_case():
    assert parse_columns(" a  STRING ,b\tbigint,\n c double ") == (
        Column("a", "string"),
        Column("b", "bigint"),
        Column("c", "double"),
    )


def test_sparks_synonyms_are_understood():
    assert [column.type for column in parse_columns("a long, b integer, c real")] == ["bigint", "int", "float"]


def test_unusual_names_stand_in_backquotes():
    assert parse_columns("`a, b` int, `ü` string") == (Column("a, b", "int"), Column("ü", "string"))


@pytest.mark.parametrize(
    "text", ["", " ", "a", "a int,", ",a int", "a int,,b int", "a int b int", "a-b int", "1a int", "`a int", "a: int"]
)
def test_what_is_not_a_schema_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a column"):
        parse_columns(text)


@pytest.mark.spark
def test_spark_reads_the_same_columns(spark):
    columns = parse_columns(", ".join(f"`{kind} é` {kind}" for kind in TYPES))

    fields = spark.createDataFrame([], ddl(columns)).schema.fields

    assert [(field.name, field.dataType.simpleString()) for field in fields] == [(c.name, c.type) for c in columns]


@pytest.mark.spark
def test_arrow_and_spark_agree_on_every_type(spark):
    columns = parse_columns(", ".join(f"c_{kind} {kind}" for kind in TYPES))

    frame = spark.createDataFrame(arrow_schema(columns).empty_table())

    assert [field.dataType.simpleString() for field in frame.schema.fields] == list(TYPES)
