"""Delays of all flights out of New York in 2013: per route, per carrier, and per aircraft and day.

Flights arrive keyed by route, so the first aggregate needs no repartition; the other two change the key.
"""

from pyspark.sql import functions as F

import sluice
from sluice import avg, count, max_, sum_

topology = sluice.Topology("flights", on_error="dead-letter")

flights = topology.stream(
    "flights",
    key="route string",
    value="day string, carrier string, tailnum string, dep_delay int, arr_delay int, distance int",
    offset_reset="earliest",
)

known = flights.transform(lambda df: df.withColumn("late", (F.col("arr_delay") > 15).cast("int")))

known.group_by("route").aggregate(
    "by-route",
    flights=count(),
    arrived=count("arr_delay"),
    late=sum_("late"),
    delay=sum_("arr_delay"),
    worst=max_("arr_delay"),
).to("delays-by-route")

known.group_by("carrier").aggregate(
    "by-carrier", flights=count(), late=sum_("late"), delay=avg("arr_delay"), miles=sum_("distance")
).to("delays-by-carrier")

known.group_by("tailnum", "day").aggregate(
    "by-aircraft", legs=count(), delay=sum_("arr_delay"), worst=max_("dep_delay")
).to("delays-by-aircraft")
