"""`make bench-restore`: how fast a copy is restored from its changelog into a fresh state directory.

Ours are the restorer processes of a worker; Kafka Streams restores with its two threads. Both read the same topic,
filled in transactions and uncompacted, and both are timed from the first store opened to the last record applied, so
that neither's start counts.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from bench.ground import Ground, Job, prepared_ground
from bench.harness import Row, interleaved, medians, publish, table, tell
from bench.peers.kafka_streams import DEFAULT, STORE, KafkaStreams
from sluice_pipeline.restore.messages import Event, Failed, Finished, Follow, Opened, Progress
from sluice_pipeline.restore.restorers import Restorers
from sluice_pipeline.state.directory import StoreIdentity, TaskIdentity
from sluice_protocol.ids import TaskId, changelog_topic

SLUICE = "sluice"
STREAMS = "kafka-streams"
PARTITIONS = (1, 4)
RESTORERS = 2

_RECORDS_A_TRANSACTION = 100_000
_RESTORE_SECONDS = 300.0
_YEAR_SECONDS = 365 * 86_400.0


class NotRestoredError(RuntimeError):
    """A copy is not what its changelog says."""


@dataclass(frozen=True, slots=True)
class Changelog:
    """A filled changelog of an application that has never run."""

    application_id: str
    topic: str
    partitions: int
    records: int


def fill(ground: Ground, application_id: str, partitions: int, records: int) -> Changelog:
    """Write one record per key, 12 bytes of key and 17 of value, in transactions as a worker does."""
    topic = ground.create_topic(changelog_topic(application_id, STORE), partitions, {"cleanup.policy": "compact"})
    keys = list(range(records))
    random.Random(3).shuffle(keys)
    sender = Producer(
        {
            **ground.client,
            "transactional.id": f"{application_id}-fill",
            "linger.ms": 20,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 2 * _RECORDS_A_TRANSACTION,
        }
    )
    sender.init_transactions()
    for start in range(0, records, _RECORDS_A_TRANSACTION):
        sender.begin_transaction()
        for key in keys[start : start + _RECORDS_A_TRANSACTION]:
            sender.produce(topic, key.to_bytes(17, "big"), f"user-{key:07d}", partition=key % partitions)
        sender.flush()
        sender.commit_transaction()
    return Changelog(application_id, topic, partitions, records)


def restore_with_streams(ground: Ground, changelog: Changelog) -> float:
    """Records per second of Kafka Streams with its defaults."""
    name, partitions = changelog.application_id, changelog.partitions
    source = ground.create_topic(f"{name}-in", partitions)
    job = Job(name, source, ground.create_topic(f"{name}-out", partitions), partitions)
    streams = KafkaStreams(ground, job, DEFAULT)
    try:
        streams.wait_for(lambda it: len(it.of_kind("restore-end")) == partitions, _RESTORE_SECONDS, "end of restore")
    finally:
        streams.kill()
    ended = streams.of_kind("restore-end")
    _check_count(STREAMS, sum(int(event.words[2]) for event in ended), changelog)
    return changelog.records / (ended[-1].at - streams.of_kind("restore-start")[0].at)


def _check_count(engine: str, restored: int, changelog: Changelog) -> None:
    if restored < changelog.records:
        raise NotRestoredError(f"{engine} restored {restored} of {changelog.records} records of {changelog.topic}")


@dataclass(slots=True)
class _Restore:
    """What the restorer processes have said."""

    tasks: int
    opened_at: float = 0.0
    finished_at: float = 0.0
    finished: set[TaskId] = field(default_factory=set)
    records: dict[TaskId, int] = field(default_factory=dict)
    failure: str | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def hear(self, event: Event) -> None:
        now = time.time()
        with self.changed:
            if isinstance(event, Opened):
                self.opened_at = self.opened_at or now
            elif isinstance(event, Finished):
                self.finished_at = now
                self.finished.add(event.task)
            elif isinstance(event, Progress):
                self.records[event.task] = event.restored_records
            elif isinstance(event, Failed):
                self.failure = event.message
            self.changed.notify_all()

    def is_over(self) -> bool:
        return self.failure is not None or len(self.finished) == self.tasks


def restore_with_sluice(ground: Ground, changelog: Changelog, directory: Path) -> float:
    """Records per second of a worker's restorer processes. Raises NotRestoredError."""
    heard = _Restore(changelog.partitions)
    restorers = Restorers(ground.bootstrap_servers, {}, RESTORERS, None, heard.hear)
    try:
        ends = ground.sizes(changelog.topic)
        for partition, end in ends.items():
            task = TaskId(0, partition)
            restorers.follow(_follow(changelog, task, end, directory / str(task)))
            restorers.finish(task, {STORE: end})
        with heard.changed:
            heard.changed.wait_for(heard.is_over, _RESTORE_SECONDS)
    finally:
        restorers.close()
    if heard.failure is not None or not heard.is_over():
        raise NotRestoredError(f"{len(heard.finished)} of {changelog.partitions} tasks restored; {heard.failure}")
    _check_count(SLUICE, sum(heard.records.values()), changelog)
    return changelog.records / (heard.finished_at - heard.opened_at)


def _follow(changelog: Changelog, task: TaskId, end: int, directory: Path) -> Follow:
    store = StoreIdentity(STORE, changelog.topic, "bench", changelog.partitions)
    identity = TaskIdentity(changelog.application_id, task, (store,))
    return Follow(str(directory), identity, _YEAR_SECONDS, {STORE: 0}, {STORE: end})


class Restores:
    """Both engines in turn over the same changelog, a new one each round."""

    def __init__(self, ground: Ground, partitions: int, records: int) -> None:
        self._ground, self._partitions, self._records = ground, partitions, records
        self._changelogs: dict[int, Changelog] = {}

    def run(self, engine: str, turn: int) -> float:
        """Records per second of one run."""
        if turn not in self._changelogs:
            name = f"restore-{self._partitions}-{turn}"
            self._changelogs[turn] = fill(self._ground, name, self._partitions, self._records)
        rate = self._restore(engine, self._changelogs[turn])
        tell(f"{engine}, {self._partitions} partitions, round {turn + 1}: {rate:,.0f} records/s")
        return rate

    def _restore(self, engine: str, changelog: Changelog) -> float:
        if engine == STREAMS:
            return restore_with_streams(self._ground, changelog)
        directory = self._ground.directory / f"{changelog.application_id}-sluice"
        return restore_with_sluice(self._ground, changelog, directory)


def restore_row(ground: Ground, partitions: int, options: argparse.Namespace) -> Row:
    """The medians for a changelog of so many partitions."""
    figures = interleaved(options.rounds, (SLUICE, STREAMS), Restores(ground, partitions, options.records).run)
    rates = medians(figures)
    rows = [(engine, rates[engine], min(values), max(values)) for engine, values in figures.items()]
    print(table([f"records/s, {partitions} partitions", "median", "lowest", "highest"], rows), flush=True)
    name = f"restore {partitions} partition{'s' if partitions > 1 else ''}"
    return Row(name, round(rates[SLUICE]), round(rates[STREAMS]), "records/s")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the bench."""
    parser = argparse.ArgumentParser(prog="bench.restore", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the bench."""
    options = parse()
    with prepared_ground() as ground:
        rows = [restore_row(ground, partitions, options) for partitions in PARTITIONS]
    publish(rows, options.json)


if __name__ == "__main__":
    main()
