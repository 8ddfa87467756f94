"""`sluice describe`: what a pipeline compiles to, or what a StreamsApp is about."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from sluice_cli.cluster.place import add_cluster, cluster_place, names_cluster
from sluice_cli.errors import CommandError, MistakeError

if TYPE_CHECKING:
    from sluice_cli.cluster.place import ClusterPlace
    from sluice_pipeline.dsl import Topology


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "describe",
        help="print the subtopologies of a pipeline, or all about a StreamsApp",
        description="Compile a pipeline and print its subtopologies, stores and internal topics, as Kafka Streams "
        "does, or as JSON. Needs no Kafka. Of a StreamsApp on Kubernetes: its spec, conditions and events.",
        examples="""
          sluice describe orders:topology
          sluice describe orders.pipeline:topology --output json
          sluice describe flights --namespace shop
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument(
        "subject", nargs="?", metavar="MODULE:ATTR|NAME", help="the topology; with a flag of Kubernetes the StreamsApp"
    )
    add_cluster(parser, coordinator=False)
    parser.add_argument(
        "--output",
        choices=("text", "json", "id"),
        default="text",
        help="id is the applicationId alone; default: %(default)s",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Of a pipeline, unless a flag speaks of Kubernetes."""
    if names_cluster(arguments):
        _describe_app(cluster_place(arguments, arguments.subject), arguments.output)
    elif arguments.subject is None:
        raise MistakeError("name a pipeline as MODULE:ATTR; for a StreamsApp say where it is, with --namespace")
    else:
        _describe_pipeline(arguments)
    return 0


def _describe_app(place: ClusterPlace, output: str) -> None:
    from sluice_cli.cluster.report import description
    from sluice_cli.status.screen import show

    app = place.client.app(place.name)
    if output == "id":
        print(app["spec"]["applicationId"])
        return
    try:
        events: list[dict[str, Any]] | str = place.client.events(place.name)
    except CommandError as error:
        events = f"no events: {error}"
    if output == "json":
        print(json.dumps({"app": app, "events": events}, indent=2))
        return
    show(description(app, events, int(time.time() * 1000)))


def _describe_pipeline(arguments: argparse.Namespace) -> None:
    """Load, compile, print."""
    from sluice_pipeline.dsl import PipelineNotFoundError, TopologyError, load_topology

    try:
        topology = load_topology(arguments.subject)
        print(topology.application_id if arguments.output == "id" else _describe(topology, arguments.output))
    except (PipelineNotFoundError, TopologyError) as error:
        raise MistakeError(str(error)) from None


def _describe(topology: Topology, output: str) -> str:
    from sluice_pipeline.dsl import describe, describe_json

    plan = topology.build()
    return describe_json(plan) if output == "json" else describe(plan)
