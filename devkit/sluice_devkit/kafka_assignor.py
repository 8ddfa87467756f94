"""Kafka's own assignor, the class itself, in a JVM inside this process (JPype; no broker, no compiler).

A case is plain data, as it lies in the golden corpus: workers (`clients`), tasks and the configuration. Kafka computes
the lags itself from what the workers report, so that its rules for lags are part of the answer. The racks of
partitions are put where the rack-aware assignor keeps what it has learnt from the cluster, and it is told that it may
start: asking a cluster would need one. A JVM can be started only once in a process, and its threads stay.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jpype

from sluice_jvm.jars import KAFKA_STREAMS, resolve
from sluice_jvm.java import find_java

Case = Mapping[str, Any]
Answer = dict[str, Any]

HIGH_AVAILABILITY = "HighAvailabilityTaskAssignor"
STICKY = "LegacyStickyTaskAssignor"

_PROCESSOR = "org.apache.kafka.streams.processor"
_INTERNALS = f"{_PROCESSOR}.internals.assignment"
_PROBING_INTERVAL_MS = 600_000
_CONSUMER = "consumer"


class KafkaAssignor:
    """The JVM and the classes in it. Raises JarsNotResolvedError, JavaNotFoundError."""

    def __init__(self, heap: str = "2g") -> None:
        if not jpype.isJVMStarted():
            jpype.startJVM(
                str(next(find_java().home.rglob("libjvm.so"))),
                f"-Xmx{heap}",
                "-XX:+UseSerialGC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                classpath=[str(jar) for jar in resolve(KAFKA_STREAMS)],
                convertStrings=False,
            )

    def read(self, case: Case) -> KafkaGroup:
        return KafkaGroup(case, self)

    def decide(self, case: Case, assignor: str = HIGH_AVAILABILITY) -> Answer:
        """Kafka's answer: `probing` (a follow-up is wanted), and `active` and `standby` tasks by worker, in order.

        The sticky assignor looks at what workers held (`held_active`, `held_standby`), and at no lags.
        """
        assignment = self.read(case).prepare()
        assignment.assign(assignor)
        return assignment.answer()

    def __getattr__(self, name: str) -> Any:
        """One of the Java classes below, by its simple name; looked up once."""
        if name not in _CLASSES:
            raise AttributeError(name)
        found = jpype.JClass(_CLASSES[name])
        setattr(self, name, found)
        return found

    @cached_property
    def racks_for_partition(self) -> Any:
        return self._field("racksForPartition")

    @cached_property
    def can_enable(self) -> Any:
        return self._field("canEnable")

    def _field(self, name: str) -> Any:
        field = self.RackAwareTaskAssignor.class_.getDeclaredField(name)
        field.setAccessible(True)
        return field


_CLASSES = {
    **{name: f"java.util.{name}" for name in ("ArrayList", "HashMap", "HashSet", "Optional", "OptionalInt", "UUID")},
    **{name: f"java.lang.{name}" for name in ("Boolean", "Long", "String")},
    **{name: f"{_INTERNALS}.{name}" for name in ("ClientState", HIGH_AVAILABILITY, STICKY, "RackAwareTaskAssignor")},
    "AssignmentConfigs": f"{_PROCESSOR}.assignment.AssignmentConfigs",
    "ProcessId": f"{_PROCESSOR}.assignment.ProcessId",
    "TaskId": f"{_PROCESSOR}.TaskId",
    "Subtopology": f"{_PROCESSOR}.internals.TopologyMetadata$Subtopology",
    "Cluster": "org.apache.kafka.common.Cluster",
    "TopicPartition": "org.apache.kafka.common.TopicPartition",
    "Time": "org.apache.kafka.common.utils.Time",
}


class KafkaGroup:
    """What of a case an assignment does not change."""

    def __init__(self, case: Case, java: KafkaAssignor) -> None:
        self.case = case
        self.java = java
        self.tasks = {name: java.TaskId(*map(int, name.split("_"))) for name in case["tasks"]}
        self.process_ids = {client["id"]: _process_id(client["id"], java) for client in case["clients"]}
        self.all_tasks = self._set(self.tasks.values())
        self.end_offsets = self._map(
            {self.tasks[name]: java.Long(task["end"]) for name, task in self._tasks() if task["end"] is not None}
        )
        self.stateful = java.HashSet(self.end_offsets.keySet())
        self.configs = self._configs(case["config"])

    def prepare(self) -> KafkaAssignment:
        """Inputs for one assignment, which changes them."""
        clients = self._map({self.process_ids[client["id"]]: self._client(client) for client in self.case["clients"]})
        return KafkaAssignment(self, clients, self._rack_assignor())

    def _tasks(self) -> Iterable[tuple[str, Mapping[str, Any]]]:
        return self.case["tasks"].items()  # type: ignore[no-any-return]

    def _configs(self, config: Mapping[str, Any]) -> Any:
        java = self.java
        tags = java.ArrayList()
        for key in config["tags"]:
            tags.add(java.String(key))
        return java.AssignmentConfigs(
            config["acceptableRecoveryLag"],
            config["maxWarmupReplicas"],
            config["numStandbyReplicas"],
            _PROBING_INTERVAL_MS,
            tags,
            self._optional_int(config["trafficCost"]),
            self._optional_int(config["nonOverlapCost"]),
            config["strategy"],
        )

    def _client(self, client: Mapping[str, Any]) -> Any:
        java = self.java
        tags = self._map({java.String(key): java.String(value) for key, value in client["tags"].items()})
        if "held_active" in client:
            return self._client_that_held(client, tags)
        state = java.ClientState(self.process_ids[client["id"]], tags)
        for _ in range(client["capacity"]):
            state.incrementCapacity()
        offsets = self._map({self.tasks[name]: java.Long(offset) for name, offset in client["offsets"].items()})
        state.addPreviousTasksAndOffsetSums(java.String(_CONSUMER), offsets)
        state.initializePrevTasks(java.HashMap(), False)
        state.computeTaskLags(self.process_ids[client["id"]], self.end_offsets)
        return state

    def _client_that_held(self, client: Mapping[str, Any], tags: Any) -> Any:
        """Which roles a worker had follows from the partitions of its consumers; here they are given as they are."""
        held = [self._set(self.tasks[name] for name in client[role]) for role in ("held_active", "held_standby")]
        lags = self.java.HashMap()
        return self.java.ClientState(*held, lags, tags, client["capacity"], self.process_ids[client["id"]])

    def _rack_assignor(self) -> Any:
        java = self.java
        racks_matter = self.case["config"]["strategy"] != "none"
        sources, changelogs, racks = self._partitions() if racks_matter else ({}, {}, {})
        assignor = java.RackAwareTaskAssignor(
            java.Cluster.empty(),
            self._map(sources),
            self._map(changelogs),
            self._map(self._subtopologies()),
            self._map(self._client_racks() if racks_matter else {}),
            None,
            self.configs,
            java.Time.SYSTEM,
        )
        if racks_matter:
            java.racks_for_partition.get(assignor).putAll(self._map(racks))
            java.can_enable.set(assignor, java.Boolean.TRUE)
        return assignor

    def _partitions(self) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """The source and the changelog partitions of each task, and the racks of all of them."""
        sources: dict[Any, Any] = {}
        changelogs: dict[Any, Any] = {}
        racks: dict[Any, Any] = {}
        for name, task in self._tasks():
            for kind, partitions in (("src", sources), ("cl", changelogs)):
                named = [self._partition(kind, name, number) for number in range(len(task[kind]))]
                partitions[self.tasks[name]] = self._set(named)
                racks.update(
                    (partition, self._set(map(self.java.String, of)))
                    for partition, of in zip(named, task[kind], strict=True)
                )
        return sources, changelogs, racks

    def _partition(self, kind: str, task: str, number: int) -> Any:
        subtopology, partition = task.split("_")
        return self.java.TopicPartition(f"{kind}-{subtopology}-{number}", int(partition))

    def _subtopologies(self) -> dict[Any, Any]:
        subtopologies: dict[int, Any] = {}
        for name, task in self.tasks.items():
            subtopologies.setdefault(int(name.split("_")[0]), self.java.HashSet()).add(task)
        return {self.java.Subtopology(number, None): tasks for number, tasks in subtopologies.items()}

    def _client_racks(self) -> dict[Any, Any]:
        java = self.java
        return {
            self.process_ids[client["id"]]: self._map(
                {java.String(_CONSUMER): java.Optional.of(java.String(client["rack"]))}
            )
            for client in self.case["clients"]
        }

    def _optional_int(self, value: int | None) -> Any:
        return self.java.OptionalInt.empty() if value is None else self.java.OptionalInt.of(value)

    def _map(self, entries: Mapping[Any, Any]) -> Any:
        filled = self.java.HashMap()
        for key, value in entries.items():
            filled.put(key, value)
        return filled

    def _set(self, elements: Iterable[Any]) -> Any:
        filled = self.java.HashSet()
        for element in elements:
            filled.add(element)
        return filled


@dataclass
class KafkaAssignment:
    """One assignment, about to be made or made."""

    group: KafkaGroup
    clients: Any
    rack_assignor: Any
    probing: bool | None = None

    def assign(self, assignor: str = HIGH_AVAILABILITY) -> None:
        """The call that Kafka makes at each rebalance, and nothing else: this may be timed."""
        group = self.group
        self.probing = bool(
            getattr(group.java, assignor)().assign(
                self.clients, group.all_tasks, group.stateful, self.rack_assignor, group.configs
            )
        )

    def answer(self) -> Answer:
        states = {name: self.clients.get(process_id) for name, process_id in self.group.process_ids.items()}
        return {
            "probing": self.probing,
            "active": {name: _in_order(state.activeTasks()) for name, state in states.items()},
            "standby": {name: _in_order(state.standbyTasks()) for name, state in states.items()},
        }


def _process_id(name: str, java: KafkaAssignor) -> Any:
    number = uuid.UUID(name).int
    most, least = number >> 64, number & (2**64 - 1)
    return java.ProcessId(java.UUID(*(half - 2**64 if half >= 2**63 else half for half in (most, least))))


def _in_order(tasks: Any) -> list[str]:
    return sorted(map(str, tasks), key=lambda name: tuple(map(int, name.split("_"))))
