"""From a group to Optimal's decision: costs, then actives, then standbys, then the step."""

from __future__ import annotations

import numpy as np

from sluice_assignor.draft import Draft, Numbering, Role
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, GroupState
from sluice_assignor.moves import moves_of
from sluice_assignor.optimum.actives import place_stateful, place_stateless
from sluice_assignor.optimum.costs import Costs
from sluice_assignor.optimum.network import Ints
from sluice_assignor.optimum.standbys import place_standbys
from sluice_assignor.optimum.step import step_when_hot


def decide_optimum(group: GroupState, config: AssignmentConfig) -> Decision:
    """Somebody in the group may receive tasks."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    target = _place(numbering, Costs(numbering, lags, config, racks=False), config)
    step = step_when_hot(target, lags, numbering, config.max_warmup_replicas)
    return Decision(
        target=target.assignment(numbering),
        next=step.next.assignment(numbering),
        moves=moves_of(step, lags, numbering),
        follow_up=step.follow_up,
    )


def _place(numbering: Numbering, costs: Costs, config: AssignmentConfig) -> Draft:
    draft = Draft(numbering)
    stateful, stateless = (np.array(tasks, dtype=np.int64) for tasks in (numbering.stateful, numbering.stateless))
    active = place_stateful(stateful, costs, 0)
    _give(stateful, active, draft.active, numbering)
    standbys = place_standbys(stateful, active, config.num_standby_replicas, costs)
    for task, workers in zip(numbering.stateful, standbys, strict=True):
        for worker in workers:
            draft.standby[numbering.staying[worker]].add(task)
    runs = np.bincount(active, minlength=len(numbering.staying))
    _give(stateless, place_stateless(stateless, costs, 0, runs), draft.active, numbering)
    return draft


def _give(tasks: Ints, workers: Ints, role: Role, numbering: Numbering) -> None:
    for task, worker in zip(tasks.tolist(), workers.tolist(), strict=True):
        role[numbering.staying[worker]].add(task)
