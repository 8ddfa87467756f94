"""What the driver makes of a Kafka that answers some questions and not others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from coordinator_simulation import APPLICATION, END, STATEFUL

from sluice_assignor import AssignmentConfig, RackAwareStrategy
from sluice_coordinator.driver import Driver
from sluice_coordinator.group.config import Racks
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.records import Records
from sluice_coordinator.settings import CoordinatorSettings
from sluice_protocol.heartbeat import Grant, HeartbeatAnswer, HeartbeatRequest, Role
from sluice_protocol.ids import JOIN, TaskId
from sluice_protocol.topology import TopologyDescription

SAVE_TRAFFIC = AssignmentConfig("HighAvailability", rack_aware_strategy=RackAwareStrategy.MIN_TRAFFIC)
JOINING = HeartbeatRequest(
    "member", "worker-0", str(UUID(int=1)), "x-1", JOIN, 1, STATEFUL.hash(), 2, topology=STATEFUL, rack="a"
)


class KafkaWithoutRacks:
    """A Kafka that tells the ends of changelogs, and fails to describe topics."""

    def check(self) -> None:
        pass

    def prepare(self, topology: TopologyDescription) -> tuple[int, ...]:
        return (2,) * len(topology.subtopologies)

    def end_offset_sums(self, changelogs: Mapping[TaskId, Sequence[str]]) -> dict[TaskId, int]:
        return dict.fromkeys(changelogs, END)

    def racks(self, topics: Sequence[str]) -> Racks:
        raise TimeoutError(f"{len(topics)} topics were not described within 10 s")

    def fence(self, transactional_ids: Sequence[str]) -> None:
        pass


async def join(directory: Path) -> HeartbeatAnswer:
    settings = CoordinatorSettings(APPLICATION, "kafka:9092", directory, assignment=SAVE_TRAFFIC)
    kafka, records = KafkaWithoutRacks(), Records(directory)
    driver = Driver(settings, records, kafka, kafka, Metrics(lambda: []))
    driver.start()
    try:
        return await driver.heartbeat(JOINING)
    finally:
        await driver.close()
        records.close()


def test_tasks_are_placed_though_the_racks_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    answer = asyncio.run(join(tmp_path))

    assert answer.grants == tuple(Grant(TaskId(0, number), Role.ACTIVE, answer.epoch) for number in (0, 1))
    assert "the racks of the replicas can't be read: 2 topics were not described within 10 s" in caplog.text
    assert "saving traffic between racks is left out" in caplog.text
