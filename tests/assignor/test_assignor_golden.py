"""Kafka's own answers, case by case: kafka-streams 4.1.1's HighAvailabilityTaskAssignor, run on seeded random groups.

`kafka_4_1_1` are groups of all styles, of which those without racks and tags are ours to equal for now. `traps` are
the rare ones on which a plainer assignor differs from Kafka, because the slots of its queues decide.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sluice_assignor import Assignment, AssignmentConfig, Copy, GroupState, Task, Worker, decide
from sluice_protocol.ids import TaskId

GOLDEN = Path(__file__).parent / "golden"
Case = dict[str, Any]


def read_cases(name: str) -> list[Case]:
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def is_plain(case: Case) -> bool:
    return case["input"]["config"]["strategy"] == "none" and not case["input"]["config"]["tags"]


PLAIN = [case for case in read_cases("kafka_4_1_1") if is_plain(case)]
TRAPS = read_cases("traps")


def test_the_corpus_has_all_its_plain_cases():
    assert len(PLAIN) == 117


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: f"seed-{case['input']['seed']}")
def test_decides_as_kafka(case: Case):
    assert_decides_as_kafka(case)


@pytest.mark.parametrize("case", TRAPS, ids=lambda case: f"seed-{case['input']['seed']}")
def test_decides_as_kafka_where_its_queues_are_out_of_order(case: Case):
    assert_decides_as_kafka(case)


def assert_decides_as_kafka(case: Case) -> None:
    decision = decide(group_of(case["input"]), config_of(case["input"]["config"]))

    assert as_kafka_says_it(decision.next, follow_up=decision.follow_up) == case["expected"]


def group_of(given: Case) -> GroupState:
    tasks = [
        Task(TaskId.parse(name), stateful=task["end"] is not None, end_offset_sum=task["end"] or 0)
        for name, task in given["tasks"].items()
    ]
    workers = [
        Worker(
            UUID(client["id"]),
            capacity=client["capacity"],
            copies={TaskId.parse(name): Copy(offset) for name, offset in client["offsets"].items()},
        )
        for client in given["clients"]
    ]
    return GroupState({task.id: task for task in tasks}, {worker.process_id: worker for worker in workers})


def config_of(given: Case) -> AssignmentConfig:
    return AssignmentConfig(
        acceptable_recovery_lag=given["acceptableRecoveryLag"],
        max_warmup_replicas=given["maxWarmupReplicas"],
        num_standby_replicas=given["numStandbyReplicas"],
    )


def as_kafka_says_it(assignment: Assignment, *, follow_up: bool) -> Case:
    """Kafka keeps warm-ups as standbys and can't tell them apart."""
    return {
        "probing": follow_up,
        "active": {str(id_): in_order(tasks) for id_, tasks in assignment.active.items()},
        "standby": {str(id_): in_order(tasks | assignment.warmup[id_]) for id_, tasks in assignment.standby.items()},
    }


def in_order(tasks: frozenset[TaskId]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
