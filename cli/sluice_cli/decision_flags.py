"""The flags about what the coordinator decides: the same for `sluice run` and `sluice coordinator`."""

from __future__ import annotations

from typing import Any

from sluice_cli.parsing import at_least, duration


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
    for flag, default, text, what in (
        ("--probing-rebalance-interval", 600_000, "10m", "a better assignment is looked for at least this often"),
        ("--heartbeat-interval", 3_000, "3s", "a worker speaks at least this often"),
        ("--session-timeout", 10_000, "10s", "a worker that is silent for so long is fenced"),
    ):
        group.add_argument(flag, type=duration, default=default, metavar="DURATION", help=f"{what} (default: {text})")
