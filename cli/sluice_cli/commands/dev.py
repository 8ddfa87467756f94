"""`sluice dev`: real services on this machine, for trying things out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sluice_cli.parsing import at_least


def add_parser(commands: Any) -> None:
    """Add the command and its own subcommands."""
    parser = commands.add_parser("dev", help="real services on this machine, for trying things out")
    kafka = parser.add_subparsers(title="services", metavar="SERVICE", required=True).add_parser(
        "kafka", help="a real Kafka as plain processes"
    )
    up = kafka.add_subparsers(title="actions", metavar="ACTION", required=True).add_parser(
        "up",
        help="start it, and stop it on Ctrl-C",
        description="Start a real Kafka (KRaft) on loopback and stop it on Ctrl-C. The first start fetches its jars.",
        examples="""
          sluice dev kafka up
          sluice dev kafka up --brokers 3 --directory /tmp/kafka
        """,
    )
    up.set_defaults(execute=execute)
    up.add_argument(
        "--brokers", type=int, choices=(1, 3), default=1, help="three are in racks a, b and c (default: %(default)s)"
    )
    up.add_argument("--port", type=at_least(1), default=9092, help="port of the first broker (default: %(default)s)")
    up.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="keep the data there (default: a temporary one, removed at the end)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run Kafka until it is interrupted."""
    from sluice_devkit.kafka import kafka_up

    return kafka_up(arguments.brokers, arguments.port, arguments.directory)
