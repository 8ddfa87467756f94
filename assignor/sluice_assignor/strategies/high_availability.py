"""HighAvailability: Kafka's own assignor, decision for decision (KIP-441; its racks and tags are not in here yet).

The target looks neither at who has the tasks nor at their state: it deals tasks out afresh in a fixed order, which is
why the same group always gets the same target, and why it moves more than it must. What keeps tasks near their state
is the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice_assignor.balance import balance_over_threads, place_least_active
from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, GroupState
from sluice_assignor.movement import next_step
from sluice_assignor.moves import moves_of
from sluice_assignor.standby import place_standbys


def high_availability(group: GroupState, config: AssignmentConfig) -> Decision:
    """Place, then step. Tasks without state come last, as in Kafka: they fill the gaps that the step leaves."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    target = _place_stateful(numbering, config.num_standby_replicas)
    step = next_step(target, lags, numbering, config.max_warmup_replicas)
    for draft in (target, step.next):
        place_least_active(numbering.stateless, draft, numbering.staying)
    return Decision(
        target=target.assignment(numbering),
        next=step.next.assignment(numbering),
        moves=moves_of(step, lags, numbering),
        follow_up=step.follow_up,
    )


def _place_stateful(numbering: Numbering, standbys: int) -> Draft:
    draft = Draft(numbering)
    _deal_out(numbering.stateful, draft, numbering.staying)
    balance_over_threads(draft.active, draft, numbering.staying)
    if standbys:
        place_standbys(numbering.stateful, standbys, draft, numbering.staying)
        balance_over_threads(draft.standby, draft, numbering.staying)
    return draft


def _deal_out(tasks: Sequence[int], draft: Draft, workers: Sequence[int]) -> None:
    """One task to each worker in turn, whatever its capacity: balance over threads comes after."""
    for turn, task in enumerate(tasks):
        draft.active[workers[turn % len(workers)]].add(task)
