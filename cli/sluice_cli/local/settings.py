"""Everything that local mode can be told, with its defaults."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice_assignor import AssignmentConfig
from sluice_cli.decision_flags import assignment_flags
from sluice_cli.errors import MistakeError
from sluice_cli.local.backoff import Backoff
from sluice_protocol.durations import show_duration
from sluice_protocol.ids import check_application_id, worker_slot
from sluice_protocol.launch import KAFKA_CONFIG_VARIABLE, SECRET_VARIABLE, WorkerLaunch

THIS_PROGRAM = (sys.executable, "-m", "sluice_cli")
"""How children are started: the same program in the same interpreter, whatever is on the PATH."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """One application on this machine. Raises MistakeError naming the field and the value.

    `workers` is the number to begin with. What `sluice scale` said later is kept in the run directory and holds until
    `workers` itself changes. `racks`, and the values of each tag, go to the workers in turn. `coordinator_urls` gives
    single workers another address (a proxy, to cut them off).
    """

    pipeline: str
    bootstrap_servers: str
    application_id: str
    run_directory: Path
    workers: int = 1
    threads: int = 2
    namespace: str = "local"
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    kafka_config: Mapping[str, str] = field(default_factory=dict)
    racks: tuple[str, ...] = ()
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    restorers: int = 2
    restore_bytes_per_second: int | None = None
    state_cleanup_delay_ms: int = 600_000
    assignment: AssignmentConfig = field(default_factory=AssignmentConfig)
    probing_rebalance_interval_ms: int = 600_000
    heartbeat_interval_ms: int = 3_000
    session_timeout_ms: int = 10_000
    coordinator_options: Mapping[str, str] = field(default_factory=dict)
    """Further flags of `sluice coordinator`, without the dashes."""
    worker_command: tuple[str, ...] = THIS_PROGRAM
    coordinator_command: tuple[str, ...] = THIS_PROGRAM
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further variables for every process."""
    coordinator_urls: Mapping[str, str] = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    stop_timeout_ms: int = 30_000
    """How long a process may take to end after SIGTERM."""

    def __post_init__(self) -> None:
        try:
            check_application_id(self.application_id)
        except ValueError as error:
            raise MistakeError(str(error)) from None
        if self.workers < 0:
            raise MistakeError(f"workers is {self.workers}; it must be at least 0")
        if self.threads < 1:
            raise MistakeError(f"threads is {self.threads}; a worker needs at least 1")

    def worker(self, name: str, incarnation: str, coordinator: str) -> WorkerLaunch:
        """How the worker of this name is started now."""
        slot = worker_slot(name)
        return WorkerLaunch(
            pipeline=self.pipeline,
            bootstrap_servers=self.bootstrap_servers,
            application_id=self.application_id,
            worker=name,
            coordinator=self.coordinator_urls.get(name, coordinator),
            state_dir=str(self.run_directory.resolve() / "state" / name),
            namespace=self.namespace,
            incarnation=incarnation,
            threads=self.threads,
            master=self.master,
            spark_conf=self.spark_conf,
            kafka_config=self.kafka_config,
            rack=_in_turn(self.racks, slot) if self.racks else None,
            tags={key: _in_turn(values, slot) for key, values in self.tags.items()},
            restorers=self.restorers,
            restore_bytes_per_second=self.restore_bytes_per_second,
            state_cleanup_delay_ms=self.state_cleanup_delay_ms,
        )

    def coordinator_arguments(self, port: int) -> list[str]:
        """The command line of the coordinator after `sluice`."""
        flags = {
            "bootstrap": self.bootstrap_servers,
            "application-id": self.application_id,
            "namespace": self.namespace,
            "port": port,
            "directory": self.run_directory.resolve() / "coordinator",
            **assignment_flags(self.assignment),
            "probing-rebalance-interval": show_duration(self.probing_rebalance_interval_ms),
            "heartbeat-interval": show_duration(self.heartbeat_interval_ms),
            "session-timeout": show_duration(self.session_timeout_ms),
            **self.coordinator_options,
        }
        return ["coordinator", *(f"--{name}={value}" for name, value in flags.items())]

    def coordinator_environment(self, secret: str) -> dict[str, str]:
        """The variables to add to the coordinator's environment."""
        kafka_config = json.dumps(dict(self.kafka_config))
        return {SECRET_VARIABLE: secret, KAFKA_CONFIG_VARIABLE: kafka_config, **self.environment}


def _in_turn(values: Sequence[str], slot: int) -> str:
    return values[slot % len(values)]
