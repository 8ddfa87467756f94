"""The cheapest flow, found as Kafka finds it: cancel one negative cycle after the other (Klein; KIP-925, "Algorithm").

Of several cheapest assignments Kafka's is the one that its search comes upon, so the search is replayed. It is
Bellman-Ford over tasks, the places of each group at each worker, and workers, in this order, starting at distance 0
everywhere. As many passes are made as there are nodes; where a distance still falls in the last pass, the walk back
from there ends in the cycle. Kafka makes all passes for each cycle over all edges. Here

- a task has one holder, so a pass needs the places' distances only: the cheapest way from each place into each *rack*;
- groups that share no free room cannot reach each other: each `Region` of them is searched alone, and again only after
  a cycle went through it;
- a pass that changes nothing ends the search, and once all distances fall in a rhythm whole periods are skipped. Which
  cycle is met hangs on the number of passes, so the rest of the last period is made.

A distance and the task that brought it are one number, `distance << bits | task`: the smallest of these is the smallest
distance, and of equals the first task, which is whom Kafka remembers.
"""

from __future__ import annotations

from collections.abc import Collection

from sluice_assignor.racks.edges import Edges
from sluice_assignor.racks.flow import Flow
from sluice_assignor.racks.region import Region, regions_of


def cancel_cycles(flow: Flow, nodes: int) -> None:
    """Make the flow as cheap as can be. `nodes` is how many nodes Kafka's graph has, all of its helpers included."""
    edges = Edges(flow)
    passes = nodes - 2  # the first one only sets all distances to 0, and the last one only looks
    searched: dict[tuple[int, ...], Region] = {}
    touched: set[int] = set()
    while not edges.are_exhausted():
        searched = {
            groups: searched[groups]
            if groups in searched and touched.isdisjoint(groups)
            else Region(groups, edges, passes)
            for groups in regions_of(flow)
        }
        cycle = _first_cycle(searched.values())
        edges.move(cycle)
        if not cycle:
            return
        touched = {flow.group[task] for task, _ in cycle}


def _first_cycle(regions: Collection[Region]) -> list[tuple[int, int]]:
    """The cycle that the first node leads to whose way on is still shorter; none when there is no such node."""
    falling = {group: region for region in regions if region.falls for group in region.groups}
    nearest_task = min((region.nearest_task_before for region in regions), default=0)
    for group in sorted(falling):
        cycle = _cycle_by_tasks(falling[group], group, nearest_task)
        if cycle:
            return cycle
    for group in sorted(falling):
        place = falling[group].first_place_ahead(group)
        if place is not None:
            return falling[group].cycle_before(place)
    return []


def _cycle_by_tasks(region: Region, group: int, nearest_task: int) -> list[tuple[int, int]]:
    """A task leads to the source of the flow, if it is nearer to it than any was before, and else to a place."""
    task = region.first_leading_task(group, nearest_task)
    if task is None:
        return []
    place = region.place_of(task)
    if region.distance(task) >= nearest_task:
        place = region.first_reached(task)
        region.bring(task, place)
    return region.cycle_before(place)
