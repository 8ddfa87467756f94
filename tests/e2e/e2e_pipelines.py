"""The pipelines of the end-to-end tests; topics are those of the test, by their prefix."""

import os
from pathlib import Path

from pyspark.sql import functions as F

import sluice
from sluice import count, sum_

PREFIX = os.environ["E2E_PREFIX"]

counting = sluice.Topology("counting")
_orders = counting.stream(f"{PREFIX}orders", key="user string", value="amount bigint")
_orders.group_by("user").aggregate("by-user", orders=count(), total=sum_("amount")).to(f"{PREFIX}totals")

reading_two = sluice.Topology("reading-two")
_both = reading_two.stream(f"{PREFIX}orders", f"{PREFIX}returns", key="user string", value="amount bigint")
_both.group_by("user").aggregate("by-user", orders=count()).to(f"{PREFIX}totals")

not_row_wise = sluice.Topology("not-row-wise")
_sorted = not_row_wise.stream(f"{PREFIX}orders", key="user string", value="amount bigint").transform(
    lambda df: df.orderBy("amount")
)
_sorted.group_by("user").aggregate("by-user", orders=count()).to(f"{PREFIX}totals")


def checked(amount: int) -> int:
    """Raises on one amount for as long as somebody has not mended the world."""
    if amount == 13 and not Path(os.environ["E2E_MENDED"]).exists():
        raise ValueError("13 brings bad luck")
    return amount


stopping = sluice.Topology("stopping", on_error="stop")
_checked = stopping.stream(f"{PREFIX}orders", key="user string", value="amount bigint").transform(
    lambda df: df.withColumn("amount", F.udf(checked, "bigint")("amount"))
)
_checked.group_by("user").aggregate("by-user", orders=count(), total=sum_("amount")).to(f"{PREFIX}totals")
