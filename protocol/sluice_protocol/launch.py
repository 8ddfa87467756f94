"""The worker's launch contract: the flags and environment with which a supervisor or a pod starts `sluice worker`.

Secrets travel by environment or file, never by flag: a command line is readable by every process of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SECRET_VARIABLE = "SLUICE_SECRET"  # noqa: S105 - the name of the variable
KAFKA_CONFIG_VARIABLE = "SLUICE_KAFKA_CONFIG"
KAFKA_CONFIG_DIRECTORY_VARIABLE = "SLUICE_KAFKA_CONFIG_DIRECTORY"
"""A directory with a file for each further setting, which wins over those of the object."""
COORDINATOR_CA_VARIABLE = "SLUICE_COORDINATOR_CA"

EXIT_NOT_ADMITTED = 3
"""A worker's exit code when the coordinator will never accept what it says; a person has to act."""


@dataclass(frozen=True, slots=True)
class WorkerLaunch:
    """Everything that `sluice worker` needs. Durations in milliseconds, sizes in bytes."""

    pipeline: str
    """`module:attribute` of the topology."""
    bootstrap_servers: str
    application_id: str
    worker: str
    coordinator: str
    """Base URL, as in http://127.0.0.1:7070."""
    state_dir: str
    coordinator_ca: str | None = None
    """The certificates (PEM) by which an https coordinator is verified; they travel in SLUICE_COORDINATOR_CA."""
    namespace: str = "local"
    app: str | None = None
    """What the coordinator calls the application, within its namespace; its id if None."""
    token_file: str | None = None
    """Where the worker's own token is, which is renewed there; SLUICE_SECRET if None."""
    incarnation: str = "0"
    threads: int = 2
    master: str | None = None
    """Spark's master; None = local[threads]."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    kafka_config: Mapping[str, str] = field(default_factory=dict)
    """Further librdkafka settings (security, …); they travel in SLUICE_KAFKA_CONFIG."""
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    restorers: int = 2
    restore_bytes_per_second: int | None = None
    state_cleanup_delay_ms: int = 600_000
    metrics_port: int | None = None

    def arguments(self) -> list[str]:
        """The command line after `sluice`. Flags are written --flag=value, so that no value is taken for a flag."""
        flags = ["worker", self.pipeline]
        single = {
            "--bootstrap": self.bootstrap_servers, "--application-id": self.application_id, "--name": self.worker,
            "--coordinator": self.coordinator, "--state-dir": self.state_dir, "--namespace": self.namespace,
            "--app": self.app, "--token-file": self.token_file,
            "--incarnation": self.incarnation, "--threads": self.threads, "--master": self.master, "--rack": self.rack,
            "--restorers": self.restorers, "--restore-bytes-per-second": self.restore_bytes_per_second,
            "--state-cleanup-delay-ms": self.state_cleanup_delay_ms, "--metrics-port": self.metrics_port,
        }  # fmt: skip
        for flag, value in single.items():
            if value is not None:
                flags.append(f"{flag}={value}")
        for flag, pairs in (("--spark-conf", self.spark_conf), ("--tag", self.tags)):
            for key, value in pairs.items():
                flags.append(f"{flag}={key}={value}")
        return flags

    def environment(self, secret: str) -> dict[str, str]:
        """The variables to add to the environment."""
        variables = {SECRET_VARIABLE: secret, KAFKA_CONFIG_VARIABLE: json.dumps(dict(self.kafka_config))}
        return variables if self.coordinator_ca is None else variables | {COORDINATOR_CA_VARIABLE: self.coordinator_ca}


def parse_pairs(flag: str, values: Sequence[str]) -> dict[str, str]:
    """Read repeated KEY=VALUE. Raises ValueError naming the flag and the value."""
    pairs = {}
    for value in values:
        key, separator, part = value.partition("=")
        if not (separator and key):
            raise ValueError(f"{flag} {value!r} is not of the form KEY=VALUE")
        pairs[key] = part
    return pairs
