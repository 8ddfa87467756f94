"""Balanced: tasks stay where they are until workers differ by more than the balance factor (KIP-441's early draft).

The draft names the factor and, beside it, how Elasticsearch weighs a node: by the shards that it has in all, and by
those of one index. A shard is a task here and an index a subtopology. As there, placing what nobody has (allocation)
and moving what somebody has (rebalancing) are two things, and rebalancing only starts where the factor says so. Tasks
with state come first and are balanced among themselves; those without fill the gaps.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from sluice_assignor.approach import approach
from sluice_assignor.copies import Copies, keep_owned
from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.kept_standbys import keep_standbys
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, GroupState
from sluice_assignor.parameters import BalancedParameters
from sluice_assignor.shares import Shares

_ROUNDING = 1e-9
"""Weights are fractions: what is ahead by less than this is not ahead."""


def balanced(group: GroupState, config: AssignmentConfig) -> Decision:
    """Allocate, rebalance, then step."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    copies = Copies(numbering, lags)
    target = Draft(numbering)
    parameters = config.balanced
    for tasks, kind_balance in (
        (numbering.stateful, parameters.stateful_balance),
        (numbering.stateless, parameters.stateless_balance),
    ):
        _place(tasks, kind_balance, target, numbering, copies, parameters)
    if config.num_standby_replicas:
        keep_standbys(target, numbering, copies, config.num_standby_replicas)
    return approach(target, lags, numbering, config)


def _place(
    tasks: Sequence[int],
    kind_balance: float,
    draft: Draft,
    numbering: Numbering,
    copies: Copies,
    parameters: BalancedParameters,
) -> None:
    homeless = keep_owned(tasks, draft, numbering)
    weights = _Weights(tasks, homeless, kind_balance, draft, numbering, parameters)
    _allocate(homeless, weights, copies)
    _Rebalancer(frozenset(tasks), weights, copies, parameters.balance_factor).rebalance()


class _Weights:
    """How heavy each worker is, seen from a subtopology: Elasticsearch's weight function."""

    def __init__(
        self,
        tasks: Sequence[int],
        homeless: Sequence[int],
        kind_balance: float,
        draft: Draft,
        numbering: Numbering,
        parameters: BalancedParameters,
    ) -> None:
        self.workers = numbering.staying
        self.active = draft.active
        self._numbering = numbering
        whole = kind_balance + parameters.subtopology_balance
        self._of_count, self._of_spread = kind_balance / whole, parameters.subtopology_balance / whole
        held = sum(len(draft.active[worker]) for worker in self.workers)
        self.shares = Shares(held + len(homeless), draft.capacity, self.workers)
        self._subtopology_shares = {
            subtopology: Shares(count, draft.capacity, self.workers)
            for subtopology, count in Counter(map(self.subtopology, tasks)).items()
        }
        own = frozenset(tasks)
        self.spread = {
            worker: Counter(self.subtopology(task) for task in draft.active[worker] & own) for worker in self.workers
        }

    def subtopology(self, task: int) -> int:
        return self._numbering.tasks[task].id.subtopology

    def surplus(self, worker: int, additional: int = 0) -> int:
        """How far the worker is ahead of its share of all tasks, in the parts of `shares`."""
        return self.shares.surplus(worker, len(self.active[worker]) + additional)

    def weight(self, worker: int, subtopology: int, additional: int = 0) -> float:
        """In tasks; what the worker has beyond its share, in all and of the subtopology."""
        spread = self._subtopology_shares[subtopology].surplus(worker, self.spread[worker][subtopology] + additional)
        count = self.surplus(worker, additional)
        return (self._of_count * count + self._of_spread * spread) / self.shares.parts

    def give(self, task: int, worker: int) -> None:
        self.active[worker].add(task)
        self.spread[worker][self.subtopology(task)] += 1

    def take(self, task: int, worker: int) -> None:
        self.active[worker].remove(task)
        self.spread[worker][self.subtopology(task)] -= 1


