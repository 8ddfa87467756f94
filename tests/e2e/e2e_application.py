"""An application on the tests' broker: what it is fed, and what a user reads of it."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from sluice_assignor import AssignmentConfig
from sluice_cli.local import LocalApplication, LocalSettings
from sluice_cli.local.backoff import Backoff
from sluice_devkit.offsets import CommitWitness, OffsetCommit, OffsetWatch
from sluice_pipeline.offsets import Offsets
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId
from sluice_protocol.view import GroupView

HERE = Path(__file__).parent
PARTITIONS = 4
SECONDS = 120.0
APPLICATION = "app"


@dataclass
class Shop:
    """Orders by user, and the application that adds them up."""

    kafka: Any
    topics: Any
    directory: Path
    expected: dict[bytes, dict[str, int]] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._producer = Producer(
            {"bootstrap.servers": self.servers, "partitioner": "murmur2_random", "linger.ms": 5, "log_level": 0}
        )
        self._chance = random.Random(1)

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def application_id(self) -> str:
        return self.topics.name(APPLICATION)

    @property
    def mended(self) -> Path:
        """While it isn't there, the user's code raises on an amount of 13."""
        return self.directory / "mended"

    def create_topics(self, *names: str, partitions: int = PARTITIONS) -> None:
        for name in names:
            self.topics.create(name, partitions)

    def settings(self, pipeline: str, **changes: Any) -> LocalSettings:
        settings = LocalSettings(
            pipeline=pipeline if ":" in pipeline else f"e2e_pipelines:{pipeline}",
            bootstrap_servers=self.servers,
            application_id=self.application_id,
            run_directory=self.directory / "run",
            threads=1,
            restorers=1,
            assignment=AssignmentConfig(acceptable_recovery_lag=100),
            heartbeat_interval_ms=300,
            session_timeout_ms=3_000,
            environment={
                "PYTHONPATH": str(HERE),
                "E2E_PREFIX": self.topics.prefix,
                "E2E_MENDED": str(self.mended),
            },
            backoff=Backoff(first_ms=100, cap_ms=500),
        )
        return replace(settings, **changes)

    def run(self, pipeline: str = "counting", **changes: Any) -> LocalApplication:
        return LocalApplication(self.settings(pipeline, **changes), report=self.reports.append)

    def order(self, user: str, amount: int) -> None:
        """Send one order; with `flush` it is in Kafka."""
        self._producer.produce(self.topics.name("orders"), json.dumps({"amount": amount}), user)
        self._producer.poll(0)
        sums = self.expected.setdefault(user.encode(), {"orders": 0, "total": 0})
        sums["orders"] += 1
        sums["total"] += amount

    def order_many(self, count: int, users: int) -> None:
        for number in range(count):
            self.order(f"user-{number % users}", self._chance.randrange(100, 200))
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    @contextmanager
    def steady_orders(self, rate: int, users: int) -> Iterator[None]:
        """Orders arrive at this rate until the block ends."""
        ending = threading.Event()

        def send() -> None:
            while not ending.wait(0.02):
                for _ in range(rate // 50):
                    self.order(f"user-{self._chance.randrange(users)}", 1)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
            self.flush()

    def wait_processed(self, topic: str = "orders") -> None:
        """Until the group has committed the end of its source topic."""
        offsets = Offsets(self.servers, {}, self.application_id)
        partitions = self._partitions(topic)

        def left() -> dict[int, int]:
            committed, ends = offsets.committed(partitions), offsets.log_ends(partitions)
            return {where[1]: ends[where] - (committed[where] or 0) for where in partitions}

        try:
            self.wait_until(lambda: not any(left().values()))
        except AssertionError as error:
            raise AssertionError(f"not processed, by partition: {left()}; committed by: {self.owners()}") from error

    def watch(self) -> OffsetWatch:
        """How far the group's offsets of the orders have got, and when."""
        return OffsetWatch(self.servers, self.application_id, self._partitions("orders"))

    def _partitions(self, topic: str) -> list[tuple[str, int]]:
        return [(self.topics.name(topic), partition) for partition in range(PARTITIONS)]

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"it did not come to hold within {SECONDS:.0f} s"
            time.sleep(0.1)

    def totals(self) -> dict[bytes, dict[str, int]]:
        """The newest result of each user."""
        return {key: json.loads(value) for key, value in self._read(self.topics.name("totals"))}

    def _read(self, topic: str) -> Iterator[tuple[bytes, bytes]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "e2e-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        unread = set(range(PARTITIONS))
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        while unread:
            for message in consumer.consume(5_000, 0.1):
                if message.error() is None:
                    yield message.key(), message.value()
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
        consumer.close()

    def owners(self) -> dict[int, list[str]]:
        """Per partition of the orders who committed offsets of it, one after another; checks single ownership."""
        found: dict[int, list[str]] = {}
        for commit in self._commits():
            owners = found.setdefault(commit.partition, [])
            if not owners or owners[-1] != worker_of(commit):
                owners.append(worker_of(commit))
        return found

    def longest_silences(self, since: float, until: float) -> dict[str, float]:
        """For how many seconds each worker committed nothing at all, at most, after a commit between these moments."""
        moments: dict[str, list[float]] = {}
        for commit in self._commits():
            if since * 1000 <= commit.timestamp_ms <= until * 1000:
                moments.setdefault(worker_of(commit), [until]).append(commit.timestamp_ms / 1000)
        return {
            worker: max(later - earlier for earlier, later in itertools.pairwise(sorted(seen)))
            for worker, seen in moments.items()
        }

    def _commits(self) -> tuple[OffsetCommit, ...]:
        with CommitWitness(self.servers, self.application_id) as witness:
            assert [str(violation) for violation in witness.check()] == []
            return witness.commits()


def worker_of(commit: OffsetCommit) -> str:
    """Who committed."""
    return commit.metadata.partition("@")[0]


def holders(group: GroupView) -> dict[TaskId, str]:
    return {task.task: task.worker for task in group.tasks if task.role is Role.ACTIVE}


def is_stable(workers: int) -> Callable[[GroupView], bool]:
    """All of so many workers are members, every task runs, nothing is left to move."""
    return lambda group: (
        group.state == "stable"
        and len(group.members) == workers
        and group.pending_moves == 0
        and bool(group.tasks)
        and all(task.state == "running" for task in group.tasks if task.role is Role.ACTIVE)
    )
