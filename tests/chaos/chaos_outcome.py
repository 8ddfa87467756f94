"""What came out, read as a user would read it (`read_committed`), and what must hold of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos_feed import TOPIC
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice_pipeline.offsets import Offsets
from sluice_pipeline.state.directory import StoreIdentity, TaskDirectory, TaskIdentity
from sluice_protocol.ids import TaskId, changelog_topic, repartition_topic

APPLICATION = "echo"
STORES = {0: "by-user", 1: "by-team"}
"""The store of each subtopology."""
INPUTS = (TOPIC, repartition_topic(APPLICATION, "by-team"))
"""All that the application reads."""
_READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    key: bytes
    value: bytes | None


class Reader:
    """Reads topics of a broker whole."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "chaos-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def read(self, topic: str) -> list[Record]:
        """Every committed record of a topic, each partition in order."""
        return self._read_from(topic, {})

    def count_behind(self, group: str, topic: str) -> int:
        """How many committed records of a topic a group has not read. (Ends of logs count markers too.)"""
        offsets = Offsets(self._settings["bootstrap.servers"], {}, group)
        committed = offsets.committed([(topic, partition) for partition in self._partitions(topic)])
        return len(self._read_from(topic, {partition: offset or 0 for (_, partition), offset in committed.items()}))

    def _partitions(self, topic: str) -> list[int]:
        return list(self._admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def _read_from(self, topic: str, starts: Mapping[int, int]) -> list[Record]:
        partitions = self._partitions(topic)
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(topic, partition, starts.get(partition, 0)) for partition in partitions])
        found: list[Record] = []
        unread, deadline = set(partitions), time.monotonic() + _READ_SECONDS
        while unread:
            assert time.monotonic() < deadline, f"partitions {unread} of {topic} can't be read to their ends"
            for message in consumer.consume(5_000, 0.1):
                error = message.error()
                if error is None:
                    found.append(Record(message.partition(), message.offset(), message.key(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
        consumer.close()
        return found


@dataclass(frozen=True, slots=True)
class Truth:
    """What the input says."""

    ids: Counter[int]
    users: Counter[bytes]
    teams: Counter[bytes]

    @classmethod
    def of(cls, reader: Reader) -> Truth:
        records = reader.read(TOPIC)
        values = [json.loads(record.value or b"") for record in records]
        return cls(
            Counter(value["id"] for value in values),
            Counter(record.key for record in records),
            Counter(value["team"].encode() for value in values),
        )


def check_echo(records: Iterable[Record], truth: Truth) -> list[str]:
    """Every id exactly once."""
    seen = Counter(json.loads(record.value or b"")["id"] for record in records)
    lost, extra = truth.ids - seen, seen - truth.ids
    problems = [f"{lost.total()} ids are lost, as {sorted(lost)[:5]}"] if lost else []
    return [*problems, f"{extra.total()} ids come again, as {sorted(extra)[:5]}"] if extra else problems


def check_counts(topic: str, records: Iterable[Record], truth: Mapping[bytes, int]) -> list[str]:
    """The count of a key only grows, and ends as the number of its records."""
    problems: list[str] = []
    last: dict[bytes, int] = {}
    for record in records:
        count = json.loads(record.value or b"")["records"]
        if count <= last.get(record.key, 0):
            problems.append(
                f"{topic}: {record.key!r} went from {last[record.key]} to {count} at offset {record.offset}"
            )
        last[record.key] = count
    wrong = {
        key: (last.get(key), truth.get(key)) for key in last.keys() | truth.keys() if last.get(key) != truth.get(key)
    }
    problems += [f"{topic}: {key!r} ends as {found} and must be {wanted}" for key, (found, wanted) in wrong.items()]
    return problems


def check_stores(
    run_directory: Path, bootstrap_servers: str, reader: Reader, holders: Mapping[TaskId, str]
) -> list[str]:
    """Each copy on disk, whoever has it, is what its changelog says up to its boundary; the last holder's is all."""
    offsets = Offsets(bootstrap_servers, {}, APPLICATION)
    problems: list[str] = []
    for subtopology, store in STORES.items():
        changelog = changelog_topic(APPLICATION, store)
        facts = offsets.facts([changelog])[changelog]
        records = reader.read(changelog)
        for path in sorted((run_directory / "state").glob(f"worker-*/{subtopology}_*")):
            task, worker = TaskId.parse(path.name), path.parent.name
            identity = TaskIdentity(APPLICATION, task, (StoreIdentity(store, changelog, facts.id, facts.partitions),))
            wanted = [record for record in records if record.partition == task.partition]
            problems += _check_store(path, identity, wanted, is_holder=holders.get(task) == worker)
    return problems


def _check_store(path: Path, identity: TaskIdentity, records: list[Record], *, is_holder: bool) -> list[str]:
    directory = TaskDirectory(path, identity, max_age_seconds=3_600.0)
    try:
        if directory.wiped_because:
            return [f"{path} was not usable: {directory.wiped_because}"]
        (store,) = directory.stores.values()
        found = dict(store.items())
        boundary = store.boundary
    finally:
        directory.close()
    problems = []
    if is_holder and records and boundary <= records[-1].offset:
        problems.append(f"{path} ends at {boundary}, its changelog holds {records[-1].offset}")
    wanted: dict[bytes, bytes | None] = {record.key: record.value for record in records if record.offset < boundary}
    wrong = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
    if wrong:
        problems.append(f"{path} differs from its changelog below {boundary} in {len(wrong)} keys, as {wrong[:3]}")
    return problems