def _allocate(homeless: Sequence[int], weights: _Weights, copies: Copies) -> None:
    """Give out what nobody has: to the lightest of those with the most of its state, then to the lightest of all."""
    strangers = []
    for task in homeless:
        nearest = copies.nearest(task, lambda _: True)
        if nearest:
            subtopology = weights.subtopology(task)
            weights.give(task, min(nearest, key=lambda near: (weights.weight(near, subtopology, 1), near)))
        else:
            strangers.append(task)
    for subtopology, tasks in groupby(strangers, key=weights.subtopology):
        _allocate_evenly(list(tasks), subtopology, weights)


def _allocate_evenly(tasks: Sequence[int], subtopology: int, weights: _Weights) -> None:
    queue = [(weights.weight(worker, subtopology, 1), worker) for worker in weights.workers]
    heapq.heapify(queue)
    for task in tasks:
        worker = queue[0][1]
        weights.give(task, worker)
        heapq.heapreplace(queue, (weights.weight(worker, subtopology, 1), worker))


class _Rebalancer:
    """Moves tasks of one kind between workers that differ by more than the factor.

    The number of tasks comes first. After it weights may ask for more moves, but only for such as leave no worker
    further ahead than before. Every move brings the squares of all surpluses down, so that moving comes to an end.
    """

    def __init__(self, tasks: frozenset[int], weights: _Weights, copies: Copies, factor: int) -> None:
        self._tasks = tasks
        self._weights = weights
        self._copies = copies
        self._factor = factor

    def rebalance(self) -> None:
        while pair := self._pair_out_of_balance():
            self._move(*pair, self._candidates(pair[0]))
        while self._spread_subtopologies():
            pass

    def _pair_out_of_balance(self) -> tuple[int, int] | None:
        """The worker furthest ahead that has something to give, and the one furthest behind, if they are too far apart.

        Only they need looking at: between two others the difference is smaller.
        """
        weights = self._weights
        givers = [worker for worker in weights.workers if weights.spread[worker].total()]
        if not givers:
            return None
        source = min(givers, key=lambda worker: (-weights.surplus(worker), worker))
        destination = min(weights.workers, key=lambda worker: (weights.surplus(worker), worker))
        ahead = weights.surplus(source) - weights.surplus(destination)
        return (source, destination) if ahead > self._factor * weights.shares.parts else None

    def _spread_subtopologies(self) -> bool:
        """One move for each subtopology that asks for one; is there any?"""
        subtopologies = sorted({self._weights.subtopology(task) for task in self._tasks})
        return sum([self._spread(subtopology) for subtopology in subtopologies]) > 0

    def _spread(self, subtopology: int) -> bool:
        """Move one task of a subtopology where weights ask for it."""
        for source, destination in self._pairs_by_weight(subtopology):
            tasks = [task for task in self._candidates(source) if self._weights.subtopology(task) == subtopology]
            self._move(source, destination, tasks)
            return True
        return False

    def _pairs_by_weight(self, subtopology: int) -> Iterator[tuple[int, int]]:
        """Pairs further apart than the factor by weight, and at least one task apart by number: heaviest first."""
        weights = self._weights
        weight = {worker: weights.weight(worker, subtopology) for worker in weights.workers}
        by_weight = sorted(weights.workers, key=lambda worker: (weight[worker], worker))
        for source in reversed(by_weight):
            for destination in by_weight:
                if weight[source] - weight[destination] <= self._factor + _ROUNDING:
                    break
                ahead = weights.surplus(source) - weights.surplus(destination)
                if weights.spread[source][subtopology] and ahead >= weights.shares.parts:
                    yield source, destination

    def _candidates(self, worker: int) -> list[int]:
        return sorted(self._weights.active[worker] & self._tasks)

    def _move(self, source: int, destination: int, tasks: Sequence[int]) -> None:
        """Move a task that is ready at the destination, or else one of the subtopology that is spread worst."""
        weights = self._weights

        def by_gain(task: int) -> tuple[bool, float, int]:
            subtopology = weights.subtopology(task)
            gap = weights.weight(source, subtopology) - weights.weight(destination, subtopology)
            return not self._copies.is_ready_or_warming(destination, task), -gap, task

        task = min(tasks, key=by_gain)
        weights.take(task, source)
        weights.give(task, destination)
