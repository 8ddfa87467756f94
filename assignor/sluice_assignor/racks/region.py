"""The search for a negative cycle: Kafka's passes of Bellman-Ford, of which those that would tell nothing are left out.

A region is a number of groups that can reach each other through room at a worker. Its search ends early when a pass
changes nothing. When all distances fall in a rhythm, whole periods are skipped; the rest of the last one is not,
because it decides which cycle is met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import sub

from sluice_assignor.racks.edges import NOWHERE, Edges
from sluice_assignor.racks.flow import Flow

WORKER = -1
"""Stands for the worker of a place where a task could have brought the place its distance."""

Place = tuple[int, int]
"""A group and a worker."""


def regions_of(flow: Flow) -> Iterator[tuple[int, ...]]:
    """The groups of each region, in order."""
    region = list(range(flow.group_count))
    for worker in range(flow.workers):
        if any(room[worker] for room in flow.room):
            joined = [
                group for group in range(flow.group_count) if flow.room[group][worker] or flow.tasks_at[group][worker]
            ]
            old = {region[group] for group in joined}
            region = [min(old) if name in old else name for name in region]
    for name in sorted(set(region)):
        yield tuple(group for group in range(flow.group_count) if region[group] == name)


class Region:
    """The distances of a region after a number of passes, and how they came about."""

    def __init__(self, groups: Sequence[int], edges: Edges, passes: int) -> None:
        flow = edges.flow
        self.groups = groups
        self._edges = edges
        self.places = {group: [0] * flow.workers for group in groups}
        """How far each place is, by group and worker."""
        self.seen = dict(self.places)
        """How far it was when its tasks were last looked at: before the workers of the same pass."""
        self._workers = [0] * flow.workers
        self._came_by = {group: [WORKER] * flow.workers for group in groups}
        """The task, or WORKER, that brought a place its distance."""
        self._came_from = [0] * flow.workers
        """The group whose place brought a worker its distance."""
        self._room = {group: [worker for worker, room in enumerate(flow.room[group]) if room] for group in groups}
        self._used = {group: [worker for worker, tasks in enumerate(flow.tasks_at[group]) if tasks] for group in groups}
        self._into_rack = {
            group: [[ways[worker] for worker in self._used[group]] for ways in edges.into_rack[group]]
            for group in groups
        }
        self._news = {group for group in groups if self._used[group]}
        """The groups whose tasks have seen something new in the last pass."""
        self._has_room = any(self._room.values())
        self._home = {group: _flat(edges.into_home[group]) for group in groups}
        self.nearest_task_before = 0
        """How far the nearest task was before the last pass."""
        self.falls = self._search(passes)
        """Has the last pass changed a distance? Then there is a negative cycle."""

    def _search(self, passes: int) -> bool:
        falls: list[tuple[int, ...]] = []
        last_time: dict[tuple[int, ...], int] = {}
        state, done, skipped = self._state(), 0, False
        while done < passes:
            if done == passes - 1:
                self.nearest_task_before = self._nearest_task()
            self._pass()
            done += 1
            before, state = state, self._state()
            fall = tuple(map(sub, state, before))
            if not any(fall):
                self.nearest_task_before = self._nearest_task()
                return False
            if skipped:
                continue
            falls.append(fall)
            period = done - last_time.get(fall, done)
            last_time[fall] = done
            if period and falls[-period:] == falls[-2 * period : -period]:
                a_period = [sum(of_node) for of_node in zip(*falls[-period:], strict=True)]
                if done < passes and self._keeps_rhythm(a_period):
                    times = (passes - done - 1) // period
                    self._set_state([distance + times * each for distance, each in zip(state, a_period, strict=True)])
                    done, state, skipped = done + times * period, self._state(), True
        return True

    def _pass(self) -> None:
        for group in self.groups:
            self._relax_places(group)
        if self._has_room:
            self._relax_workers()

    def _relax_places(self, group: int) -> None:
        """From the tasks to the places; then tasks see how far their places are."""
        seen, places = self.seen[group], self.places[group]
        if group in self._news:
            self._news.remove(group)
            places = self._arrive(group, seen, places)
        if places is not seen:
            self._news.add(group)
            self.seen[group] = self.places[group] = places

    def _arrive(self, group: int, seen: list[int], places: list[int]) -> list[int]:
        distances = [seen[worker] for worker in self._used[group]]
        into_rack = [min(map(int.__add__, distances, ways)) for ways in self._into_rack[group]]
        arriving = [into_rack[rack] for rack in self._edges.flow.costs.rack]
        for source, home, way in self._home[group]:
            distance = seen[source] + way
            arriving[home] = min(arriving[home], distance)
        if not any(map(int.__lt__, arriving, places)):
            return places
        mask = (1 << self._edges.bits) - 1
        came_by = self._came_by[group]
        places = places.copy()
        for worker, distance in enumerate(arriving):
            if distance < places[worker]:
                came_by[worker] = task = distance & mask
                places[worker] = distance - task
        return places

    def _relax_workers(self) -> None:
        """From places with room to their workers, and from workers to the places that send them something."""
        workers = self._workers
        for group in self.groups:
            places = self.places[group]
            for worker in self._room[group]:
                if places[worker] < workers[worker]:
                    workers[worker] = places[worker]
                    self._came_from[worker] = group
        for group in self.groups:
            places = self.places[group]
            nearer = [worker for worker in self._used[group] if workers[worker] < places[worker]]
            if nearer:
                self.places[group] = places = places.copy()
                for worker in nearer:
                    places[worker] = workers[worker]
                    self._came_by[group][worker] = WORKER

    def _nearest_task(self) -> int:
        return min(
            self.seen[group][worker] - self._edges.costliest[group][worker]
            for group in self.groups
            for worker in self._used[group]
        )

    def _state(self) -> list[int]:
        if not self._has_room:
            return self.places[self.groups[0]]
        state = self._workers.copy()
        for group in self.groups:
            state += self.places[group]
            state += self.seen[group]
        return state

    def _set_state(self, state: list[int]) -> None:
        count = len(self._workers)
        if not self._has_room:
            self.places[self.groups[0]] = self.seen[self.groups[0]] = state
            return
        self._workers = state[:count]
        for number, group in enumerate(self.groups):
            start = count * (1 + 2 * number)
            self.places[group] = state[start : start + count]
            self.seen[group] = state[start + count : start + 2 * count]

    def _keeps_rhythm(self, a_period: list[int]) -> bool:
        """Can no node that falls slowly be reached from one that falls faster?

        After two equal periods nothing else can change the rhythm: ways from slower nodes only fall behind.
        """
        if not self._has_room:
            places = a_period
            return all(max(places) <= places[worker] for worker in self._used[self.groups[0]])
        count = len(self._workers)
        for number, group in enumerate(self.groups):
            start = count * (1 + 2 * number)
            places, seen = a_period[start : start + count], a_period[start + count : start + 2 * count]
            slowest = max(places)
            used = self._used[group]
            if any(slowest > seen[worker] or seen[worker] > places[worker] for worker in used):
                return False
            if any(a_period[worker] > places[worker] for worker in self._room[group]):
                return False
            if any(places[worker] > a_period[worker] for worker in used):
                return False
        return True

    def first_leading_task(self, group: int, nearest_task: int) -> int | None:
        """The first task that is nearer than this one, or near enough to bring some place nearer."""
        edges, seen, places = self._edges, self.seen[group], self.places[group]
        farthest = [-NOWHERE] * len(edges.into_rack[group])
        for worker, rack in enumerate(edges.flow.costs.rack):
            farthest[rack] = max(farthest[rack], places[worker])
        leading: list[int] = []
        for worker in self._used[group]:
            if seen[worker] - edges.costliest[group][worker] < nearest_task:
                leading += edges.tasks_nearer(group, worker, seen[worker], nearest_task)
            leading += edges.tasks_within_reach(group, worker, seen[worker], farthest, places)
        return min(leading, default=None)

    def place_of(self, task: int) -> Place:
        flow = self._edges.flow
        return flow.group[task], flow.holder[task]

    def distance(self, task: int) -> int:
        group, holder = self.place_of(task)
        return self.seen[group][holder] - (self._edges.flow.costs.of(task, holder) << self._edges.bits)

    def first_reached(self, task: int) -> Place:
        """The first place that the task, which leads to one, could bring nearer."""
        costs, bits = self._edges.flow.costs, self._edges.bits
        group, distance = self._edges.flow.group[task], self.distance(task)
        return next(
            (group, worker)
            for worker, place in enumerate(self.places[group])
            if distance + (costs.of(task, worker) << bits) < place
        )

    def first_place_ahead(self, group: int) -> Place | None:
        """The first place whose tasks have not yet seen how near it is."""
        places, seen = self.places[group], self.seen[group]
        return next(((group, worker) for worker in self._used[group] if places[worker] < seen[worker]), None)

    def bring(self, task: int, place: Place) -> None:
        """Remember that the task has brought a place nearer."""
        self._came_by[place[0]][place[1]] = task

    def cycle_before(self, place: Place) -> list[tuple[int, int]]:
        """The cycle that the way back from a place ends in: which tasks move, and where to."""
        passed = set()
        while place not in passed:
            passed.add(place)
            place = self._before(place)
        moves, here = [], place
        while True:
            group, worker = here
            if self._came_by[group][worker] != WORKER:
                moves.append((self._came_by[group][worker], worker))
            here = self._before(here)
            if here == place:
                return moves

    def _before(self, place: Place) -> Place:
        group, worker = place
        task = self._came_by[group][worker]
        return (self._came_from[worker], worker) if task == WORKER else (group, self._edges.flow.holder[task])


def _flat(homes: Sequence[dict[int, int]]) -> list[tuple[int, int, int]]:
    return [(source, home, way) for source, ways in enumerate(homes) for home, way in ways.items()]
