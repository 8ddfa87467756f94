"""The flags about what the coordinator decides: the same for `sluice run` and `sluice coordinator`."""

from __future__ import annotations

import argparse
from typing import Any

from sluice_assignor import AssignmentConfig, RackAwareStrategy
from sluice_assignor.strategies import STRATEGIES, find_strategy
from sluice_cli.parsing import at_least, duration

DEFAULTS = AssignmentConfig()


def read_assignment(arguments: argparse.Namespace) -> AssignmentConfig:
    """What the flags say. Raises ValueError naming the field and the value."""
    find_strategy(arguments.assignment_strategy)
    return AssignmentConfig(
        strategy=arguments.assignment_strategy,
        acceptable_recovery_lag=arguments.acceptable_recovery_lag,
        max_warmup_replicas=arguments.max_warmup_replicas,
        num_standby_replicas=arguments.num_standby_replicas,
        rack_aware_strategy=RackAwareStrategy(arguments.rack_aware_assignment_strategy),
        traffic_cost=arguments.rack_aware_assignment_traffic_cost,
        non_overlap_cost=arguments.rack_aware_assignment_non_overlap_cost,
        rack_aware_tags=arguments.rack_aware_assignment_tags,
    )


def assignment_flags(assignment: AssignmentConfig) -> dict[str, object]:
    """The flags that say it, without the dashes."""
    flags = {
        "assignment-strategy": assignment.strategy,
        "acceptable-recovery-lag": assignment.acceptable_recovery_lag,
        "max-warmup-replicas": assignment.max_warmup_replicas,
        "num-standby-replicas": assignment.num_standby_replicas,
        "rack-aware-assignment-strategy": assignment.rack_aware_strategy.value,
        "rack-aware-assignment-traffic-cost": assignment.traffic_cost,
        "rack-aware-assignment-non-overlap-cost": assignment.non_overlap_cost,
        "rack-aware-assignment-tags": ",".join(assignment.rack_aware_tags) or None,
    }
    return {flag: value for flag, value in flags.items() if value is not None}


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def add_decision_flags(group: Any) -> None:
    """Add them to a group of a parser."""
    group.add_argument(
        "--acceptable-recovery-lag",
        type=at_least(0),
        default=10_000,
        metavar="OFFSETS",
        help="a copy with at most this lag may take its task over (default: %(default)s)",
    )
    group.add_argument(
        "--max-warmup-replicas",
        type=at_least(1),
        default=2,
        metavar="N",
        help="warm-ups at the same time, in the whole group (default: %(default)s)",
    )
    group.add_argument(
        "--num-standby-replicas", type=at_least(0), default=0, metavar="N", help="a task's standbys (default: 0)"
    )
    group.add_argument(
        "--assignment-strategy",
        default=DEFAULTS.strategy,
        metavar="NAME",
        help=f"where tasks live: {', '.join(sorted(STRATEGIES))} (default: %(default)s)",
    )
    group.add_argument(
        "--rack-aware-assignment-strategy",
        default=DEFAULTS.rack_aware_strategy.value,
        choices=[strategy.value for strategy in RackAwareStrategy],
        help="how traffic between racks is saved, for workers that have a --rack (KIP-925; default: %(default)s)",
    )
    for cost, what in (("traffic", "of one partition in another rack"), ("non-overlap", "of moving one task for it")):
        group.add_argument(
            f"--rack-aware-assignment-{cost}-cost",
            type=at_least(0),
            metavar="COST",
            help=f"cost {what} (default: the strategy's)",
        )
    group.add_argument(
        "--rack-aware-assignment-tags",
        type=_names,
        default=(),
        metavar="KEY,…",
        help="the tags of workers in which a task's standbys should differ (KIP-708)",
    )
    for flag, default, text, what in (
        ("--probing-rebalance-interval", 600_000, "10m", "a better assignment is looked for at least this often"),
        ("--heartbeat-interval", 3_000, "3s", "a worker speaks at least this often"),
        ("--session-timeout", 10_000, "10s", "a worker that is silent for so long is fenced"),
    ):
        group.add_argument(flag, type=duration, default=default, metavar="DURATION", help=f"{what} (default: {text})")
