from __future__ import annotations

import subprocess
import sys

import pytest

import sluice
from sluice import TopologyError, avg, count, max_, min_, sum_
from sluice_pipeline.plan import Aggregate, Column, Source, ToStore, ToTopic

K, AMOUNT, COUNTRY = Column("customer", "string"), Column("amount", "double"), Column("country", "string")


def orders(app: sluice.Topology) -> sluice.Stream:
    return app.stream("orders", key="customer string", value="amount double, country string")


def test_grouping_by_the_records_own_key_needs_no_repartition():
    app = sluice.Topology("shop")
    orders(app).group_by("customer").aggregate("by-customer", n=count(), total=sum_("amount")).to("totals")

    [subtopology] = app.build().subtopologies

    source = Source(("orders",), (K,), (AMOUNT, COUNTRY), "earliest", repartition=False)
    totals = ToTopic("totals", (), None, (Column("n", "bigint"), Column("total", "double")), repartition=False)
    aggregates = (Aggregate("n", "count", None, "bigint"), Aggregate("total", "sum", "amount", "double"))
    assert subtopology.source == source
    assert subtopology.outputs == (
        ToStore("by-customer", "shop-by-customer-changelog", (), (K,), aggregates, (totals,)),
    )


def test_grouping_by_another_column_goes_through_a_topic_that_carries_what_is_read():
    app = sluice.Topology("shop")
    orders(app).group_by("country").aggregate("by-country", mean=avg("amount"), n=count("country"))

    first, second = app.build().subtopologies

    repartition = "shop-by-country-repartition"
    assert first.outputs == (ToTopic(repartition, (), (COUNTRY,), (AMOUNT,), repartition=True),)
    assert second.source == Source((repartition,), (COUNTRY,), (AMOUNT,), "earliest", repartition=True)
    assert second.stores()[0].key == (COUNTRY,)


def test_aggregates_of_a_named_group_share_one_topic_that_carries_what_any_of_them_reads():
    app = sluice.Topology("shop")
    grouped = orders(app).group_by("country", name="by-country")
    grouped.aggregate("sums", total=sum_("amount"))
    grouped.aggregate("customers", n=count("customer"))

    first, second = app.build().subtopologies

    assert [output.topic for output in first.outputs] == ["shop-by-country-repartition"]
    assert set(second.source.value) == {K, AMOUNT}
    assert first.outputs[0].value == second.source.value
    assert [store.store for store in second.stores()] == ["sums", "customers"]


def test_a_key_of_several_columns_is_the_records_own_only_in_the_same_order():
    app = sluice.Topology("shop")
    rows = app.stream("t", key="a string, b int", value="v int")
    rows.group_by("a", "b").aggregate("same", n=count())
    rows.group_by("b", "a").aggregate("turned", n=count())
    rows.group_by("a").aggregate("less", n=count())

    topics = [output.topic for output in app.build().subtopologies[0].outputs if isinstance(output, ToTopic)]

    assert topics == ["shop-turned-repartition", "shop-less-repartition"]


def test_updates_of_a_table_go_on_as_a_stream():
    app = sluice.Topology("shop")
    table = orders(app).group_by("customer").aggregate("by-customer", n=count())
    updates = table.to_stream()
    updates.group_by("n").aggregate("by-count", customers=count())
    updates.group_by("customer").aggregate("changes", n=count())
    updates.to("by-n", key="n")

    first, second = app.build().subtopologies
    [store] = first.outputs

    repartition, again, sink = store.outputs
    assert isinstance(repartition, ToTopic)
    assert repartition.repartition
    assert second.source.value == ()
    assert isinstance(again, ToStore)
    assert (sink.key, sink.value) == ((Column("n", "bigint"),), (K,))


def test_a_topic_gets_the_columns_that_are_not_in_the_key():
    app = sluice.Topology("shop")
    rows = orders(app)
    rows.to("kept")
    rows.to("keyed", key=["country", "customer"])

    kept, keyed = app.build().subtopologies[0].outputs

    assert (kept.key, kept.value) == (None, (AMOUNT, COUNTRY))
    assert (keyed.key, keyed.value) == ((COUNTRY, K), (AMOUNT,))


def test_subtopologies_are_numbered_in_order_of_their_sources():
    app = sluice.Topology("shop")
    first, second = orders(app), app.stream("payments", value="by string")
    second.group_by("by").aggregate("p", n=count())
    first.group_by("country").aggregate("o", n=count())

    topics = [subtopology.source.topics[0] for subtopology in app.build().subtopologies]

    assert topics == ["orders", "payments", "shop-p-repartition", "shop-o-repartition"]


def test_types_of_aggregates():
    app = sluice.Topology("shop")
    rows = app.stream("t", key="k string", value="i int, l bigint, f float, d date, at timestamp")
    table = rows.group_by("k").aggregate(
        "s", a=sum_("i"), b=sum_("l"), c=sum_("f"), d=avg("i"), e=min_("d"), f=max_("at"), g=min_("f"), h=count("at")
    )
    table.to("out")

    types = [column.type for column in app.build().subtopologies[0].stores()[0].outputs[0].value]

    assert types == ["bigint", "bigint", "double", "double", "date", "timestamp", "float", "bigint"]


def test_the_application_id_can_be_overridden():
    app = sluice.Topology("shop")
    orders(app).group_by("country").aggregate("s", n=count())

    plan = app.build(application_id="other")

    assert plan.application_id == "other"
    assert plan.subtopologies[1].source.topics == ("other-s-repartition",)


