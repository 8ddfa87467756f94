"""`sluice worker`: one worker process. Started by `sluice run` or a pod, seldom by hand."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from sluice_cli.errors import MistakeError
from sluice_cli.kafka_config import read_kafka_config
from sluice_cli.parsing import at_least, pairs
from sluice_protocol.ids import check_application_id, worker_slot
from sluice_protocol.launch import COORDINATOR_CA_VARIABLE, KAFKA_CONFIG_VARIABLE, SECRET_VARIABLE, WorkerLaunch
from sluice_protocol.route import Route


def add_parser(commands: Any) -> None:
    """Add the command; the flags are those of WorkerLaunch.arguments()."""
    parser = commands.add_parser(
        "worker",
        help="run one worker process (`sluice run` does this for you)",
        description="Run one worker: it joins the group at the coordinator and processes the tasks that it is given. "
        f"The shared secret is read from {SECRET_VARIABLE}, further librdkafka settings (a JSON object) from "
        f"{KAFKA_CONFIG_VARIABLE}, the certificates by which to verify an https coordinator from "
        f"{COORDINATOR_CA_VARIABLE} (default: the system's).",
        examples="""
          SLUICE_SECRET=… sluice worker orders:topology --bootstrap localhost:9092 --application-id orders \\
              --name worker-0 --coordinator http://127.0.0.1:7070 --state-dir /var/lib/sluice
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("pipeline", metavar="MODULE:ATTR", help="the topology")
    required = parser.add_argument_group("required")
    required.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…", help="Kafka's bootstrap servers")
    required.add_argument("--application-id", required=True, metavar="ID", help="the application")
    required.add_argument("--name", required=True, metavar="worker-N", help="the slot of this worker")
    required.add_argument("--coordinator", required=True, metavar="URL", help="base URL of the coordinator")
    required.add_argument("--state-dir", required=True, metavar="DIR", help="where its state is kept")
    parser.add_argument("--namespace", default="local", help="the namespace of the application (default: %(default)s)")
    parser.add_argument("--app", help="what the coordinator calls the application (default: its id)")
    parser.add_argument(
        "--token-file", metavar="FILE", help=f"read the worker's own token from here instead of {SECRET_VARIABLE}"
    )
    parser.add_argument("--incarnation", default="0", help="what its launcher calls this start of the process")
    parser.add_argument(
        "--threads", type=at_least(1), default=2, metavar="N", help="its capacity (default: %(default)s)"
    )
    parser.add_argument("--master", metavar="URL", help="Spark's master (default: local[THREADS])")
    parser.add_argument("--rack", help="the zone in which it runs")
    parser.add_argument("--restorers", type=at_least(1), default=2, metavar="N", help="restorer processes (default: 2)")
    parser.add_argument("--restore-bytes-per-second", type=at_least(1), metavar="BYTES", help="limit of restoring")
    parser.add_argument(
        "--state-cleanup-delay-ms",
        type=at_least(0),
        default=600_000,
        metavar="MS",
        help="how long the state of a task that is elsewhere is kept (default: %(default)s)",
    )
    parser.add_argument("--metrics-port", type=at_least(0), metavar="PORT", help="serve /metrics there")
    parser.add_argument("--spark-conf", action="append", metavar="KEY=VALUE", help="a setting of Spark; repeatable")
    parser.add_argument("--tag", action="append", metavar="KEY=VALUE", help="a tag of this worker; repeatable")


def execute(arguments: argparse.Namespace) -> int:
    """Run the worker until it is asked to end."""
    launch = read_launch(arguments, os.environ)
    secret = os.environ.get(SECRET_VARIABLE)
    if not (secret or launch.token_file):
        raise MistakeError(
            f"{SECRET_VARIABLE} is not set, and there is no --token-file; one of them gives the secret that the "
            "coordinator expects"
        )
    try:
        Route(launch.coordinator, launch.coordinator_ca)
    except ValueError as error:
        raise MistakeError(str(error)) from None

    from sluice_pipeline.worker.main import run_worker

    return int(run_worker(launch, secret or ""))


def read_launch(arguments: argparse.Namespace, environment: Mapping[str, str]) -> WorkerLaunch:
    """The launch that the flags and the environment describe. Raises MistakeError."""
    try:
        check_application_id(arguments.application_id)
        worker_slot(arguments.name)
    except ValueError as error:
        raise MistakeError(str(error)) from None
    return WorkerLaunch(
        pipeline=arguments.pipeline,
        bootstrap_servers=arguments.bootstrap,
        application_id=arguments.application_id,
        worker=arguments.name,
        coordinator=arguments.coordinator,
        coordinator_ca=environment.get(COORDINATOR_CA_VARIABLE),
        state_dir=arguments.state_dir,
        namespace=arguments.namespace,
        app=arguments.app,
        token_file=arguments.token_file,
        incarnation=arguments.incarnation,
        threads=arguments.threads,
        master=arguments.master,
        spark_conf=pairs("--spark-conf", arguments.spark_conf),
        kafka_config=read_kafka_config(environment),
        rack=arguments.rack or None,
        tags={key: value for key, value in pairs("--tag", arguments.tag).items() if value},
        restorers=arguments.restorers,
        restore_bytes_per_second=arguments.restore_bytes_per_second,
        state_cleanup_delay_ms=arguments.state_cleanup_delay_ms,
        metrics_port=arguments.metrics_port,
    )
