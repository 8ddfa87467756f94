"""Actives near the partitions that they read (KIP-925, "assignment algorithm for active stateful tasks").

Every worker keeps its number of tasks; who has which may change. Home is where a task was before.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.model import RackAwareStrategy
from sluice_assignor.racks.cycles import cancel_cycles
from sluice_assignor.racks.flow import Costs, Flow
from sluice_assignor.racks.spread import spread
from sluice_assignor.racks.traffic import Racks, Weights

HELPER_NODES = 3
"""The source and the sink of Kafka's graph, and the node that its search starts from."""


def save_traffic_of_actives(
    tasks: Sequence[int], draft: Draft, numbering: Numbering, strategy: RackAwareStrategy, weights: Weights
) -> None:
    """Exchange these tasks between their workers until they cost as little as can be."""
    if not tasks:
        return
    workers, racks = numbering.staying, Racks(numbering)
    place_of = {worker: place for place, worker in enumerate(workers)}
    holders = draft.active_holders()
    home = [place_of[holders[task]] for task in tasks]
    costs = Costs(
        traffic=racks.reading(tasks, weights.traffic),
        rack=[racks.of_worker[worker] for worker in workers],
        home=home,
        non_overlap=weights.non_overlap,
    )
    if strategy is RackAwareStrategy.BALANCE_SUBTOPOLOGY:
        flow = _spread_over_workers([numbering.tasks[task].id.subtopology for task in tasks], costs)
    else:
        flow = _as_it_is(costs)
    for task, source, destination in zip(tasks, home, flow.holder, strict=True):
        draft.active[workers[source]].remove(task)
        draft.active[workers[destination]].add(task)


def _as_it_is(costs: Costs) -> Flow:
    flow = Flow(costs, [0] * len(costs.home), costs.home)
    cancel_cycles(flow, nodes=len(costs.home) + len(costs.rack) + HELPER_NODES)
    return flow


def _spread_over_workers(subtopologies: Sequence[int], costs: Costs) -> Flow:
    numbers = {subtopology: number for number, subtopology in enumerate(sorted(set(subtopologies)))}
    groups = [numbers[subtopology] for subtopology in subtopologies]
    holder, room = spread(groups, costs.home, len(costs.rack))
    flow = Flow(costs, groups, holder, room)
    cancel_cycles(flow, nodes=len(groups) + (len(numbers) + 1) * len(costs.rack) + HELPER_NODES)
    return flow
