"""Orders by customer and by country: the example of the README."""

import sluice
from sluice import avg, count, max_, sum_

topology = sluice.Topology("orders")

orders = topology.stream("orders", key="customer string", value="amount double, country string")

big = orders.transform(lambda df: df.where("amount > 10").withColumn("cents", (df.amount * 100).cast("bigint")))

# By the key that the records have already: no repartition topic.
by_customer = big.group_by("customer").aggregate(
    "by-customer", orders=count(), total=sum_("amount"), largest=max_("amount")
)
by_customer.to("totals-by-customer")

# By another column: through the repartition topic orders-by-country-repartition.
by_country = big.group_by("country").aggregate("by-country", orders=count(), cents=sum_("cents"), mean=avg("amount"))
by_country.to("totals-by-country")

# A stream may go to a topic as it is.
big.to("big-orders")
