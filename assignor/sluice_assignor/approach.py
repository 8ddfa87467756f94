"""From a target to a decision, for strategies that look for state themselves and then step as KIP-441 does.

Tasks without state go where the target says at once. All others take the step, in which warm-ups that have begun come
before fresh ones: Kafka's order knows no difference, so that there a half-restored copy may be dropped for a new one.
"""

from __future__ import annotations

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, Degradation, RackAwareStrategy, Wish
from sluice_assignor.movement import next_step
from sluice_assignor.moves import moves_of


def approach(target: Draft, lags: Lags, numbering: Numbering, config: AssignmentConfig) -> Decision:
    """The next safe step to the target, and what it changes."""
    step = next_step(_with_state(target, numbering), lags, numbering, config.max_warmup_replicas, started_first=True)
    for worker, tasks in enumerate(target.active):
        step.next.active[worker].update(tasks.intersection(numbering.stateless))
    return Decision(
        target=target.assignment(numbering),
        next=step.next.assignment(numbering),
        moves=moves_of(step, lags, numbering),
        follow_up=step.follow_up,
        degraded=_unheeded(config),
    )


def _with_state(target: Draft, numbering: Numbering) -> Draft:
    draft = target.copy()
    for tasks in draft.active:
        tasks.difference_update(numbering.stateless)
    return draft


def _unheeded(config: AssignmentConfig) -> tuple[Degradation, ...]:
    """Stickiness and racks pull in two directions; only a flow can weigh them."""
    why = f"{config.strategy} looks at copies and capacity only; HighAvailability and Optimal look at more"
    wishes = []
    if config.rack_aware_strategy is not RackAwareStrategy.NONE:
        wishes.append(Degradation(Wish.RACKS, why))
    if config.rack_aware_tags:
        wishes.append(Degradation(Wish.TAGS, why))
    return tuple(wishes)
