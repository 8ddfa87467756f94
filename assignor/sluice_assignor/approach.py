"""From a target to a decision, for strategies that look for state themselves: their step wastes no copy."""

from __future__ import annotations

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import AssignmentConfig, Decision, Degradation, RackAwareStrategy, Wish
from sluice_assignor.moves import moves_of
from sluice_assignor.warmups.planned import step_when_hot


def approach(target: Draft, lags: Lags, numbering: Numbering, config: AssignmentConfig) -> Decision:
    """The next safe step to the target, and what it changes."""
    step = step_when_hot(target, lags, numbering, config.max_warmup_replicas)
    return Decision(
        target=target.assignment(numbering),
        next=step.next.assignment(numbering),
        moves=moves_of(step, lags, numbering),
        follow_up=step.follow_up,
        degraded=_unheeded(config),
    )


def _unheeded(config: AssignmentConfig) -> tuple[Degradation, ...]:
    """Stickiness and racks pull in two directions; only a flow can weigh them."""
    why = f"{config.strategy} looks at copies and capacity only; HighAvailability and Optimal look at more"
    wishes = []
    if config.rack_aware_strategy is not RackAwareStrategy.NONE:
        wishes.append(Degradation(Wish.RACKS, why))
    if config.rack_aware_tags:
        wishes.append(Degradation(Wish.TAGS, why))
    return tuple(wishes)
