"""What the supervisor writes for the coordinator, `sluice coordinator` reads."""

from pathlib import Path

import pytest

from sluice_assignor import AssignmentConfig, RackAwareStrategy
from sluice_cli.commands.coordinator import read_settings
from sluice_cli.errors import MistakeError
from sluice_cli.local import LocalSettings
from sluice_cli.main import make_parser
from sluice_coordinator.settings import CoordinatorSettings


def read(settings: LocalSettings, port: int = 0) -> CoordinatorSettings:
    return read_settings(
        make_parser().parse_args(settings.coordinator_arguments(port)), settings.coordinator_environment("secret")
    )


def test_the_defaults_of_local_mode_are_the_coordinators(tmp_path: Path):
    settings = LocalSettings("a:b", "kafka:9092", "orders", tmp_path)

    assert read(settings) == CoordinatorSettings("orders", "kafka:9092", tmp_path / "coordinator")


EVERYTHING_ELSE = AssignmentConfig(
    strategy="Sticky",
    acceptable_recovery_lag=7,
    max_warmup_replicas=3,
    num_standby_replicas=1,
    rack_aware_strategy=RackAwareStrategy.MIN_TRAFFIC,
    traffic_cost=5,
    non_overlap_cost=0,
    rack_aware_tags=("zone", "cluster"),
)


def test_every_setting_arrives(tmp_path: Path):
    settings = LocalSettings(
        "a:b", "kafka:9092", "orders", tmp_path,
        namespace="team", kafka_config={"security.protocol": "SSL"}, assignment=EVERYTHING_ELSE,
        probing_rebalance_interval_ms=61_000, heartbeat_interval_ms=500,
        session_timeout_ms=1_500, coordinator_options={"replication-factor": "3", "rebalance-timeout": "9s"},
    )  # fmt: skip

    assert read(settings, port=7070) == CoordinatorSettings(
        "orders", "kafka:9092", tmp_path / "coordinator",
        namespace="team", kafka_config={"security.protocol": "SSL"}, port=7070,
        assignment=EVERYTHING_ELSE,
        heartbeat_interval_ms=500, session_timeout_ms=1_500, rebalance_timeout_ms=9_000, probing_interval_ms=61_000,
        replication_factor=3,
    )  # fmt: skip


def test_a_strategy_that_does_not_exist_is_the_persons_mistake(tmp_path: Path):
    settings = LocalSettings("a:b", "k:1", "orders", tmp_path, coordinator_options={"assignment-strategy": "Best"})

    with pytest.raises(MistakeError, match="'Best' does not exist; use one of: Balanced, HighAvailability"):
        read(settings)


def test_a_setting_that_the_coordinator_refuses_is_the_persons_mistake(tmp_path: Path):
    settings = LocalSettings("a:b", "k:1", "orders", tmp_path, session_timeout_ms=4_000)

    with pytest.raises(MistakeError, match="session_timeout_ms is 4000"):
        read(settings)
