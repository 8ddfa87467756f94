"""A group of ours in the words in which Kafka's own assignor is asked (`sluice_devkit.kafka_assignor`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluice_assignor import AssignmentConfig, Decision, GroupState, Task, Worker
from sluice_protocol.ids import TaskId

Case = dict[str, Any]


def case_of(group: GroupState, config: AssignmentConfig, *, with_roles: bool = False) -> Case:
    """The group and its configuration; with the roles that workers hold for Kafka's sticky assignor."""
    return {
        "clients": [_client(worker, group, with_roles) for worker in group.workers.values()],
        "tasks": {str(id_): _task(task) for id_, task in group.tasks.items()},
        "config": {
            "acceptableRecoveryLag": config.acceptable_recovery_lag,
            "maxWarmupReplicas": config.max_warmup_replicas,
            "numStandbyReplicas": config.num_standby_replicas,
            "tags": list(config.rack_aware_tags),
            "strategy": config.rack_aware_strategy.value,
            "trafficCost": config.traffic_cost,
            "nonOverlapCost": config.non_overlap_cost,
        },
    }


def answer_of(decision: Decision) -> Case:
    """Our decision as Kafka says it: warm-ups are standbys."""
    next_ = decision.next
    return {
        "probing": decision.follow_up,
        "active": {str(id_): _names(tasks) for id_, tasks in next_.active.items()},
        "standby": {str(id_): _names(tasks | next_.warmup[id_]) for id_, tasks in next_.standby.items()},
    }


def _client(worker: Worker, group: GroupState, with_roles: bool) -> Mapping[str, Any]:
    client = {
        "id": str(worker.process_id),
        "capacity": worker.capacity,
        "rack": worker.rack,
        "tags": dict(worker.tags),
        "offsets": {str(id_): copy.offset_sum for id_, copy in worker.copies.items()},
    }
    if not with_roles:
        return client
    on_disk = frozenset(worker.copies) | worker.standby | worker.warmup
    return client | {
        "held_active": _names(worker.active & group.tasks.keys()),
        "held_standby": _names(id_ for id_ in on_disk - worker.active if id_ in group.tasks),
    }


def _task(task: Task) -> Mapping[str, Any]:
    return {
        "end": task.end_offset_sum if task.stateful else None,
        "src": [sorted(racks) for racks in task.source_racks],
        "cl": [sorted(racks) for racks in task.changelog_racks],
    }


def _names(tasks: Iterable[TaskId]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
