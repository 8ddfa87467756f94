"""HighAvailability: Kafka's own assignor, decision for decision (KIP-441, with KIP-708's tags and KIP-925's racks).

The target looks neither at who has the tasks nor at their state: it deals tasks out afresh in a fixed order, which is
why the same group always gets the same target, and why it moves more than it must. What keeps tasks near their state
is the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, GroupState, RackAwareStrategy
from sluice_assignor.moves import moves_of
from sluice_assignor.racks.actives import save_traffic_of_actives
from sluice_assignor.racks.enablement import why_not
from sluice_assignor.racks.standbys import save_traffic_of_standbys
from sluice_assignor.racks.traffic import Weights
from sluice_assignor.standby import place_standbys
from sluice_assignor.tags import Tags
from sluice_assignor.threads import balance_over_threads, place_least_active
from sluice_assignor.warmups.movement import next_step


def high_availability(group: GroupState, config: AssignmentConfig) -> Decision:
    """Place, then step. Tasks without state come last, as in Kafka: they fill the gaps that the step leaves."""
    numbering = Numbering.of(group)
    lags = Lags(numbering, config.acceptable_recovery_lag)
    placement = _Placement(numbering, config)
    target = placement.place_with_state()
    step = next_step(target, lags, numbering, config.max_warmup_replicas)
    placement.add_stateless(step.next)
    next_assignment = step.next.assignment(numbering)
    if step.follow_up:
        placement.add_stateless(target)
    return Decision(
        target=target.assignment(numbering) if step.follow_up else next_assignment,
        next=next_assignment,
        moves=moves_of(step, lags, numbering),
        follow_up=step.follow_up,
        degraded=tuple(placement.degraded),
    )


class _Placement:
    """Kafka's placement: round robin, balance, racks; for actives, then for standbys."""

    def __init__(self, numbering: Numbering, config: AssignmentConfig) -> None:
        self._numbering = numbering
        self._config = config
        self._workers = numbering.staying
        racks_off = why_not(numbering, config)
        self._racks_matter = config.rack_aware_strategy is not RackAwareStrategy.NONE and racks_off is None
        self.degraded = [racks_off] if racks_off else []

    def place_with_state(self) -> Draft:
        draft = Draft(self._numbering)
        _deal_out(self._numbering.stateful, draft, self._workers)
        balance_over_threads(draft.active, draft, self._workers)
        self._save_traffic(self._numbering.stateful, draft, Weights.with_state(self._config))
        if self._config.num_standby_replicas and self._config.rack_aware_tags:
            self._add_standbys_by_tags(draft, Tags(self._numbering, self._config.rack_aware_tags))
        elif self._config.num_standby_replicas:
            self._add_standbys(draft)
        return draft

    def add_stateless(self, draft: Draft) -> None:
        place_least_active(self._numbering.stateless, draft, self._workers)
        self._save_traffic(self._numbering.stateless, draft, Weights.without_state())

    def _add_standbys(self, draft: Draft) -> None:
        place_standbys(self._numbering.stateful, self._config.num_standby_replicas, draft, self._workers)
        balance_over_threads(draft.standby, draft, self._workers)
        if self._racks_matter:
            weights = Weights.with_state(self._config)
            save_traffic_of_standbys(draft, self._numbering, weights, may_move=lambda *_: True)

    def _add_standbys_by_tags(self, draft: Draft, tags: Tags) -> None:
        left = tags.place_standbys(self._numbering.stateful, self._config.num_standby_replicas, draft)
        self.degraded += tags.why_not_apart(left)
        balance_over_threads(draft.standby, draft, self._workers, tags.are_alike)
        if self._racks_matter:
            weights = Weights.with_state(self._config)
            may_move = partial(tags.may_move, draft)
            save_traffic_of_standbys(draft, self._numbering, weights, may_move)

    def _save_traffic(self, tasks: Sequence[int], draft: Draft, weights: Weights) -> None:
        if self._racks_matter:
            save_traffic_of_actives(tasks, draft, self._numbering, self._config.rack_aware_strategy, weights)


def _deal_out(tasks: Sequence[int], draft: Draft, workers: Sequence[int]) -> None:
    """One task to each worker in turn, whatever its capacity: balance over threads comes after."""
    for turn, worker in enumerate(workers):
        draft.active[worker].update(tasks[turn :: len(workers)])
