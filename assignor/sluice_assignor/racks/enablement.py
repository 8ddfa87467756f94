"""May racks be heeded at all (KIP-925, "Compatibility")? All of them must be known, or none is looked at.

Kafka asks this of its cluster and logs the answer; here it is a fact of the group, and part of the decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice_assignor.draft import Numbering
from sluice_assignor.model import AssignmentConfig, Degradation, RackAwareStrategy, Wish


def why_not(numbering: Numbering, config: AssignmentConfig) -> Degradation | None:
    """What is not known of the racks though the configuration asks for them; the first thing by worker, then task.

    Changelogs count only where there are standbys to place.
    """
    if config.rack_aware_strategy is RackAwareStrategy.NONE:
        return None
    for worker in numbering.staying:
        if numbering.workers[worker].rack is None:
            return _because(f"worker {numbering.workers[worker].process_id} has no rack")
    for task in numbering.tasks:
        if not _are_known(task.source_racks):
            return _because(f"the racks of the partitions that task {task.id} reads are not all known")
        if config.num_standby_replicas and task.stateful and not _are_known(task.changelog_racks):
            return _because(f"the racks of the changelogs of task {task.id} are not all known")
    return None


def _are_known(partitions: Sequence[frozenset[str]]) -> bool:
    return bool(partitions) and all(partitions)


def _because(why: str) -> Degradation:
    return Degradation(Wish.RACKS, why)
