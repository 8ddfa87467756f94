"""Tasks and workers as a flow, and what it costs (KIP-925, "Min-cost flow problem").

Each task sends one unit to the worker that holds it; what it costs depends on the worker's rack, and on whether the
worker is the one that the task came from. Tasks are in groups: each subtopology is one where its tasks must be spread,
otherwise all tasks are one group. A group may send each worker so many units only; `room` says how many are left.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """What each task costs at each worker. Tasks, workers and racks are numbered from 0."""

    traffic: Sequence[Sequence[int]]
    """By task and rack."""
    rack: Sequence[int]
    """By worker."""
    home: Sequence[int]
    """By task: the worker that it came from."""
    non_overlap: int
    """What it costs to be away from there."""

    def of(self, task: int, worker: int) -> int:
        away = self.non_overlap if worker != self.home[task] else 0
        return self.traffic[task][self.rack[worker]] + away


class Flow:
    """Who holds which task."""

    def __init__(
        self, costs: Costs, groups: Sequence[int], holder: Sequence[int], room: list[list[int]] | None = None
    ) -> None:
        """`groups` is by task, ascending from 0; `room` by group and worker, none when it is not given."""
        self.costs = costs
        self.workers = len(costs.rack)
        self.group = groups
        self.group_count = groups[-1] + 1 if groups else 0
        self.holder = list(holder)
        self.tasks_at: list[list[set[int]]] = [[set() for _ in costs.rack] for _ in range(self.group_count)]
        """By group and worker."""
        for task, worker in enumerate(self.holder):
            self.tasks_at[groups[task]][worker].add(task)
        self.room = room or [[0] * self.workers for _ in range(self.group_count)]

    def tasks_of(self, group: int) -> range:
        return range(bisect_left(self.group, group), bisect_right(self.group, group))

    def move(self, task: int, worker: int) -> None:
        at, source = self.tasks_at[self.group[task]], self.holder[task]
        at[source].remove(task)
        at[worker].add(task)
        self.room[self.group[task]][source] += 1
        self.room[self.group[task]][worker] -= 1
        self.holder[task] = worker
