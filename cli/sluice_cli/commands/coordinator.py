"""`sluice coordinator`: one coordinator process. Started by `sluice run`, seldom by hand."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice_cli.errors import MistakeError
from sluice_cli.kafka_config import read_kafka_config
from sluice_cli.parsing import Parser, at_least, duration
from sluice_protocol.launch import KAFKA_CONFIG_VARIABLE, SECRET_VARIABLE

if TYPE_CHECKING:
    from sluice_coordinator.settings import CoordinatorSettings


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "coordinator",
        help="run one coordinator process (`sluice run` does this for you)",
        description="Run the coordinator of one application: it knows the workers and decides which task runs where. "
        f"The shared secret is read from {SECRET_VARIABLE}, further librdkafka settings (a JSON object) from "
        f"{KAFKA_CONFIG_VARIABLE}. It writes its address to coordinator.json in its directory.",
        examples="""
          SLUICE_SECRET=… sluice coordinator --bootstrap localhost:9092 --application-id orders \\
              --directory /var/lib/sluice/coordinator --port 7070
        """,
    )
    parser.set_defaults(execute=execute)
    required = parser.add_argument_group("required")
    required.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…", help="Kafka's bootstrap servers")
    required.add_argument("--application-id", required=True, metavar="ID", help="the application")
    required.add_argument(
        "--directory", required=True, type=Path, metavar="DIR", help="where its epoch and address are kept"
    )
    parser.add_argument("--namespace", default="local", help="the namespace of the application (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=at_least(0), default=0, help="port to listen at (default: a free one)")
    parser.add_argument(
        "--replication-factor", type=int, default=-1, metavar="N", help="of internal topics (default: the broker's)"
    )
    parser.when_chosen(_add_decisions)


def execute(arguments: argparse.Namespace) -> int:
    """Run the coordinator until it is asked to end."""
    secret = os.environ.get(SECRET_VARIABLE)
    if not secret:
        raise MistakeError(f"{SECRET_VARIABLE} is not set; it must hold the secret that the workers send")

    from sluice_coordinator.main import run_coordinator

    return run_coordinator(read_settings(arguments, os.environ), secret)


def _add_decisions(parser: Parser) -> None:
    from sluice_cli.decision_flags import add_decision_flags

    decisions = parser.add_argument_group("decisions")
    add_decision_flags(decisions)
    decisions.add_argument(
        "--rebalance-timeout",
        type=duration,
        default=60_000,
        metavar="DURATION",
        help="a worker that has not let go of a task by then is fenced (default: 1m)",
    )
    decisions.add_argument(
        "--transaction-timeout",
        type=duration,
        default=10_000,
        metavar="DURATION",
        help="of the producers that fence workers (default: 10s)",
    )


def read_settings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> CoordinatorSettings:
    """The settings that the flags and the environment describe. Raises MistakeError."""
    from sluice_cli.decision_flags import read_assignment
    from sluice_coordinator.settings import CoordinatorSettings

    try:
        return CoordinatorSettings(
            application_id=arguments.application_id,
            bootstrap_servers=arguments.bootstrap,
            run_directory=arguments.directory,
            namespace=arguments.namespace,
            kafka_config=read_kafka_config(environment),
            host=arguments.host,
            port=arguments.port,
            assignment=read_assignment(arguments),
            heartbeat_interval_ms=arguments.heartbeat_interval,
            session_timeout_ms=arguments.session_timeout,
            rebalance_timeout_ms=arguments.rebalance_timeout,
            probing_interval_ms=arguments.probing_rebalance_interval,
            replication_factor=arguments.replication_factor,
            transaction_timeout_ms=arguments.transaction_timeout,
        )
    except ValueError as error:
        raise MistakeError(str(error)) from None
