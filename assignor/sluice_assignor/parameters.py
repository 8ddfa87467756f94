"""What only one strategy reads: the parameters of the drafts of KIP-441, with names and limits, and Optimal's own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sluice_assignor.errors import InvalidConfigError


@dataclass(frozen=True, slots=True)
class BalancedParameters:
    """How even `Balanced` is (KIP-441's early draft).

    `balance_factor` is how many tasks the worker with the most may be ahead of the one with the least, each compared
    with what its threads are worth. The others are weights, of which only the relation counts: how much an even number
    of tasks (with and without state) means against an even spread of each subtopology. The defaults are
    Elasticsearch's, whose shardBalance and indexBalance the draft quotes. Raises InvalidConfigError naming field and
    value.
    """

    balance_factor: int = 1
    stateful_balance: float = 0.45
    stateless_balance: float = 0.45
    subtopology_balance: float = 0.55

    def __post_init__(self) -> None:
        if self.balance_factor < 1:
            raise InvalidConfigError(
                f"balanceFactor is {self.balance_factor}; it must be at least 1, or tasks that don't divide evenly "
                "would move for ever"
            )
        for name, weight in (
            ("statefulBalance", self.stateful_balance),
            ("statelessBalance", self.stateless_balance),
            ("subtopologyBalance", self.subtopology_balance),
        ):
            if not (math.isfinite(weight) and weight >= 0):
                raise InvalidConfigError(f"{name} is {weight}; it must be a number from 0 on")
        if min(self.stateful_balance, self.stateless_balance) + self.subtopology_balance == 0:
            raise InvalidConfigError(
                "subtopologyBalance is 0, and so is statefulBalance or statelessBalance; one of each pair must be "
                "above 0, or any worker would be as good as any other"
            )


@dataclass(frozen=True, slots=True)
class IncrementalParameters:
    """How even `Incremental` is (KIP-441's oldest version, stream.imbalance.percentage).

    A worker may hold that many percent more or less than its share, which its threads are its weight for; whole tasks
    round in its favour. The draft has no default, so this is the one of its example. Raises InvalidConfigError naming
    field and value.
    """

    imbalance_percentage: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.imbalance_percentage <= 100:
            raise InvalidConfigError(
                f"imbalancePercentage is {self.imbalance_percentage}; it must be from 0 (as even as whole tasks can "
                "be) to 100 percent"
            )


@dataclass(frozen=True, slots=True)
class OptimalParameters:
    """What `Optimal` weighs besides KIP-925's costs.

    `subtopology_spread` is what it is worth that a worker has one task of a subtopology less above an even share, in
    thousandths of restoring a task of mean size; at 0 the spread only decides between placements that cost the same.
    Raises InvalidConfigError naming field and value.
    """

    subtopology_spread: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.subtopology_spread <= 1_000_000:
            raise InvalidConfigError(
                f"subtopologySpread is {self.subtopology_spread}; it must be from 0 (only between equals) to 1000000 "
                "thousandths of restoring a task"
            )
