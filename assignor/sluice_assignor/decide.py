"""The one call: what should each worker of a group do next?

What no strategy can answer is answered here: a group in which nobody may receive a task, or in which nobody knows how
far the copies are behind. Everything else belongs to the strategy that the configuration names.
"""

from __future__ import annotations

from sluice_assignor.model import AssignmentConfig, Decision, GroupState
from sluice_assignor.prior_owners import keep_prior_owners
from sluice_assignor.strategies import find_strategy


def decide(group: GroupState, config: AssignmentConfig) -> Decision:
    """The target of a group and the next safe step to it.

    Raises ValueError when the configured strategy does not exist. The order in which the group's mappings were filled
    makes no difference.
    """
    strategy = find_strategy(config.strategy)
    if not group.end_offsets_known:
        return keep_prior_owners(group, config.max_warmup_replicas, follow_up=True)
    if all(worker.draining for worker in group.workers.values()):
        return keep_prior_owners(group, config.max_warmup_replicas, follow_up=False)
    return strategy(group, config)