def mistake(build) -> str:
    """The message of the mistake in `build(app)`, which must name this file and a line in `build`."""

    def build_all():
        app = sluice.Topology("shop")
        build(app)
        app.build()

    with pytest.raises(TopologyError) as caught:
        build_all()
    where, _, message = str(caught.value).partition(": ")
    file, _, line = where.partition(":")
    assert file == "test_dsl_topology.py"
    lines = {number for _, _, number in build.__code__.co_lines() if number}
    assert int(line) in lines, f"{where} is not in {sorted(lines)}"
    return message


def test_a_store_name_is_used_once():
    def build(app):
        rows = orders(app)
        rows.group_by("customer").aggregate("s", n=count())
        rows.group_by("customer").aggregate("s", n=count())

    assert "store 's' is the name of another store already" in mistake(build)


def test_a_repartition_name_is_used_once():
    def build(app):
        rows = orders(app)
        rows.group_by("country", name="g").aggregate("s", n=count())
        rows.group_by("amount", name="g").aggregate("t", n=count())

    assert "repartition topic 'g' is the name of another repartition topic already" in mistake(build)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda app: orders(app).group_by("nobody").aggregate("s", n=count()), "rows have customer, amount, country"),
        (lambda app: orders(app).group_by(), "at least one column"),
        (lambda app: orders(app).group_by("customer").aggregate("s"), "store 's' has no aggregate"),
        (lambda app: orders(app).group_by("customer").aggregate("s", n=count), "n=<function count"),
        (lambda app: orders(app).group_by("customer").aggregate("s", n=sum_("nothing")), "column 'nothing'"),
        (lambda app: orders(app).group_by("customer").aggregate("s", n=sum_("country")), "'country', which is string"),
        (lambda app: orders(app).group_by("customer").aggregate("s", n=min_("country")), "'country', which is string"),
        (lambda app: orders(app).group_by("customer").aggregate("s", customer=count()), "'customer' and 'customer'"),
        (lambda app: orders(app).group_by("customer").aggregate("a b", n=count()), "can't be the name of a topic"),
        (lambda app: orders(app).group_by("customer").aggregate("x" * 250, n=count()), "can't be the name of a topic"),
        (lambda app: orders(app).group_by("customer").aggregate("s", _key=count()), "reserved name"),
        (lambda app: orders(app).to("a/b"), "'a/b' can't be the name of a topic"),
        (lambda app: orders(app).to("t", key="nobody"), "key names the column 'nobody'"),
        (lambda app: orders(app).to("t", key=[]), "key names no column"),
        (lambda app: orders(app).to("shop-dead-letters"), "internal topic"),
        (lambda app: app.stream("t", key="k string", value="v timestamp").to("u", key="v"), "can't be part of a key"),
        (lambda app: app.stream("t", value="v double, w int").to("u", key=["v", "w"]), "key of several columns"),
        (lambda app: app.stream("t", value="v int").to("u", key="v"), "no column is left for the value"),
        (lambda app: app.stream(value="v int"), "at least one topic"),
        (lambda app: app.stream("t", "t", value="v int").to("u"), "is read by a stream already"),
        (lambda app: [app.stream("orders", value="v int") for _ in range(2)], "'orders' is read by a stream already"),
        (lambda app: app.stream("t", value="v int"), "leads nowhere"),
        (lambda app: app.stream("t", value="v int", offset_reset="never"), "earliest, latest, error"),
        (lambda app: app.stream("t", value="v decimal(3,1)"), "is not a column"),
        (lambda app: app.stream("t", value="v smallint"), "'v' has type 'smallint', which is none of string"),
        (lambda app: app.stream("t", value=""), "'' is not a column"),
        (lambda app: app.stream("t", value="v int, V string"), "columns 'v' and 'V' have the same name"),
        (lambda app: app.stream("t", key="v int", value="v int"), "have the same name"),
        (lambda app: app.stream("t", value="_offset int"), "reserved name"),
        (lambda app: app.stream("t", key="k float", value="v int"), "can't be part of a key"),
        (lambda app: orders(app).transform("amount > 10"), "a function of a DataFrame"),
        (lambda app: app.stream("shop-s-changelog", key="k int", value="v int").group_by("k").aggregate("s", n=count()),
         "internal topic"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_that_names_its_line(build, message: str):
    assert message in mistake(build)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 151, ".."])
def test_an_application_id_must_fit_into_topic_names(name: str):
    with pytest.raises(TopologyError, match=r"test_dsl_topology\.py:\d+: applicationId"):
        sluice.Topology(name)


def test_on_error_is_one_of_two():
    with pytest.raises(TopologyError, match="'dead-letter' or 'stop'"):
        sluice.Topology("shop", on_error="ignore")


def test_a_topology_without_streams_is_refused():
    with pytest.raises(TopologyError, match="shop: the topology has no stream"):
        sluice.Topology("shop").build()


@pytest.mark.parametrize("module", ["sluice", "sluice_pipeline.dsl"])
def test_importing_needs_neither_pyspark_nor_arrow(module: str):
    code = f"import sys, {module}; print([m for m in ('pyspark', 'pyarrow', 'numpy', 'orjson') if m in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert printed.stdout.strip() == "[]"


def test_a_topology_without_transformations_is_built_without_pyspark():
    code = (
        "import sys, sluice; app = sluice.Topology('a'); app.stream('t', value='v int').to('u'); "
        "app.build(); print(app.needs_spark, 'pyspark' in sys.modules)"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert printed.stdout.strip() == "False False"
