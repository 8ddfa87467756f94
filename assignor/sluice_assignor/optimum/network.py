"""Min-cost flow, solved by OR-tools: arcs are gathered as arrays, so that a million of them are built in a moment.

Flow is in whole units, and so are capacities and costs: what comes out is an optimum and not close to one. The solver
knows no randomness: the same arcs in the same order give the same flow.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from ortools.graph.python import min_cost_flow

Ints: TypeAlias = npt.NDArray[np.int64]

HIGHEST_TOTAL = 2**61
"""The highest cost of an arc times the number of nodes that the solver's 64-bit integers take."""


class InfeasibleError(Exception):
    """No flow meets all supplies."""


class Network:
    """A directed graph whose nodes are numbered by whoever builds it."""

    def __init__(self) -> None:
        self._arcs: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._count = 0

    def add(self, tails: Ints, heads: Ints, capacities: Ints | int, costs: Ints | int) -> slice:
        """Add arcs. Returns where their flows will be in the answer."""
        first, self._count = self._count, self._count + len(tails)
        self._arcs.append((tails, heads, np.broadcast_to(capacities, tails.shape), np.broadcast_to(costs, tails.shape)))
        return slice(first, self._count)

    def cheapest_flow(self, supplies: Ints) -> Ints:
        """The flow on each arc. `supplies` are by node, demands are below zero. Raises InfeasibleError."""
        tails, heads, capacities, costs = (np.concatenate(column) for column in zip(*self._arcs, strict=True))
        solver = min_cost_flow.SimpleMinCostFlow()
        arcs = solver.add_arcs_with_capacity_and_unit_cost(
            tails.astype(np.int32), heads.astype(np.int32), capacities, costs
        )
        solver.set_nodes_supplies(np.arange(len(supplies), dtype=np.int32), supplies)
        status = solver.solve()
        if status == solver.INFEASIBLE:
            raise InfeasibleError
        if status != solver.OPTIMAL:
            raise ArithmeticError(f"the solver gave up on {len(tails)} arcs with {status}")
        return np.asarray(solver.flows(arcs), dtype=np.int64)
