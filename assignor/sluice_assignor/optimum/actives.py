"""Who runs which task: the cheapest placement in which every worker has its share, as one min-cost flow.

A task sends one unit either to a worker that has a copy of it, at the cost of what that copy lacks, or to a rack, at
the cost of restoring from scratch and of the traffic: whom it then gets in that rack makes no difference to its cost.
So there are as many arcs as tasks and racks, and not as tasks and workers (KIP-925's graph has those). A worker takes
the whole tasks around its share by threads, no less and no more.

    task ──────────────────────────────► worker ──► everybody
      └──► rack, by subtopology ───────────▲

The spread of a subtopology is judged by what a worker has of it now: what it gets above an even share costs, and so
does each task that it keeps above that. By default this only decides between placements that cost the same. Nodes for
what each worker has of each subtopology would count it exactly, and make the flow six times as slow (100,000 × 10,000).
"""

from __future__ import annotations

import numpy as np

from sluice_assignor.optimum.costs import NOWHERE, Copies, Costs
from sluice_assignor.optimum.network import HIGHEST_TOTAL, Ints, Network


def place_stateful(tasks: Ints, costs: Costs) -> Ints:
    """The worker of each task with state."""
    if not len(tasks):
        return tasks
    nobody = np.zeros(len(costs.capacity), dtype=np.int64)
    return _Placement(tasks, costs).solve(costs.from_scratch[tasks], costs.copies, nobody)


def place_stateless(tasks: Ints, costs: Costs, stateful: Ints) -> Ints:
    """The worker of each task without state, which only like to stay. `stateful` is how many each worker runs of those
    with state: of equals, who has fewer than others comes first."""
    if not len(tasks):
        return tasks
    here = tasks[costs.holder[tasks] != NOWHERE]
    nothing, one = np.zeros_like(here), np.ones_like(here)
    copies = Copies(here, costs.holder[here], nothing, one, one)
    is_ahead = stateful > stateful.sum() * costs.capacity // costs.capacity.sum()
    return _Placement(tasks, costs).solve(np.zeros_like(tasks), copies, is_ahead.astype(np.int64))


