"""Count records and sum prices by user, the record's own key: what CountApp.java and spark_stateful.py do too."""

import os

from sluice import Topology, count, sum_

topology = Topology(os.environ["BENCH_APPLICATION"])
purchases = topology.stream(os.environ["BENCH_SOURCE"], key="user string", value="price bigint")
totals = purchases.group_by("user").aggregate("totals", count=count(), total=sum_("price"))
totals.to(os.environ["BENCH_SINK"])
