"""The README's example: it loads, compiles to what its comments say, and its transformation does what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice_pipeline.describe import describe
from sluice_pipeline.dsl import load_topology
from sluice_pipeline.dsl.rowwise import RESERVED_COLUMNS
from sluice_pipeline.schemas import ddl

pytestmark = pytest.mark.spark

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


@pytest.fixture
def plan(spark, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(QUICKSTART)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield load_topology("pipeline:topology").build(spark)
    sys.modules.pop("pipeline", None)


def test_it_has_the_topics_that_its_comments_name(plan):
    first, second = plan.description().subtopologies

    assert first.changelog_topics == ("orders-by-customer-changelog",)
    assert first.repartition_sink_topics == ("orders-by-country-repartition",)
    assert first.sink_topics == ("totals-by-customer", "big-orders")
    assert second.sink_topics == ("totals-by-country",)
    assert "Sub-topology: 1" in describe(plan)


def test_its_transformation_works_on_rows(plan, spark):
    source, [transformation] = plan.subtopologies[0].source, plan.subtopologies[0].outputs[-1].transformations
    rows = [(b"ann", 0, 1, 1000, "ann", 9.5, "DE"), (b"bob", 0, 2, 1000, "bob", 12.5, "FR")]
    frame = spark.createDataFrame(rows, ddl([*RESERVED_COLUMNS, *source.key, *source.value]))

    [row] = transformation.function(frame).collect()

    assert (row.customer, row.amount, row.cents) == ("bob", 12.5, 1250)


def test_it_is_as_short_as_the_readme_says():
    assert len((QUICKSTART / "pipeline.py").read_text().splitlines()) <= 25
