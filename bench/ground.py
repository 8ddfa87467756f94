"""The ground on which engines are compared: one broker, a working directory, a guard that ends whatever was begun."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from sluice_devkit.kafka import FULL_SPEED, KafkaCluster
from sluice_devkit.process_guard import ProcessGuard

_ADMIN_SECONDS = 30.0
_QUIET = {"log_level": 2}
"""Clients outlive the broker by a moment; what matters to us they raise."""


@dataclass(frozen=True, slots=True)
class Job:
    """What an engine is to run: its application id (also its group), and from where to where."""

    name: str
    source: str
    sink: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Ground:
    """A running broker and where engines may write."""

    bootstrap_servers: str
    directory: Path
    guard: ProcessGuard
    admin: AdminClient

    @property
    def client(self) -> dict[str, str | int | float | bool]:
        """What every client of ours begins with."""
        return {"bootstrap.servers": self.bootstrap_servers, **_QUIET}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """Create a topic on the one broker; its name."""
        self.admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(
            _ADMIN_SECONDS
        )
        return name

    def delete_topic(self, name: str) -> None:
        """Give its disk space back."""
        self.admin.delete_topics([name])[name].result(_ADMIN_SECONDS)

    def sizes(self, topic: str) -> dict[int, int]:
        """Offsets from the start to the end of every partition: records, and the markers of transactions."""
        partitions = self.admin.list_topics(topic, timeout=_ADMIN_SECONDS).topics[topic].partitions
        first = self._offsets(topic, list(partitions), OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        last = self._offsets(topic, list(partitions), OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: last[partition] - first[partition] for partition in partitions}

    def _offsets(self, topic: str, partitions: list[int], spec: OffsetSpec) -> dict[int, int]:
        futures = self.admin.list_offsets({TopicPartition(topic, partition): spec for partition in partitions})
        return {tp.partition: future.result(_ADMIN_SECONDS).offset for tp, future in futures.items()}


@contextlib.contextmanager
def prepared_ground(directory: Path | None = None) -> Iterator[Ground]:
    """A fresh broker on loopback; broker, engines and directory are gone afterwards, also after a SIGKILL."""
    work = Path(tempfile.mkdtemp(prefix="sluice-bench-", dir=directory))
    with (
        ProcessGuard(remove=[work]) as guard,
        KafkaCluster(directory=work / "kafka", jvm_options=FULL_SPEED) as kafka,
    ):
        yield Ground(
            kafka.bootstrap_servers, work, guard, AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **_QUIET})
        )
