"""`sluice run`: an application on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice_cli.errors import MistakeError
from sluice_cli.parsing import Parser, at_least, duration, names, pairs

if TYPE_CHECKING:
    from sluice_cli.local.settings import LocalSettings
    from sluice_cli.local.supervisor import Supervisor

_DESCRIBE_SECONDS = 120


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run an application on this machine, until Ctrl-C",
        description="Run an application on this machine: a coordinator and workers, each a process of its own, "
        "restarted when they die. Ctrl-C ends them in good order. Scale, look and resume from another terminal.",
        examples="""
          sluice run orders:topology --bootstrap localhost:9092
          sluice run orders:topology --bootstrap localhost:9092 --workers 3 --acceptable-recovery-lag 100
          sluice run orders:topology --bootstrap kafka:9093 --kafka-config @client.properties
          sluice scale 3; sluice status --watch
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("pipeline", metavar="MODULE:ATTR", help="the topology")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…", help="Kafka's bootstrap servers")
    parser.add_argument("--application-id", metavar="ID", help="default: the topology's own")
    parser.add_argument(
        "--run-directory", type=Path, metavar="DIR", help="logs, state, addresses (default: .sluice/APPLICATION-ID)"
    )
    parser.add_argument(
        "--workers",
        type=at_least(0),
        default=1,
        metavar="N",
        help="how many to begin with; what `sluice scale` says later holds until this flag is changed (default: 1)",
    )
    _add_worker_flags(parser.add_argument_group("each worker"))
    parser.when_chosen(_add_decision_flags)


def execute(arguments: argparse.Namespace) -> int:
    """Run until Ctrl-C or SIGTERM."""
    import asyncio

    from sluice_cli.local.supervisor import run_supervisor

    settings = read_settings(arguments)
    _report(f"{settings.application_id} runs in {settings.run_directory}; Ctrl-C ends it")
    asyncio.run(run_supervisor(settings, _report, _end_on_signals))
    return 0


def _add_worker_flags(group: Any) -> None:
    group.add_argument(
        "--threads", type=at_least(1), default=2, metavar="N", help="its capacity (default: %(default)s)"
    )
    group.add_argument("--master", metavar="URL", help="Spark's master (default: local[THREADS])")
    group.add_argument("--spark-conf", action="append", metavar="KEY=VALUE", help="a setting of Spark; repeatable")
    group.add_argument(
        "--kafka-config",
        action="append",
        metavar="KEY=VALUE|@FILE",
        help="a librdkafka setting (security, …), or a file of them, JSON or properties; repeatable",
    )
    group.add_argument(
        "--racks", type=names, default=(), metavar="RACK,…", help="the racks in which workers are, given out in turn"
    )
    group.add_argument(
        "--tag", action="append", metavar="KEY=VALUE,…", help="a tag and the values to give out in turn; repeatable"
    )
    group.add_argument("--restore-bytes-per-second", type=at_least(1), metavar="BYTES", help="limit of restoring")
    group.add_argument(
        "--state-cleanup-delay",
        type=duration,
        default=600_000,
        metavar="DURATION",
        help="how long the state of a task that is elsewhere is kept (default: 10m)",
    )


def _add_decision_flags(parser: Parser) -> None:
    from sluice_cli.decision_flags import add_decision_flags

    add_decision_flags(parser.add_argument_group("assignment"))


def read_settings(arguments: argparse.Namespace) -> LocalSettings:
    """The settings that the flags describe. Raises MistakeError."""
    from sluice_cli.decision_flags import read_assignment
    from sluice_cli.local.settings import LocalSettings
    from sluice_cli.running.directory import DEFAULT_ROOT

    try:
        assignment = read_assignment(arguments)
    except ValueError as error:
        raise MistakeError(str(error)) from None
    application_id = arguments.application_id or _application_id(arguments.pipeline)
    return LocalSettings(
        pipeline=arguments.pipeline,
        bootstrap_servers=arguments.bootstrap,
        application_id=application_id,
        run_directory=arguments.run_directory or DEFAULT_ROOT / application_id,
        workers=arguments.workers,
        threads=arguments.threads,
        master=arguments.master,
        spark_conf=pairs("--spark-conf", arguments.spark_conf),
        kafka_config=pairs("--kafka-config", arguments.kafka_config),
        racks=arguments.racks,
        tags={key: _values(key, values) for key, values in pairs("--tag", arguments.tag).items()},
        restore_bytes_per_second=arguments.restore_bytes_per_second,
        state_cleanup_delay_ms=arguments.state_cleanup_delay,
        assignment=assignment,
        probing_rebalance_interval_ms=arguments.probing_rebalance_interval,
        heartbeat_interval_ms=arguments.heartbeat_interval,
        session_timeout_ms=arguments.session_timeout,
    )


def _values(key: str, text: str) -> tuple[str, ...]:
    values = names(text)
    if not values:
        raise MistakeError(f"--tag {key}= has no value; give at least one, as in {key}=a,b")
    return values


def _application_id(pipeline: str) -> str:
    """The topology's own id. Asked of a child, so that the supervisor itself stays free of Spark."""
    import subprocess

    from sluice_cli.local.settings import THIS_PROGRAM

    command = [*THIS_PROGRAM, "describe", pipeline, "--output", "id"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=_DESCRIBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise MistakeError(
            f"{pipeline} could not be read within {_DESCRIBE_SECONDS} s; try `sluice describe {pipeline}`"
        ) from None
    if child.returncode != 0:
        lines = child.stderr.strip().splitlines()
        raise MistakeError(lines[-1].removeprefix("sluice describe: ") if lines else f"{pipeline} can't be read")
    return child.stdout.strip().splitlines()[-1]


def _end_on_signals(supervisor: Supervisor) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end, supervisor, signal.Signals(number).name)


def _end(supervisor: Supervisor, why: str) -> None:
    _report(f"{why}: workers finish their batch and leave; once more kills them")
    supervisor.stop()


def _report(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", flush=True)
