"""What the supervisor writes for the coordinator, `sluice coordinator` reads."""

import dataclasses
import re
from pathlib import Path

import pytest

from sluice_assignor import (
    AssignmentConfig,
    BalancedParameters,
    IncrementalParameters,
    OptimalParameters,
    RackAwareStrategy,
)
from sluice_cli.commands.coordinator import read_settings
from sluice_cli.decision_flags import ASSIGNMENT_FLAGS, AssignmentFlag, assignment_flags
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
    balanced=BalancedParameters(2, 0.1, 0.25, 1e-07),
    incremental=IncrementalParameters(0),
    optimal=OptimalParameters(500),
)


def fields_of(config: object, owner: str = "") -> list[str]:
    fields = dataclasses.fields(config)
    own = [owner + it.name for it in fields if not dataclasses.is_dataclass(getattr(config, it.name))]
    parameters = [it.name for it in fields if dataclasses.is_dataclass(getattr(config, it.name))]
    return [*own, *(name for it in parameters for name in fields_of(getattr(config, it), f"{it}."))]


def test_every_field_of_the_assignors_configuration_has_a_flag():
    assert sorted(flag.field for flag in ASSIGNMENT_FLAGS) == sorted(fields_of(AssignmentConfig()))


def test_the_test_of_all_flags_changes_every_field():
    changed = assignment_flags(EVERYTHING_ELSE)

    assert sorted(changed) == sorted(flag.name for flag in ASSIGNMENT_FLAGS)
    assert not changed.items() & assignment_flags(AssignmentConfig()).items()


@pytest.mark.parametrize(
    "flag", [flag for flag in ASSIGNMENT_FLAGS if flag.default not in (None, ())], ids=lambda flag: flag.name
)
def test_help_says_the_assignors_default(flag: AssignmentFlag):
    assert flag.help.endswith(f"default: {flag.show(flag.default)})")


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("rack-aware-assignment-traffic-cost=1000001", "--rack-aware-assignment-traffic-cost is 1000001; it must be"),
        ("rack-aware-assignment-tags=a,b,c,d,e,f", "--rack-aware-assignment-tags names 6 tags; it may name at most 5"),
        (f"rack-aware-assignment-tags={'k' * 21}", "--rack-aware-assignment-tags names 'kkk"),
        ("rack-aware-assignment-tags=zone,zone", "--rack-aware-assignment-tags names 'zone' more than once"),
        ("balanced-stateful-balance=-1", "--balanced-stateful-balance is -1.0; it must be"),
        ("incremental-imbalance-percentage=101", "--incremental-imbalance-percentage is 101; it must be"),
        ("optimal-subtopology-spread=1000001", "--optimal-subtopology-spread is 1000001; it must be"),
    ],
)
def test_an_error_names_the_flag_and_the_value(flag: str, sentence: str, tmp_path: Path):
    name, _, value = flag.partition("=")
    settings = LocalSettings("a:b", "k:1", "orders", tmp_path, coordinator_options={name: value})

    with pytest.raises(MistakeError, match=f"^{re.escape(sentence)}"):
        read(settings)


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

    with pytest.raises(MistakeError, match="--assignment-strategy 'Best' does not exist; use one of: Balanced, High"):
        read(settings)


def test_a_setting_that_the_coordinator_refuses_is_the_persons_mistake(tmp_path: Path):
    settings = LocalSettings("a:b", "k:1", "orders", tmp_path, session_timeout_ms=4_000)

    with pytest.raises(MistakeError, match="session_timeout_ms is 4000"):
        read(settings)
