"""Standbys on workers that differ in their tags (KIP-708), chosen greedily: task by task, copy by copy.

No flow knows which copies of a task share a tag. So each copy goes to the worker that differs in most tags from the
copies before it; of those to one that has room in its share, then to the cheapest, then to the least loaded. Workers
with the same tags in the same rack differ only in load and in what they have already, so that one of each such class is
looked at, and those that have a copy.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sluice_assignor.draft import Numbering
from sluice_assignor.optimum.costs import Costs
from sluice_assignor.optimum.network import Ints
from sluice_assignor.optimum.standbys import Placed, standby_bounds

_Tags = tuple[str | None, ...]
"""The value of each configured key, None where a worker has none."""


def place_tagged_standbys(
    tasks: Ints, active: Ints, replicas: int, costs: Costs, numbering: Numbering, keys: Sequence[str]
) -> tuple[Placed, list[int]]:
    """The workers of each task's standbys, and the tasks of which copies share a tag that they need not share."""
    wanted = min(replicas, len(costs.capacity) - 1)
    if wanted < 1 or not len(tasks):
        return [[] for _ in tasks], []
    return _Greedy(tasks, active, wanted, costs, numbering, keys).place()


@dataclass(slots=True)
class _Class:
    """Workers that cost the same for a task of which they have nothing, by load."""

    tags: _Tags
    queue: list[tuple[int, int]] = field(default_factory=list)

    def least_loaded(self, load: Sequence[int], taken: Sequence[int]) -> int | None:
        """The first in the order of (load, worker) that has no copy; entries of old loads are dropped or renewed."""
        passed = []
        found = None
        while self.queue and found is None:
            count, worker = heapq.heappop(self.queue)
            if count != load[worker]:
                heapq.heappush(self.queue, (load[worker], worker))
                continue
            passed.append((count, worker))
            if worker not in taken:
                found = worker
        for entry in passed:
            heapq.heappush(self.queue, entry)
        return found


class _Greedy:
    def __init__(
        self, tasks: Ints, active: Ints, wanted: int, costs: Costs, numbering: Numbering, keys: Sequence[str]
    ) -> None:
        self._tasks = tasks.tolist()
        self._active = active.tolist()
        self._wanted = wanted
        runs = np.bincount(active, minlength=len(costs.capacity))
        self._room = standby_bounds(len(tasks), runs, wanted, costs.capacity, 0)[1].tolist()
        self._load = [0] * len(costs.capacity)
        self._rack = costs.rack.tolist()
        self._anew = (costs.from_scratch[:, None] + costs.changelog_traffic + costs.non_overlap).tolist()
        self._near = _cost_of_copies(costs)
        members = [numbering.workers[number] for number in numbering.staying]
        self._tags: list[_Tags] = [tuple(member.tags.get(key) for key in keys) for member in members]
        self._values = [len({tags[place] for tags in self._tags} - {None}) for place in range(len(keys))]
        classes: dict[tuple[_Tags, int], _Class] = {}
        for worker, tags in enumerate(self._tags):
            classes.setdefault((tags, self._rack[worker]), _Class(tags)).queue.append((0, worker))
        self._classes = [classes[key] for key in sorted(classes, key=repr)]

    def place(self) -> tuple[Placed, list[int]]:
        placed, alike = [], []
        for task, active in zip(self._tasks, self._active, strict=True):
            copies = [active]
            is_apart = True
            for _ in range(self._wanted):
                worker = min(self._candidates(task, copies), key=lambda one: self._rank(task, one, copies))
                is_apart = is_apart and self._difference(worker, copies) == self._possible_difference(copies)
                copies.append(worker)
                self._load[worker] += 1
            placed.append(copies[1:])
            if not is_apart:
                alike.append(task)
        return placed, alike

    def _candidates(self, task: int, copies: Sequence[int]) -> Iterator[int]:
        yield from (worker for worker in self._near[task] if worker not in copies)
        for one in self._classes:
            worker = one.least_loaded(self._load, copies)
            if worker is not None:
                yield worker

    def _rank(self, task: int, worker: int, copies: Sequence[int]) -> tuple[int, bool, int, int, int]:
        cost = self._near[task].get(worker, self._anew[task][self._rack[worker]])
        load = self._load[worker]
        return -self._difference(worker, copies), load >= self._room[worker], cost, load, worker

    def _difference(self, worker: int, copies: Sequence[int]) -> int:
        """In how many tags the worker differs from all copies."""
        return sum(
            value is not None and all(self._tags[copy][place] != value for copy in copies)
            for place, value in enumerate(self._tags[worker])
        )

    def _possible_difference(self, copies: Sequence[int]) -> int:
        """In how many tags there are more values than copies; no copy could differ in the others."""
        return sum(values > len(copies) for values in self._values)


def _cost_of_copies(costs: Costs) -> dict[int, dict[int, int]]:
    copies = costs.copies
    traffic = costs.changelog_traffic[copies.task, costs.rack[copies.worker]]
    values = copies.restore + traffic + costs.non_overlap * (1 - copies.is_held)
    near: dict[int, dict[int, int]] = defaultdict(dict)
    for task, worker, cost in zip(copies.task.tolist(), copies.worker.tolist(), values.tolist(), strict=True):
        near[task][worker] = cost
    return near
