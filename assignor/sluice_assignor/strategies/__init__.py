"""The registry of strategies: every way to decide where tasks live, by the name that people configure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sluice_assignor.errors import InvalidConfigError
from sluice_assignor.model import AssignmentConfig, Decision, GroupState
from sluice_assignor.strategies.balanced import balanced
from sluice_assignor.strategies.high_availability import high_availability
from sluice_assignor.strategies.incremental import incremental
from sluice_assignor.strategies.optimal import optimal
from sluice_assignor.strategies.sticky import sticky

Strategy = Callable[[GroupState, AssignmentConfig], Decision]
"""Places the tasks of a group in which somebody may receive tasks and the ends of the changelogs are known."""

STRATEGIES: Mapping[str, Strategy] = {
    "HighAvailability": high_availability,
    "Sticky": sticky,
    "Balanced": balanced,
    "Incremental": incremental,
    "Optimal": optimal,
}


def find_strategy(name: str) -> Strategy:
    """Look a strategy up. Raises InvalidConfigError naming it and those that there are."""
    try:
        return STRATEGIES[name]
    except KeyError:
        raise InvalidConfigError(
            f"assignment strategy {name!r} does not exist; use one of: {', '.join(sorted(STRATEGIES))}"
        ) from None
