"""Standbys near the changelogs that they restore from (KIP-925, "Rack awareness assignment for standby tasks").

Two workers in different racks exchange standbys where that is cheaper for both together; pair after pair, a few rounds.
It is no optimum over the group, but no exchange makes a task less safe than its tags ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import inf

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.racks.actives import HELPER_NODES
from sluice_assignor.racks.cycles import cancel_cycles
from sluice_assignor.racks.flow import Costs, Flow
from sluice_assignor.racks.traffic import Racks, Weights

MayMove = Callable[[int, int, int], bool]
"""May the standby of a task go from one worker to another?"""

ROUNDS = 4
"""Kafka's limit; most groups are done after fewer."""


def save_traffic_of_standbys(draft: Draft, numbering: Numbering, weights: Weights, may_move: MayMove) -> None:
    """Exchange standbys between pairs of workers until a round finds nothing, or `ROUNDS` are over."""
    exchange = _Exchange(draft, numbering, weights, may_move)
    for _ in range(ROUNDS):
        if not exchange.round():
            return


class _Exchange:
    def __init__(self, draft: Draft, numbering: Numbering, weights: Weights, may_move: MayMove) -> None:
        self._draft = draft
        self._workers = numbering.staying
        self._may_move = may_move
        self._non_overlap = weights.non_overlap
        self._racks = Racks(numbering)
        restoring = self._racks.restoring(numbering.stateful, weights.traffic)
        self._traffic = dict(zip(numbering.stateful, restoring, strict=True))
        self._least_added = {worker: self._least_added_by(worker) for worker in self._workers}

    def round(self) -> bool:
        """Try every pair once. Has anything moved?"""
        moved = False
        for one, other in combinations(self._workers, 2):
            if self._may_save(one, other) and self._exchange(one, other):
                moved = True
                for worker in (one, other):
                    self._least_added[worker] = self._least_added_by(worker)
        return moved

    def _least_added_by(self, worker: int) -> list[float]:
        """By rack: how much more (or less) the standby of this worker would cost there that would add the least."""
        here = self._racks.of_worker[worker]
        costs = [self._traffic[task] for task in self._draft.standby[worker]]
        return [
            min((cost[there] - cost[here] for cost in costs), default=inf) + self._non_overlap
            for there in range(self._racks.count)
        ]

    def _may_save(self, one: int, other: int) -> bool:
        """Could the best exchange save something, if all were allowed? Most pairs end here."""
        rack, other_rack = self._racks.of_worker[one], self._racks.of_worker[other]
        return rack != other_rack and self._least_added[one][other_rack] + self._least_added[other][rack] < 0

    def _exchange(self, *pair: int) -> bool:
        movable = [self._movable(*pair), self._movable(*reversed(pair))]
        home = {task: place for place, tasks in enumerate(movable) for task in tasks}
        if not all(movable):
            return False
        tasks = sorted(home)
        costs = Costs(
            traffic=[self._traffic[task] for task in tasks],
            rack=[self._racks.of_worker[worker] for worker in pair],
            home=[home[task] for task in tasks],
            non_overlap=self._non_overlap,
        )
        flow = Flow(costs, [0] * len(tasks), costs.home)
        cancel_cycles(flow, nodes=len(tasks) + len(pair) + HELPER_NODES)
        for task, source, destination in zip(tasks, costs.home, flow.holder, strict=True):
            if source != destination:
                self._draft.standby[pair[source]].remove(task)
                self._draft.standby[pair[destination]].add(task)
        return flow.holder != list(costs.home)

    def _movable(self, source: int, destination: int) -> list[int]:
        return [
            task
            for task in self._draft.standby[source]
            if not self._draft.holds(destination, task) and self._may_move(source, destination, task)
        ]
