"""From a group to Optimal's decision: costs, then actives, then standbys, then the step."""

from __future__ import annotations

import numpy as np

from sluice_assignor.draft import Draft, Numbering, Role
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, Degradation, GroupState, RackAwareStrategy
from sluice_assignor.moves import moves_of
from sluice_assignor.optimum.actives import place_stateful, place_stateless
from sluice_assignor.optimum.costs import Costs
from sluice_assignor.optimum.network import Ints
from sluice_assignor.optimum.standbys import Placed, place_standbys
from sluice_assignor.optimum.tagged_standbys import place_tagged_standbys
from sluice_assignor.racks.enablement import why_not
from sluice_assignor.tags import Tags
from sluice_assignor.warmups.planned import step_when_hot


def decide_optimum(group: GroupState, config: AssignmentConfig) -> Decision:
    """Somebody in the group may receive tasks."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    placement = _Placement(numbering, lags, config)
    target = placement.place()
    step = step_when_hot(target, lags, numbering, config.max_warmup_replicas)
    return Decision(
        target=target.assignment(numbering),
        next=step.next.assignment(numbering),
        moves=moves_of(step, lags, numbering),
        follow_up=step.follow_up,
        degraded=tuple(placement.degraded),
    )


class _Placement:
    """The target: a flow for actives with state, one for standbys given those, one for actives without state."""

    def __init__(self, numbering: Numbering, lags: Lags, config: AssignmentConfig) -> None:
        self._numbering = numbering
        self._config = config
        racks_off = why_not(numbering, config)
        racks = config.rack_aware_strategy is not RackAwareStrategy.NONE and racks_off is None
        self._costs = Costs(numbering, lags, config, racks=racks)
        self.degraded: list[Degradation] = [racks_off] if racks_off else []

    def place(self) -> Draft:
        stateful, stateless = (
            np.array(tasks, dtype=np.int64) for tasks in (self._numbering.stateful, self._numbering.stateless)
        )
        active = place_stateful(stateful, self._costs)
        runs = np.bincount(active, minlength=len(self._numbering.staying))
        draft = Draft(self._numbering)
        self._give(stateful, active, draft.active)
        self._give(stateless, place_stateless(stateless, self._costs, runs), draft.active)
        for task, workers in zip(self._numbering.stateful, self._standbys(stateful, active), strict=True):
            for worker in workers:
                draft.standby[self._numbering.staying[worker]].add(task)
        return draft

    def _standbys(self, tasks: Ints, active: Ints) -> Placed:
        replicas, keys = self._config.num_standby_replicas, self._config.rack_aware_tags
        if not keys:
            return place_standbys(tasks, active, replicas, self._costs)
        placed, alike = place_tagged_standbys(tasks, active, replicas, self._costs, self._numbering, keys)
        self.degraded += Tags(self._numbering, keys).why_not_apart(alike)
        return placed

    def _give(self, tasks: Ints, workers: Ints, role: Role) -> None:
        for task, worker in zip(tasks.tolist(), workers.tolist(), strict=True):
            role[self._numbering.staying[worker]].add(task)
