"""`sluice dev`: real services on this machine, for trying things out."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from sluice_cli.parsing import at_least, pairs

OPERATOR_IMAGE = "sluice-operator"
"""That of charts/sluice, so that the chart can be installed as it is."""

OPERATOR_COMMAND = (
    sys.executable,
    "-m",
    "sluice_devkit.node_agent.service_account",
    sys.executable,
    "-m",
    "sluice_cli",
)


def add_parser(commands: Any) -> None:
    """Add the command and its own subcommands."""
    parser = commands.add_parser("dev", help="real services on this machine, for trying things out")
    services = parser.add_subparsers(title="services", metavar="SERVICE", required=True)
    _add_kafka(services)
    _add_kubernetes(services)


def _add_kafka(services: Any) -> None:
    kafka = services.add_parser("kafka", help="a real Kafka as plain processes")
    up = kafka.add_subparsers(title="actions", metavar="ACTION", required=True).add_parser(
        "up",
        help="start it, and stop it on Ctrl-C",
        description="Start a real Kafka (KRaft) on loopback and stop it on Ctrl-C. The first start fetches its jars.",
        examples="""
          sluice dev kafka up
          sluice dev kafka up --brokers 3 --directory /tmp/kafka
        """,
    )
    up.set_defaults(execute=run_kafka)
    up.add_argument(
        "--brokers", type=int, choices=(1, 3), default=1, help="three are in racks a, b and c (default: %(default)s)"
    )
    up.add_argument("--port", type=at_least(1), default=9092, help="port of the first broker (default: %(default)s)")
    _add_directory(up)


def _add_kubernetes(services: Any) -> None:
    kubernetes = services.add_parser("kubernetes", help="a real Kubernetes control plane, with processes as pods")
    up = kubernetes.add_subparsers(title="actions", metavar="ACTION", required=True).add_parser(
        "up",
        help="start it, print its kubeconfig, and stop it on Ctrl-C",
        description="Start a real Kubernetes control plane on loopback, and nodes whose pods are processes of this "
        "machine. The first start builds it from source, which takes about 6 minutes.",
        examples="""
          sluice dev kubernetes up
          sluice dev kubernetes up --nodes 6 --zones a,b,c --image shop=/opt/shop/start
        """,
    )
    up.set_defaults(execute=run_kubernetes)
    up.add_argument("--nodes", type=at_least(1), default=2, metavar="N", help="how many nodes (default: %(default)s)")
    up.add_argument(
        "--zones",
        type=_names,
        default=["a", "b"],
        metavar="NAMES",
        help="dealt out to the nodes in turn (default: a,b)",
    )
    up.add_argument("--port", type=at_least(1), help="port of the API server (default: a free one)")
    up.add_argument(
        "--image",
        action="append",
        metavar="NAME=COMMAND",
        help="an image that pods may name, and what it runs; repeatable (known: busybox, python, sluice-operator)",
    )
    _add_directory(up)


def _add_directory(up: Any) -> None:
    up.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="keep the data there (default: a temporary one, removed at the end)",
    )


def _names(text: str) -> list[str]:
    names = text.split(",")
    if not all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names like a,b,c (small letters, digits, dashes)")
    return names


def run_kafka(arguments: argparse.Namespace) -> int:
    """Run Kafka until it is interrupted."""
    from sluice_devkit.kafka import kafka_up

    return kafka_up(arguments.brokers, arguments.port, arguments.directory)


def run_kubernetes(arguments: argparse.Namespace) -> int:
    """Run Kubernetes until it is interrupted."""
    from sluice_devkit.kubernetes.playground import IMAGES, kubernetes_up
    from sluice_devkit.node_agent import Image

    named = pairs("--image", arguments.image)
    images = {
        **IMAGES,
        OPERATOR_IMAGE: Image(OPERATOR_COMMAND),
        **{name: Image(tuple(shlex.split(command))) for name, command in named.items()},
    }
    return kubernetes_up(arguments.nodes, arguments.zones, arguments.port, arguments.directory, images)
