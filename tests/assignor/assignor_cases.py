"""Cases that Kafka's own assignor is asked too: plain data, as in the golden corpus, and what they are in our words.

`a_case` makes one from a seed. Sizes, states and settings are those on which a plainer assignor differs from Kafka:
many ties, copies in every state, workers that lack a tag, racks with something to gain and without.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.peers.kafka_assignor import answer_of

from sluice_assignor import AssignmentConfig, Copy, GroupState, RackAwareStrategy, Task, Worker, decide
from sluice_assignor.model import MAX_LAG, RUNNING, UNKNOWN_OFFSET_SUM
from sluice_protocol.ids import TaskId

Case = dict[str, Any]


def read_golden(name: str) -> list[Case]:
    """Cases and Kafka's answers to them, `input` and `expected`."""
    with gzip.open(Path(__file__).parent / "golden" / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def our_answer(case: Mapping[str, Any]) -> Case:
    """What we decide, as Kafka says it."""
    return answer_of(decide(group_of(case), config_of(case["config"])))


def group_of(case: Mapping[str, Any]) -> GroupState:
    tasks = [
        Task(
            TaskId.parse(name),
            stateful=task["end"] is not None,
            end_offset_sum=task["end"] or 0,
            source_racks=tuple(map(frozenset, task["src"])),
            changelog_racks=tuple(map(frozenset, task["cl"])),
        )
        for name, task in case["tasks"].items()
    ]
    workers = [
        Worker(
            UUID(client["id"]),
            capacity=client["capacity"],
            copies={TaskId.parse(name): Copy(offset) for name, offset in client["offsets"].items()},
            rack=client["rack"],
            tags=client["tags"],
        )
        for client in case["clients"]
    ]
    return GroupState({task.id: task for task in tasks}, {worker.process_id: worker for worker in workers})


def config_of(given: Mapping[str, Any]) -> AssignmentConfig:
    return AssignmentConfig(
        "HighAvailability",
        acceptable_recovery_lag=given["acceptableRecoveryLag"],
        max_warmup_replicas=given["maxWarmupReplicas"],
        num_standby_replicas=given["numStandbyReplicas"],
        rack_aware_strategy=RackAwareStrategy(given["strategy"]),
        traffic_cost=given["trafficCost"],
        non_overlap_cost=given["nonOverlapCost"],
        rack_aware_tags=tuple(given["tags"]),
    )


def a_case(seed: int) -> Case:
    """One group and its configuration, in the order in which a map might be filled."""
    return _Maker(random.Random(seed)).case(seed)


class _Maker:
    """Draws a case. Most are small, some have 10 to 40 workers, and some are made of near-ties (adversarial)."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._kind = rng.choices(("small", "big", "adversarial"), weights=(82, 3, 15))[0]
        self._racks = [f"rack-{number}" for number in range(rng.randint(1, 4))]
        self._values = {
            "zone": [f"zone-{number}" for number in range(rng.randint(1, 4))],
            "cluster": [f"cluster-{number}" for number in range(rng.randint(1, 3))],
            "noise": ["a", "b"],
        }

    def case(self, seed: int) -> Case:
        tasks = self._shuffled(self._tasks())
        clients = self._clients()
        self._fill(clients, tasks)
        return {"seed": seed, "clients": clients, "tasks": tasks, "config": self._config()}

    def _tasks(self) -> dict[str, Any]:
        subtopologies = self._rng.sample(range(8), self._rng.randint(1, 6 if self._kind == "big" else 4))
        partitions = {"small": 8, "big": 35, "adversarial": 12}[self._kind]
        without_ends = self._rng.random() < 0.1
        tasks = {}
        for subtopology in subtopologies:
            stateful = self._rng.random() < 0.75
            sources, changelogs = self._rng.choice((1, 1, 2, 3)), self._rng.choice((1, 1, 2))
            for partition in range(self._rng.randint(1, partitions)):
                tasks[f"{subtopology}_{partition}"] = {
                    "end": self._end(without_ends) if stateful else None,
                    "src": [self._replicas() for _ in range(sources)],
                    "cl": [self._replicas() for _ in range(changelogs)] if stateful else [],
                }
        return tasks

    def _end(self, without_ends: bool) -> int:
        if without_ends:
            return 0
        if self._kind == "adversarial":
            return self._rng.choice((0, 1, 2, 3))
        return self._rng.choice((0, 50, 1000, 20_000, 150_000, MAX_LAG))

    def _replicas(self) -> list[str]:
        return self._rng.sample(self._racks, min(len(self._racks), self._rng.choice((1, 1, 2, 3))))

    def _clients(self) -> list[Case]:
        count = self._rng.randint(10, 40) if self._kind == "big" else self._rng.choice((1, 2, 2, 3, 4, 5, 7, 9, 12))
        threads = self._rng.choice((1, 1, 3, 8))
        every_tag = self._rng.random() < 0.5
        return [
            {
                "id": str(id_),
                "capacity": self._rng.randint(1, threads),
                "rack": self._rng.choice(self._racks),
                "tags": {
                    key: self._rng.choice(values)
                    for key, values in self._values.items()
                    if every_tag or self._rng.random() < 0.85
                },
                "offsets": {},
            }
            for id_ in self._ids(count)
        ]

    def _ids(self, count: int) -> Sequence[UUID]:
        """Of all 128 bits, or small as in Kafka's own tests."""
        bits = 128 if self._rng.random() < 0.85 else 6
        ids: dict[int, UUID] = {}
        while len(ids) < count:
            number = self._rng.getrandbits(bits)
            ids[number] = UUID(int=number)
        return list(ids.values())

    def _fill(self, clients: list[Case], tasks: dict[str, Any]) -> None:
        """Who has read how much of what."""
        stateful = {name: task["end"] for name, task in tasks.items() if task["end"] is not None}
        style = self._rng.choice(("cold", "steady", "scale-out", "any", "any", "all warm"))
        if self._kind == "adversarial":
            style = self._rng.choice(("scale-out", "any"))
        old = clients if style != "scale-out" else clients[: max(1, len(clients) // 2)]
        for name, end in stateful.items():
            if style in ("steady", "scale-out"):
                running, *others = self._rng.sample(old, min(len(old), self._rng.choice((1, 1, 2, 3))))
                running["offsets"][name] = RUNNING
                for other in others:
                    other["offsets"][name] = self._rng.choice((end, max(0, end - 5), 0))
            elif style == "all warm":
                for client in clients:
                    client["offsets"][name] = end
            elif style == "any":
                for client in clients:
                    if self._rng.random() < 0.5:
                        client["offsets"][name] = self._offset(end)

    def _offset(self, end: int) -> int:
        if self._kind == "adversarial":
            return self._rng.choice((RUNNING, 0, 1, 2, end))
        beyond = min(end + 7, MAX_LAG)
        somewhere = max(0, end - self._rng.randint(0, 20_000))
        return self._rng.choice((RUNNING, UNKNOWN_OFFSET_SUM, 0, end, max(0, end - 10), somewhere, beyond, end // 2))

    def _config(self) -> Case:
        strategy = self._rng.choice(("none", "none", "none", "min_traffic", "balance_subtopology"))
        costs = ((None, None), (None, None), (1, 10), (10, 1), (0, 10), (1, 0), (5, 5), (None, 3))
        traffic, non_overlap = self._rng.choice(costs)
        return {
            "acceptableRecoveryLag": self._rng.choice((0, 1, 10, 100, 10_000, MAX_LAG)),
            "maxWarmupReplicas": self._rng.choice((1, 2, 2, 3, 100)),
            "numStandbyReplicas": self._rng.choice((0, 0, 1, 1, 2, 3, 4)),
            "tags": self._rng.choice(([], [], ["zone"], ["cluster"], ["zone", "cluster"])),
            "strategy": strategy,
            "trafficCost": traffic,
            "nonOverlapCost": non_overlap,
        }

    def _shuffled(self, tasks: dict[str, Any]) -> dict[str, Any]:
        return dict(self._rng.sample(list(tasks.items()), len(tasks)))
