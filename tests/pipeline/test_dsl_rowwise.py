from __future__ import annotations

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

import sluice
from sluice import TopologyError, count
from sluice_pipeline.plan import RESERVED, Column, ToTopic

pytestmark = pytest.mark.spark


def orders(app: sluice.Topology) -> sluice.Stream:
    return app.stream("orders", key="customer string", value="amount double, country string, n bigint")


def keeps_key(spark, function, *key: str) -> bool:
    """Whether grouping what the function returns needs no repartition topic."""
    app = sluice.Topology("shop")
    orders(app).transform(function).group_by(*(key or ("customer",))).aggregate("s", n=count())
    return len(app.build(spark).subtopologies) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda df: df,
        lambda df: df.where("amount > 10"),
        lambda df: df.withColumn("twice", F.col("amount") * 2),
        lambda df: df.select("*", F.upper("country").alias("up")).drop("n"),
        lambda df: df.withColumn("part", F.explode(F.split("country", ","))),
        lambda df: df.alias("o").select("o.*"),
        lambda df: df.withColumn("customer", F.col("customer")),
        lambda df: df.union(df),
        lambda df: df.where("n > 1").unionByName(df.where("n < 1")),
        lambda df: df.na.drop().na.fill({"amount": 0.0}),
        lambda df: df.hint("broadcast"),
        lambda df: df.withColumn("udf", F.udf(lambda x: x, "double")("amount")),
        lambda df: df.withColumn("_timestamp", F.col("n")),
        lambda df: df.select("_key", "_partition", "_offset", "_timestamp", "customer"),
    ],
)
def test_row_wise_code_that_keeps_the_key_needs_no_repartition(spark, function):
    assert keeps_key(spark, function)


@pytest.mark.parametrize(
    "function",
    [
        lambda df: df.withColumn("customer", F.upper("customer")),
        lambda df: df.withColumn("customer", F.col("country")),
        lambda df: df.withColumn("other", F.col("customer")).withColumn("customer", F.lit("x")),
        lambda df: df.withColumnRenamed("customer", "c").withColumnRenamed("country", "customer"),
        lambda df: df.union(df.withColumn("customer", F.upper("customer"))),
        lambda df: df.withColumn("customer", F.upper("customer")).union(df),
        lambda df: df.union(df.select(*RESERVED, "country", "amount", "customer", "n")),
        lambda df: df.withColumn("customer", F.udf(lambda x: x)("customer")),
        lambda df: df.mapInArrow(lambda batches: batches, df.schema),
        lambda df: df.mapInPandas(lambda frames: frames, df.schema),
    ],
)  # fmt: skip
def test_a_column_that_only_has_the_keys_name_is_repartitioned(spark, function):
    assert not keeps_key(spark, function)


def test_a_key_under_another_name_is_still_the_key(spark):
    assert keeps_key(spark, lambda df: df.withColumnRenamed("customer", "buyer"), "buyer")
    assert keeps_key(spark, lambda df: df.withColumn("buyer", F.col("customer")), "buyer")


