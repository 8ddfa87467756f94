"""Where standbys go, given who runs what: the cheapest placement on workers that have no other copy of the task.

Copies of a task must be on different workers, so that here it does matter whom a task gets in a rack. Where there are
few tasks and workers each pair of them is an arc. Otherwise a flow over racks comes first, as for actives; what it
gives to a rack is dealt out so that no worker gets a task twice. As long as that succeeds the cost is the optimum,
because the flow over racks is free to do more; a task for which it fails gets arcs of its own, and the flow is solved
again.

What is balanced are all copies of a worker, active or not: the whole numbers around its share by threads, or one more
or less where the actives leave no other choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sluice_assignor.optimum.costs import Costs
from sluice_assignor.optimum.network import HIGHEST_TOTAL, InfeasibleError, Ints, Network

_PAIRS = 200_000
"""With so many pairs of task and worker, or fewer, each has an arc: solved in a tenth of a second."""

Placed = list[list[int]]
"""By task: the workers of its standbys."""


def place_standbys(tasks: Ints, active: Ints, replicas: int, costs: Costs) -> Placed:
    """The workers of each task's standbys: so many, or as many as there are other workers.

    `active` is the worker that runs each task.
    """
    workers = len(costs.capacity)
    wanted = min(replicas, workers - 1)
    if wanted < 1 or not len(tasks):
        return [[] for _ in tasks]
    own_arcs = np.full(len(tasks), len(tasks) * workers <= _PAIRS)
    for slack in (0, 1, len(tasks)):
        try:
            return _place(_Standbys(tasks, active, wanted, costs, slack), own_arcs)
        except InfeasibleError:
            continue
    raise ArithmeticError(f"{wanted} standbys of {len(tasks)} tasks find no place on {workers} workers")


def _place(standbys: _Standbys, own_arcs: Ints) -> Placed:
    while True:
        placed, failed = standbys.solve(own_arcs)
        if not failed:
            return placed
        own_arcs = own_arcs.copy()
        own_arcs[failed] = True


class _Standbys:
    """One flow. Nodes: tasks, then racks, then workers, then everybody."""

    def __init__(self, tasks: Ints, active: Ints, wanted: int, costs: Costs, slack: int) -> None:
        self._tasks = tasks
        self._active = active
        self._wanted = wanted
        self._rack = costs.rack
        self._racks = np.arange(costs.rack_count)
        self._workers = np.arange(len(costs.capacity))
        self._first_worker = len(tasks) + costs.rack_count
        self._everybody = self._first_worker + len(self._workers)
        runs = np.bincount(active, minlength=len(self._workers))
        self._fewest, self._most = standby_bounds(len(tasks), runs, wanted, costs.capacity, slack)
        self._set_costs(costs)

    def _set_costs(self, costs: Costs) -> None:
        rows = np.searchsorted(self._tasks, costs.copies.task)
        elsewhere = costs.copies.worker != self._active[rows]
        copies, self._rows = costs.copies.of(elsewhere), rows[elsewhere]
        traffic = costs.changelog_traffic[copies.task, self._rack[copies.worker]]
        near = copies.restore + traffic + costs.non_overlap * (1 - copies.is_held)
        anew = costs.from_scratch[self._tasks, None] + costs.changelog_traffic[self._tasks] + costs.non_overlap
        highest = int(max(anew.max(), near.max(initial=0)))
        ties = 2 * len(self._tasks) * self._wanted + 1
        unit = max(1, min(ties, HIGHEST_TOTAL // ((highest + 1) * (self._everybody + 1))))
        self._near = copies.worker
        self._near_costs = near * unit + 1 - copies.is_held * (1 - copies.is_active)
        self._anew_costs = anew * unit + 1

    def solve(self, own_arcs: Ints) -> tuple[Placed, list[int]]:
        """The workers of each task, and the tasks for which a rack that they were given to has no worker left.

        `own_arcs` says which tasks have an arc to each worker.
        """
        network = Network()
        own_rows, own_workers = self._pairs(own_arcs)
        others = np.flatnonzero(~own_arcs)
        near = network.add(self._rows, self._first_worker + self._near, 1, self._near_costs)
        own_costs = self._anew_costs[own_rows, self._rack[own_workers]]
        own = network.add(own_rows, self._first_worker + own_workers, 1, own_costs)
        to_racks = self._add_racks(network, others)
        to_workers = network.add(len(self._tasks) + self._rack, self._first_worker + self._workers, self._most, 0)
        everybody = np.full(len(self._workers), self._everybody)
        network.add(self._first_worker + self._workers, everybody, self._most - self._fewest, 0)
        flow = network.cheapest_flow(self._supplies())
        placed: Placed = [[] for _ in self._tasks]
        for rows, workers, arcs in ((self._rows, self._near, near), (own_rows, own_workers, own)):
            chosen = flow[arcs] > 0
            for row, worker in zip(rows[chosen].tolist(), workers[chosen].tolist(), strict=True):
                placed[row].append(worker)
        by_rack = flow[to_racks].reshape(len(others), len(self._racks))
        return placed, self._deal_out(placed, others, by_rack, flow[to_workers])

    def _pairs(self, own_arcs: Ints) -> tuple[Ints, Ints]:
        """Every worker for each of these tasks, except those that it has an arc to already, and its active."""
        tasks = np.flatnonzero(own_arcs)
        is_free = np.ones((len(tasks), len(self._workers)), dtype=bool)
        is_free[np.arange(len(tasks)), self._active[tasks]] = False
        has_near = own_arcs[self._rows]
        is_free[np.searchsorted(tasks, self._rows[has_near]), self._near[has_near]] = False
        places, workers = np.nonzero(is_free)
        return tasks[places], workers

    def _add_racks(self, network: Network, tasks: Ints) -> slice:
        tails = np.repeat(tasks, len(self._racks))
        heads = np.tile(len(self._tasks) + self._racks, len(tasks))
        return network.add(tails, heads, self._wanted, self._anew_costs[tasks].ravel())

    def _supplies(self) -> Ints:
        supplies = np.zeros(self._everybody + 1, dtype=np.int64)
        supplies[: len(self._tasks)] = self._wanted
        supplies[self._first_worker : self._everybody] = -self._fewest
        supplies[self._everybody] = self._fewest.sum() - self._wanted * len(self._tasks)
        return supplies

    def _deal_out(self, placed: Placed, tasks: Ints, by_rack: Ints, to_workers: Ints) -> list[int]:
        """Give what reached each rack to its workers. Returns the tasks for which that was not possible."""
        failed = []
        for rack in self._racks:
            units = np.repeat(tasks, by_rack[:, rack]).tolist()
            slots = _in_turn(np.flatnonzero(self._rack == rack), to_workers)
            for place in range(len(units)):
                if not self._settle(place, units, slots, placed):
                    failed.append(units[place])
            for row, worker in zip(units, slots, strict=True):
                placed[row].append(worker)
        return failed

    def _settle(self, place: int, units: Sequence[int], slots: list[int], placed: Placed) -> bool:
        """Let the task at one place of a rack have a worker that has no copy of it, by changing with another task."""

        def fits(at: int, slot: int) -> bool:
            row, worker = units[at], slots[slot]
            is_twin = any(slots[twin] == worker for twin in _twins(at, units))
            return worker != self._active[row] and worker not in placed[row] and not is_twin

        if fits(place, place):
            return True
        for other in (*range(place + 1, len(units)), *range(place)):
            is_other_task = units[other] != units[place]
            if is_other_task and fits(place, other) and (other > place or fits(other, place)):
                slots[place], slots[other] = slots[other], slots[place]
                return True
        return False


def standby_bounds(tasks: int, runs: Ints, wanted: int, capacity: Ints, slack: int) -> tuple[Ints, Ints]:
    """The fewest and the most standbys of each worker, who runs so many tasks already.

    Shares are of all copies by threads; a worker that would have more than one of each task leaves the rest to others.
    """
    is_full = np.zeros(len(capacity), dtype=bool)
    while True:
        left = (1 + wanted) * tasks - tasks * int(is_full.sum())
        threads = max(1, int(capacity[~is_full].sum()))
        overflows = ~is_full & (left * capacity > tasks * threads)
        if not overflows.any():
            break
        is_full |= overflows
    fewest = np.where(is_full, tasks, left * capacity // threads) - slack - runs
    most = np.where(is_full, tasks, -(-left * capacity // threads)) + slack - runs
    return np.maximum(0, fewest), np.clip(most, 0, tasks - runs)


def _in_turn(workers: Ints, counts: Ints) -> list[int]:
    """Each worker as often as it counts, in rounds, so that a task's copies fall on different ones."""
    slots = np.repeat(workers, counts[workers])
    rounds = np.concatenate([np.arange(count) for count in counts[workers]]) if len(slots) else slots
    return [int(worker) for worker in slots[np.lexsort((slots, rounds))]]


def _twins(place: int, units: Sequence[int]) -> Iterator[int]:
    """The other places of the same task: they are next to each other."""
    for step in (-1, 1):
        twin = place + step
        while 0 <= twin < len(units) and units[twin] == units[place]:
            yield twin
            twin += step
