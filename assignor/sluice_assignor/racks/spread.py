"""Tasks of each subtopology spread over the workers, before costs are looked at (KIP-925, "balanced sub-topology").

Each worker has as many tasks as before, and of each subtopology at most its share, rounded up. Which of the spreads it
is decides which cheapest one is found, so it is Kafka's: the tasks go one by one along the shortest way that is free
(Edmonds-Karp), and of equally short ones along the first that is met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil


def spread(groups: Sequence[int], holder: Sequence[int], workers: int) -> tuple[list[int], list[list[int]]]:
    """Who holds each task now, and how many more of each group each worker could take.

    `groups` and `holder` are by task; groups ascend.
    """
    counts = [0] * workers
    for worker in holder:
        counts[worker] += 1
    tasks = [[task for task, of in enumerate(groups) if of == group] for group in range(groups[-1] + 1)]
    # A share is calculated in doubles, in this order: 3.0000000000000004 rounds up to 4.
    room = [[ceil(count * 1.0 / len(groups) * len(members)) for count in counts] for members in tasks]
    return _Spread(tasks, groups, room, counts).holders(), room


class _Spread:
    def __init__(self, tasks: list[list[int]], groups: Sequence[int], room: list[list[int]], places: list[int]) -> None:
        self._tasks = tasks
        self._group = groups
        self._first_place = len(groups)
        self._first_worker = len(groups) + len(tasks) * len(places)
        self._room = room
        self._places = places
        self._holder: list[int | None] = [None] * len(groups)
        self._tasks_at: list[list[set[int]]] = [[set() for _ in places] for _ in tasks]

    def holders(self) -> list[int]:
        for group, members in enumerate(self._tasks):
            self._deal_out(group, members)
        while None in self._holder:
            self._move_along(self._shortest_way())
        return [worker for worker in self._holder if worker is not None]

    def _deal_out(self, group: int, tasks: Sequence[int]) -> None:
        """As long as a task can go straight to a worker that is the shortest way."""
        worker = 0
        for task in tasks:
            while worker < len(self._places) and not (self._room[group][worker] and self._places[worker]):
                worker += 1
            if worker == len(self._places):
                return
            self._put(task, worker)
            self._places[worker] -= 1

    def _put(self, task: int, worker: int) -> None:
        group, source = self._group[task], self._holder[task]
        if source is not None:
            self._tasks_at[group][source].remove(task)
            self._room[group][source] += 1
        self._tasks_at[group][worker].add(task)
        self._room[group][worker] -= 1
        self._holder[task] = worker

    def _shortest_way(self) -> list[int]:
        """Tasks, places and workers in turn, from a task without a holder to a worker with a free place."""
        reached = [task for task, holder in enumerate(self._holder) if holder is None]
        came_from: dict[int, int | None] = dict.fromkeys(reached)
        for node in reached:  # grows on the way
            if node >= self._first_worker and self._places[node - self._first_worker]:
                return _way_to(node, came_from)
            for neighbour in self._neighbours(node):
                if neighbour not in came_from:
                    came_from[neighbour] = node
                    reached.append(neighbour)
        raise AssertionError("shares are rounded up, so that there is room for all tasks")

    def _neighbours(self, node: int) -> Iterator[int]:
        """Where a unit can go from here: on, or back where another can be sent elsewhere instead."""
        workers = len(self._places)
        if node < self._first_place:
            start = self._first_place + self._group[node] * workers
            own = self._holder[node]
            yield from (start + worker for worker in range(workers) if worker != own)
        elif node < self._first_worker:
            group, worker = divmod(node - self._first_place, workers)
            yield from sorted(self._tasks_at[group][worker])
            if self._room[group][worker]:
                yield self._first_worker + worker
        else:
            worker = node - self._first_worker
            for group, tasks_at in enumerate(self._tasks_at):
                if tasks_at[worker]:
                    yield self._first_place + group * workers + worker

    def _move_along(self, way: Sequence[int]) -> None:
        for task, place in pairwise(way):
            if task < self._first_place:
                self._put(task, (place - self._first_place) % len(self._places))
        self._places[way[-1] - self._first_worker] -= 1


def _way_to(node: int, came_from: dict[int, int | None]) -> list[int]:
    way = []
    step: int | None = node
    while step is not None:
        way.append(step)
        step = came_from[step]
    return way[::-1]
