"""`sluice describe`: what a pipeline compiles to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sluice_cli.errors import MistakeError

if TYPE_CHECKING:
    from sluice_pipeline.dsl import Topology


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "describe",
        help="print the subtopologies of a pipeline",
        description="Compile a pipeline and print its subtopologies, stores and internal topics, as Kafka Streams "
        "does, or as JSON. Needs no Kafka.",
        examples="""
          sluice describe orders:topology
          sluice describe orders.pipeline:topology --output json
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("pipeline", metavar="MODULE:ATTR", help="the topology")
    parser.add_argument(
        "--output",
        choices=("text", "json", "id"),
        default="text",
        help="id is the applicationId alone; default: %(default)s",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Load, compile, print."""
    from sluice_pipeline.dsl import PipelineNotFoundError, TopologyError, load_topology

    try:
        topology = load_topology(arguments.pipeline)
        print(topology.application_id if arguments.output == "id" else _describe(topology, arguments.output))
    except (PipelineNotFoundError, TopologyError) as error:
        raise MistakeError(str(error)) from None
    return 0


def _describe(topology: Topology, output: str) -> str:
    from sluice_pipeline.dsl import describe, describe_json

    plan = topology.build()
    return describe_json(plan) if output == "json" else describe(plan)
