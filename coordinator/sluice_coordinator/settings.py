"""Everything that a coordinator process can be told, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice_assignor import AssignmentConfig
from sluice_protocol.ids import check_application_id


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """One application and where its coordinator listens. Durations in milliseconds.

    Raises ValueError naming the field and the value.
    """

    application_id: str
    bootstrap_servers: str
    run_directory: Path
    """Where the leader epoch, the highest slot and `coordinator.json` (its address) are kept."""
    namespace: str = "local"
    name: str | None = None
    """What workers call the application, within its namespace; its id if None."""
    kafka_config: Mapping[str, str] = field(default_factory=dict)
    """Further librdkafka settings (security, …)."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 = any free one; `coordinator.json` says which."""
    assignment: AssignmentConfig = field(default_factory=AssignmentConfig)
    heartbeat_interval_ms: int = 3_000
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    probing_interval_ms: int = 600_000
    replication_factor: int = -1
    """Of internal topics; -1 = the broker's default."""
    transaction_timeout_ms: int = 10_000
    """Of the producers that fence workers."""

    def __post_init__(self) -> None:
        check_application_id(self.application_id)
        for name in ("heartbeat_interval_ms", "session_timeout_ms", "rebalance_timeout_ms", "probing_interval_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.session_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise ValueError(
                f"session_timeout_ms is {self.session_timeout_ms}; it must be at least twice heartbeat_interval_ms "
                f"({self.heartbeat_interval_ms}), or one late heartbeat would fence a healthy worker"
            )
        if self.replication_factor == 0 or self.replication_factor < -1:
            raise ValueError(f"replication_factor is {self.replication_factor}; use -1 (the broker's default) or more")
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"port is {self.port}; it must be from 0 (any free one) to 65535")
