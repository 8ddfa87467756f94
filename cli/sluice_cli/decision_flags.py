"""The flags about what the coordinator decides: the same for `sluice run` and `sluice coordinator`.

Every field of AssignmentConfig has one, and one list says which: what a flag says reaches the coordinator of local mode
because both ways are read from it. It needs the assignor, so it is imported once one of the two commands is chosen.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sluice_assignor import AssignmentConfig, InvalidConfigError, RackAwareStrategy
from sluice_assignor.strategies import STRATEGIES, find_strategy
from sluice_cli.parsing import at_least, duration, names

DEFAULTS = AssignmentConfig()


@dataclass(frozen=True, slots=True)
class AssignmentFlag:
    """A flag without its dashes, and the field that it sets: `balanced.balance_factor` is one of BalancedParameters."""

    name: str
    field: str
    read: Callable[[str], object]
    metavar: str
    help: str
    show: Callable[[Any], object] = str

    @property
    def said(self) -> str:
        """What the assignor's errors call the field."""
        if self.field == "strategy":
            return "assignment strategy"
        first, *others = self.field.rpartition(".")[2].split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def default(self) -> Any:
        return attrgetter(self.field)(DEFAULTS)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _rack_aware_strategy(text: str) -> RackAwareStrategy:
    try:
        return RackAwareStrategy(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(_RACK_AWARE_STRATEGIES)}") from None


_RACK_AWARE_STRATEGIES = [strategy.value for strategy in RackAwareStrategy]

ASSIGNMENT_FLAGS = (
    AssignmentFlag(
        "acceptable-recovery-lag", "acceptable_recovery_lag", at_least(0), "OFFSETS",
        "a copy with at most this lag may take its task over (default: 10000)",
    ),
    AssignmentFlag(
        "max-warmup-replicas", "max_warmup_replicas", at_least(1), "N",
        "warm-ups at the same time, in the whole group (default: 2)",
    ),
    AssignmentFlag(
        "num-standby-replicas", "num_standby_replicas", at_least(0), "N", "a task's standbys (default: 0)"
    ),
    AssignmentFlag(
        "assignment-strategy", "strategy", str, "NAME",
        f"where tasks live: {', '.join(sorted(STRATEGIES))} (default: {DEFAULTS.strategy})",
    ),
    AssignmentFlag(
        "rack-aware-assignment-strategy", "rack_aware_strategy", _rack_aware_strategy,
        "|".join(_RACK_AWARE_STRATEGIES),
        "how traffic between racks is saved, for workers that have a --rack (KIP-925; default: none)",
        attrgetter("value"),
    ),
    AssignmentFlag(
        "rack-aware-assignment-traffic-cost", "traffic_cost", at_least(0), "COST",
        "cost of one partition in another rack (default: the strategy's)",
    ),
    AssignmentFlag(
        "rack-aware-assignment-non-overlap-cost", "non_overlap_cost", at_least(0), "COST",
        "cost of moving one task for it (default: the strategy's)",
    ),
    AssignmentFlag(
        "rack-aware-assignment-tags", "rack_aware_tags", names, "KEY,…",
        "the tags of workers in which a task's standbys should differ (KIP-708)", ",".join,
    ),
    AssignmentFlag(
        "balanced-balance-factor", "balanced.balance_factor", at_least(1), "TASKS",
        "how many tasks Balanced lets one worker be ahead of another (default: 1)",
    ),
    AssignmentFlag(
        "balanced-stateful-balance", "balanced.stateful_balance", _number, "WEIGHT",
        "what an even number of tasks with state is worth to Balanced (default: 0.45)",
    ),
    AssignmentFlag(
        "balanced-stateless-balance", "balanced.stateless_balance", _number, "WEIGHT",
        "what an even number of tasks without state is worth to Balanced (default: 0.45)",
    ),
    AssignmentFlag(
        "balanced-subtopology-balance", "balanced.subtopology_balance", _number, "WEIGHT",
        "what an even spread of each subtopology is worth to Balanced (default: 0.55)",
    ),
    AssignmentFlag(
        "incremental-imbalance-percentage", "incremental.imbalance_percentage", at_least(0), "PERCENT",
        "how far Incremental lets a worker be from its share (default: 20)",
    ),
    AssignmentFlag(
        "optimal-subtopology-spread", "optimal.subtopology_spread", at_least(0), "COST",
        "what an even spread of each subtopology is worth to Optimal, in thousandths of restoring a task (default: 0)",
    ),
)  # fmt: skip
"""One for each field; `sluice_cli.local` writes with them what `sluice coordinator` reads."""

_SAID = re.compile(rf"\b({'|'.join(flag.said for flag in ASSIGNMENT_FLAGS)})\b")


def read_assignment(arguments: argparse.Namespace) -> AssignmentConfig:
    """What the flags say. Raises InvalidConfigError naming the flag and the value."""
    fields: dict[str, dict[str, Any]] = {"": {}}
    for flag in ASSIGNMENT_FLAGS:
        owner, _, field = flag.field.rpartition(".")
        fields.setdefault(owner, {})[field] = getattr(arguments, flag.name.replace("-", "_"))
    own = fields.pop("")
    try:
        find_strategy(arguments.assignment_strategy)
        parameters = {owner: type(getattr(DEFAULTS, owner))(**values) for owner, values in fields.items()}
        return AssignmentConfig(**own, **parameters)
    except InvalidConfigError as error:
        raise InvalidConfigError(_with_flags(str(error))) from None


def assignment_flags(assignment: AssignmentConfig) -> dict[str, object]:
    """The flags that say it, without the dashes."""
    values = {flag: attrgetter(flag.field)(assignment) for flag in ASSIGNMENT_FLAGS}
    return {flag.name: flag.show(value) for flag, value in values.items() if value is not None and value != ()}


def _with_flags(sentence: str) -> str:
    """What the assignor says of its fields, in the words of the command line."""
    flags = {flag.said: f"--{flag.name}" for flag in ASSIGNMENT_FLAGS}
    return _SAID.sub(lambda field: flags[field[0]], sentence)


def add_decision_flags(group: Any) -> None:
    """Add them to a group of a parser."""
    for flag in ASSIGNMENT_FLAGS:
        group.add_argument(f"--{flag.name}", type=flag.read, default=flag.default, metavar=flag.metavar, help=flag.help)
    for name, default, text, what in (
        ("--probing-rebalance-interval", 600_000, "10m", "a better assignment is looked for at least this often"),
        ("--heartbeat-interval", 3_000, "3s", "a worker speaks at least this often"),
        ("--session-timeout", 10_000, "10s", "a worker that is silent for so long is fenced"),
    ):
        group.add_argument(name, type=duration, default=default, metavar="DURATION", help=f"{what} (default: {text})")
