"""The ways that tasks could take from place to place, of which a search needs the cheapest only.

A place is a group at a worker. A way into a worker costs the same for all workers of a rack, except for a task that
would come home. Distances carry the task that brought them, as `distance << bits | task`: the smallest number is the
smallest distance, and of equals the first task, which is the one that Kafka remembers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from sluice_assignor.racks.flow import Flow

NOWHERE = 1 << 80
"""Farther than any distance."""


class Edges:
    """The ways of a flow, kept up to date while tasks move."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.bits = len(flow.holder).bit_length()
        workers, groups = range(flow.workers), range(flow.group_count)
        racks = range(max(flow.costs.rack) + 1)
        self.into_rack = [[[NOWHERE for _ in workers] for _ in racks] for _ in groups]
        """The cheapest way by group, rack of the destination, and source."""
        self.into_home: list[list[dict[int, int]]] = [[{} for _ in workers] for _ in groups]
        """By group and source: the workers to which a task comes home more cheaply than any comes into their rack."""
        self.costliest = [[0 for _ in workers] for _ in groups]
        """By group and worker: the highest cost of a task there."""
        self._paid: list[list[list[tuple[int, int]]]] = [[[] for _ in workers] for _ in groups]
        """By group and worker: the tasks there, each with its cost."""
        self._by_rack: list[list[list[list[int]]]] = [[[[] for _ in racks] for _ in workers] for _ in groups]
        self._home: list[list[list[tuple[int, int]]]] = [[[] for _ in workers] for _ in groups]
        for group, tasks_at in enumerate(flow.tasks_at):
            for worker in workers:
                if tasks_at[worker]:
                    self._refresh(group, worker)

    def move(self, cycle: Sequence[tuple[int, int]]) -> None:
        """Let each task of a cycle go to its worker."""
        changed = set()
        for task, worker in cycle:
            group = self.flow.group[task]
            changed |= {(group, self.flow.holder[task]), (group, worker)}
            self.flow.move(task, worker)
        for group, worker in changed:
            self._refresh(group, worker)

    def are_exhausted(self) -> bool:
        """Is it plain to see that no cycle is left? Between two workers without room a cycle is an exchange."""
        if self.flow.workers != 2 or self.flow.group_count != 1 or any(self.flow.room[0]):
            return False
        return (self._way(0, 1) >> self.bits) + (self._way(1, 0) >> self.bits) >= 0

    def _way(self, source: int, worker: int) -> int:
        into_rack = self.into_rack[0][self.flow.costs.rack[worker]][source]
        return min(into_rack, self.into_home[0][source].get(worker, NOWHERE))

    def tasks_nearer(self, group: int, worker: int, distance: int, than: int) -> Iterator[int]:
        """The tasks here that are nearer than that, if this place is at the distance."""
        bits, enough = self.bits, distance - than
        return (task for task, cost in self._paid[group][worker] if cost << bits > enough)

    def tasks_within_reach(
        self, group: int, worker: int, distance: int, farthest: Sequence[int], places: Sequence[int]
    ) -> Iterator[int]:
        """The tasks here that could bring a place nearer, if this place is at the distance.

        `farthest` is the distance of the farthest place by rack, `places` that of each place of the group.
        """
        mask = (1 << self.bits) - 1
        for ways, place in zip(self._by_rack[group][worker], farthest, strict=True):
            for way in takewhile((place - distance).__gt__, ways):
                yield way & mask
        for home, way in self._home[group][worker]:
            if distance + way < places[home]:
                yield way & mask

    def _refresh(self, group: int, worker: int) -> None:
        costs = self.flow.costs
        traffic, home, here, away = costs.traffic, costs.home, costs.rack[worker], costs.non_overlap
        self._paid[group][worker] = paid = [  # `Costs.of` written out: a call a task would be felt
            (task, traffic[task][here] + (away if home[task] != worker else 0))
            for task in self.flow.tasks_at[group][worker]
        ]
        self.costliest[group][worker] = max((cost for _, cost in paid), default=0) << self.bits
        for rack, cheapest in enumerate(self.into_rack[group]):
            ways = sorted(((traffic[task][rack] + away - cost) << self.bits) + task for task, cost in paid)
            self._by_rack[group][worker][rack] = ways
            cheapest[worker] = ways[0] if ways else NOWHERE
        self._home[group][worker] = [
            (home[task], ((traffic[task][costs.rack[home[task]]] - cost) << self.bits) + task)
            for task, cost in paid
            if home[task] != worker
        ]
        self.into_home[group][worker] = self._cheapest_home(group, worker)

    def _cheapest_home(self, group: int, worker: int) -> dict[int, int]:
        cheapest: dict[int, int] = {}
        for home, way in self._home[group][worker]:
            rack = self.flow.costs.rack[home]
            if way < min(self.into_rack[group][rack][worker], cheapest.get(home, NOWHERE)):
                cheapest[home] = way
        return cheapest
