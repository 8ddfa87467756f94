"""Stateful stream processing on Kafka with PySpark: what a pipeline is written with.

    import sluice
    from sluice import count

    topology = sluice.Topology("orders")
    orders = topology.stream("orders", key="customer string", value="amount double")
    orders.group_by("customer").aggregate("by-customer", orders=count()).to("orders-by-customer")

Importing it needs neither PySpark nor a Java.
"""

from sluice_pipeline.dsl import (
    Grouped,
    Stream,
    Table,
    Topology,
    TopologyError,
    avg,
    count,
    max_,
    min_,
    sum_,
)

__all__ = ["Grouped", "Stream", "Table", "Topology", "TopologyError", "avg", "count", "max_", "min_", "sum_"]