def test_a_renamed_part_of_a_key_of_several_columns_is_another_key(spark):
    app = sluice.Topology("shop")
    rows = app.stream("t", key="a string, b int", value="v int")
    renamed = rows.transform(lambda df: df.withColumnRenamed("a", "c"))
    renamed.group_by("c", "b").aggregate("s", n=count())

    assert len(app.build(spark).subtopologies) == 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda df: df.groupBy("customer").count(), "an aggregate"),
        (lambda df: df.select(F.sum("amount")), "an aggregate"),
        (lambda df: df.distinct(), "distinct"),
        (lambda df: df.dropDuplicates(["customer"]), "distinct"),
        (lambda df: df.orderBy("amount"), "a sort"),
        (lambda df: df.sortWithinPartitions("amount"), "a sort"),
        (lambda df: df.limit(3), "a limit"),
        (lambda df: df.offset(3), "an offset"),
        (lambda df: df.withColumn("r", F.row_number().over(Window.partitionBy("customer").orderBy("n"))), "a window"),
        (lambda df: df.join(df.select("customer"), "customer"), "a join"),
        (lambda df: df.crossJoin(df.select(F.lit(1).alias("one"))), "a join"),
        (lambda df: df.intersect(df), "an intersect"),
        (lambda df: df.exceptAll(df), "an except"),
        (lambda df: df.sample(0.5), "a sample"),
        (lambda df: df.repartition(3), "a repartition"),
        (lambda df: df.repartition("customer"), "a repartition"),
        (lambda df: df.observe("seen", F.count(F.lit(1))), "the operator CollectMetrics"),
        (lambda df: df.groupBy("customer").applyInPandas(lambda frame: frame, df.schema), "a grouped map"),
        (lambda df: df.where("amount > (select max(id) from range(3))"), "a subquery"),
        (lambda df: df.where("exists (select 1 from range(1))"), "a subquery"),
        (lambda df: df.sparkSession.createDataFrame([], df.schema), "reads other rows than the stream's"),
        (lambda df: df.union(df.sparkSession.createDataFrame([], df.schema)), "reads other rows than the stream's"),
        (lambda df: df.sparkSession.range(3), "reads other rows than the stream's"),
        (lambda df: df.drop("_key"), "loses the column _key"),
        (lambda df: df.select("customer", "amount"), "loses the column _key"),
        (lambda df: df.drop("_timestamp"), "loses the column _timestamp"),
        (lambda df: df.withColumn("_key", F.lit(b"x")), "changes the column _key"),
        (lambda df: df.withColumn("_partition", F.col("_partition") + 1), "changes the column _partition"),
        (lambda df: df.withColumn("_offset", F.col("n")), "changes the column _offset"),
        (lambda df: df.withColumn("_timestamp", F.current_timestamp()), "makes _timestamp timestamp"),
        (lambda df: df.union(df.withColumn("_key", F.lit(b"x"))), "changes the column _key"),
        (lambda df: df.select("*", F.lit(1).alias("Amount")), "have the same name"),
        (lambda df: df.where("nobody > 1"), "the transformation raised AnalysisException: [UNRESOLVED_COLUMN"),
        (lambda df: 1 / 0, "the transformation raised ZeroDivisionError: division by zero"),
        (lambda df: df.columns, "returned list and not a DataFrame"),
        (lambda df: None, "returned NoneType and not a DataFrame"),
    ],
)
def test_what_is_not_row_wise_is_refused_naming_the_line(spark, function, message):
    app = sluice.Topology("shop")
    orders(app).transform(function).to("out")

    with pytest.raises(TopologyError) as caught:
        app.build(spark)

    assert message in str(caught.value)
    assert str(caught.value).startswith("test_dsl_rowwise.py:")
    assert "\n" not in str(caught.value)


def test_columns_that_no_record_can_hold_are_refused_where_they_leave(spark):
    app = sluice.Topology("shop")
    orders(app).transform(lambda df: df.withColumn("parts", F.split("country", ","))).to("out")

    with pytest.raises(TopologyError, match=r"'parts' is array<string> and can't be written to topic 'out'"):
        app.build(spark)


def test_what_a_transformation_adds_can_be_grouped_and_written(spark):
    app = sluice.Topology("shop")
    rows = orders(app).filter("amount > 10").select("customer", "upper(country) as land", "cast(n as int) as few")
    rows.group_by("land").aggregate("by-land", n=count("few"))
    rows.to("out")

    first, second = app.build(spark).subtopologies
    repartition, sink = first.outputs

    assert isinstance(sink, ToTopic)
    assert sink.value == (Column("land", "string"), Column("few", "int"))
    assert repartition.key == (Column("land", "string"),)
    assert second.source.value == (Column("few", "int"),)
    assert [transformation.where for transformation in sink.transformations] == [
        transformation.where for transformation in repartition.transformations
    ]
    assert sink.nodes == (
        "KSTREAM-FILTER-0000000001",
        "KSTREAM-MAPVALUES-0000000002",
        "KSTREAM-SINK-0000000008",
    )


def test_updates_of_a_table_can_be_transformed(spark):
    app = sluice.Topology("shop")
    table = orders(app).group_by("customer").aggregate("s", seen=count())
    table.to_stream().transform(lambda df: df.where("seen > 3")).group_by("customer").aggregate("t", n=count())

    [subtopology] = app.build(spark).subtopologies

    assert [store.store for store in subtopology.stores()] == ["s", "t"]
