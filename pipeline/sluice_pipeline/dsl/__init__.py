"""The API that pipelines are written with (users import it as `sluice`), and how others get hold of a pipeline.

Importing this needs neither PySpark nor Arrow: the operator and `sluice run` look at pipelines without either.
"""

from sluice_pipeline.describe import describe, describe_json
from sluice_pipeline.dsl.aggregates import AggregateCall, avg, count, max_, min_, sum_
from sluice_pipeline.dsl.errors import PipelineNotFoundError, TopologyError
from sluice_pipeline.dsl.load import load_topology
from sluice_pipeline.dsl.topology import Grouped, Stream, Table, Topology

__all__ = [
    "AggregateCall",
    "Grouped",
    "PipelineNotFoundError",
    "Stream",
    "Table",
    "Topology",
    "TopologyError",
    "avg",
    "count",
    "describe",
    "describe_json",
    "load_topology",
    "max_",
    "min_",
    "sum_",
]