class _Placement:
    """One flow. Nodes: tasks, then racks by subtopology, then workers, then everybody."""

    def __init__(self, tasks: Ints, costs: Costs) -> None:
        self._tasks = tasks
        self._costs = costs
        self._spread = costs.spread
        shares = len(tasks) * costs.capacity
        self._fewest, self._most = shares // costs.capacity.sum(), -(-shares // costs.capacity.sum())
        subtopologies, self._kind, sizes = np.unique(costs.subtopology[tasks], return_inverse=True, return_counts=True)
        self._kinds = len(subtopologies)
        self._even = -(-sizes[None, :] * costs.capacity[:, None] // costs.capacity.sum())
        self._workers = np.arange(len(costs.capacity))
        self._first_group = len(tasks)
        self._first_worker = self._first_group + costs.rack_count * self._kinds
        self._everybody = self._first_worker + len(self._workers)
        self._network = Network()

    def solve(self, from_scratch: Ints, copies: Copies, last: Ints) -> Ints:
        """The worker of each task. `last` is 1 for workers that should be the last to get more than the fewest."""
        costs = self._costs
        rows = np.searchsorted(self._tasks, copies.task)
        traffic = costs.source_traffic[copies.task, costs.rack[copies.worker]]
        anew = from_scratch[:, None] + costs.source_traffic[self._tasks] + costs.non_overlap
        near = copies.restore + traffic + costs.non_overlap * (1 - copies.is_active)
        unit = self._unit(int(max(anew.max(), near.max(initial=0)) + self._spread))
        above = self._spread * unit + 1
        had, is_above = self._spread_now(rows, copies, anew.min(axis=1))
        to_groups = self._add_groups(anew * unit + 1)
        to_copies = self._add_copies(rows, copies.worker, near * unit + 1 - copies.is_held + above * is_above)
        to_workers = self._add_workers(had, above)
        self._add_shares(last)
        flow = self._network.cheapest_flow(self._supplies())
        placed = self._deal_out(flow[to_groups], flow[to_workers[0]] + flow[to_workers[1]])
        kept = flow[to_copies] > 0
        placed[rows[kept]] = copies.worker[kept]
        return placed

    def _unit(self, highest: int) -> int:
        """What one unit of cost is in ties: more than all ties together, as far as integers go."""
        ties = 3 * len(self._tasks) + len(self._workers) + 1
        return max(1, min(ties, HIGHEST_TOTAL // ((highest + 1) * (self._everybody + 1))))

    def _spread_now(self, rows: Ints, copies: Copies, moving: Ints) -> tuple[Ints, Ints]:
        """How many tasks of each subtopology a worker has now, and which copies are above its even share.

        Those are the ones that are cheapest to move.
        """
        active = np.flatnonzero(copies.is_active)
        part = copies.worker[active] * self._kinds + self._kind[rows[active]]
        had = np.bincount(part, minlength=self._even.size)
        order = np.lexsort((rows[active], moving[rows[active]], part))
        first = np.cumsum(had) - had
        rank = np.arange(len(order)) - first[part[order]]
        is_above = np.zeros(len(rows), dtype=np.int64)
        is_above[active[order]] = rank < (had - self._even.ravel())[part[order]]
        return had.reshape(self._even.shape), is_above

    def _add_groups(self, costs: Ints) -> slice:
        """Task to each rack, for its subtopology."""
        racks = np.arange(self._costs.rack_count)
        heads = self._first_group + racks[None, :] * self._kinds + self._kind[:, None]
        return self._network.add(np.repeat(np.arange(len(self._tasks)), len(racks)), heads.ravel(), 1, costs.ravel())

    def _add_copies(self, rows: Ints, workers: Ints, costs: Ints) -> slice:
        return self._network.add(rows, self._first_worker + workers, 1, costs)

    def _add_workers(self, had: Ints, above: int) -> tuple[slice, slice]:
        """Rack to each of its workers by subtopology: up to an even share for nothing, the rest at a cost."""
        kinds = np.arange(self._kinds)
        tails = self._first_group + self._costs.rack[:, None] * self._kinds + kinds[None, :]
        heads = np.repeat(self._first_worker + self._workers, self._kinds)
        room = np.maximum(0, self._even - had)
        rest = np.maximum(0, self._most[:, None] - room)
        return (
            self._network.add(tails.ravel(), heads, room.ravel(), 0),
            self._network.add(tails.ravel(), heads, rest.ravel(), above),
        )

    def _add_shares(self, last: Ints) -> None:
        everybody = np.full(len(self._workers), self._everybody)
        self._network.add(self._first_worker + self._workers, everybody, self._most - self._fewest, last)

    def _supplies(self) -> Ints:
        supplies = np.zeros(self._everybody + 1, dtype=np.int64)
        supplies[: len(self._tasks)] = 1
        supplies[self._first_worker : self._everybody] = -self._fewest
        supplies[self._everybody] = self._fewest.sum() - len(self._tasks)
        return supplies

    def _deal_out(self, to_groups: Ints, to_workers: Ints) -> Ints:
        """Give what reached a rack to its workers, by subtopology: tasks in order to workers in order."""
        tasks, racks = np.nonzero(to_groups.reshape(len(self._tasks), -1))
        tasks = tasks[np.lexsort((tasks, self._kind[tasks], racks))]
        takers = np.repeat(self._workers, self._kinds)
        order = np.lexsort((takers, np.tile(np.arange(self._kinds), len(self._workers)), self._costs.rack[takers]))
        placed = np.full(len(self._tasks), NOWHERE, dtype=np.int64)
        placed[tasks] = np.repeat(takers[order], to_workers[order])
        return placed
