"""What the driver makes of a Kafka that answers some questions and not others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from coordinator_simulation import APPLICATION, END, STATEFUL

from sluice_assignor import AssignmentConfig, RackAwareStrategy
from sluice_coordinator import driver as driver_module
from sluice_coordinator.driver import Driver, FootprintRefusedError, NoAnswerError
from sluice_coordinator.group import Recorded, events
from sluice_coordinator.group.config import Racks
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.records import Records
from sluice_coordinator.settings import CoordinatorSettings
from sluice_protocol.heartbeat import Code, Grant, HeartbeatAnswer, HeartbeatRequest, Role, Status, StatusCode
from sluice_protocol.ids import JOIN, Epoch, TaskId
from sluice_protocol.topology import TopologyDescription

SAVE_TRAFFIC = AssignmentConfig("HighAvailability", rack_aware_strategy=RackAwareStrategy.MIN_TRAFFIC)
JOINING = HeartbeatRequest(
    "member", "worker-0", str(UUID(int=1)), "x-1", JOIN, 1, STATEFUL.hash(), 2, topology=STATEFUL, rack="a"
)


class KafkaWithoutRacks:
    """A Kafka that tells the ends of changelogs, and fails to describe topics."""

    def check(self) -> str:
        return "kafka-a"

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
        answer = await driver.heartbeat(JOINING)
        while not answer.grants:  # a worker may be let in before its tasks are placed
            request = replace(JOINING, member_epoch=answer.epoch, sequence=answer.sequence + 1, topology=None)
            answer = await driver.heartbeat(request)
        return answer
    finally:
        await driver.close()
        records.close()


def test_tasks_are_placed_though_the_racks_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    answer = asyncio.run(join(tmp_path))

    assert answer.grants == tuple(Grant(TaskId(0, number), Role.ACTIVE, answer.epoch) for number in (0, 1))
    assert "the racks of the replicas can't be read: 2 topics were not described within 10 s" in caplog.text
    assert "saving traffic between racks is left out" in caplog.text


class SlowRecords(Records):
    """Of a disk that stands still whenever a leader epoch is raised above another, and fails the first time."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.goes_on = threading.Event()
        self.tries = 0

    def raise_leader(self, above: int = 0) -> int:
        if above:
            self.goes_on.wait(10)
            self.tries += 1
            if self.tries == 1:
                raise OSError("the disk is full")
        return super().raise_leader(above)


def test_while_a_newer_leader_epoch_is_raised_workers_wait_and_nothing_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(driver_module, "_RETRY_SECONDS", 0.01)
    settings = CoordinatorSettings(APPLICATION, "kafka:9092", tmp_path)
    kafka, records, metrics = KafkaWithoutRacks(), SlowRecords(tmp_path), Metrics(lambda: [])

    async def story() -> None:
        driver = Driver(settings, records, kafka, kafka, metrics)
        driver.start()
        joined = await driver.heartbeat(JOINING)
        heard = await driver.heartbeat(replace(JOINING, member_epoch=Epoch(8, 3), sequence=2))
        assert (joined.epoch.leader, heard.code) == (1, Code.UNKNOWN_MEMBER)

        with pytest.raises(NoAnswerError, match="worker-0 has to wait: the coordinator starts again"):
            await driver.heartbeat(replace(JOINING, sequence=3))
        driver.tell(events.DrainRequested("worker-0"))

        records.goes_on.set()
        async with asyncio.timeout(10):
            while driver.view().epoch.leader == 1:
                await asyncio.sleep(0.01)
            answer = await driver.heartbeat(replace(JOINING, member_id="again", sequence=4))
        assert answer.epoch.leader == 9
        assert metrics.registry.get_sample_value("sluice_drains_total", {"outcome": "started"}) == 1
        await driver.close()

    asyncio.run(story())
    records.close()
    assert "no leader epoch above 8: the disk is full" in caplog.text


class TakenRecords(Records):
    """Where another application has the id, until it is gone."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.is_free = threading.Event()

    def record_footprint(self, footprint: Recorded) -> None:
        if not self.is_free.is_set():
            raise FootprintRefusedError("it is that of another")
        super().record_footprint(footprint)


def test_a_refused_record_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver_module, "_RETRY_SECONDS", 0.01)
    settings = CoordinatorSettings(APPLICATION, "kafka:9092", tmp_path)
    kafka, records = KafkaWithoutRacks(), TakenRecords(tmp_path)

    async def story() -> None:
        driver = Driver(settings, records, kafka, kafka, Metrics(lambda: []))
        driver.start()
        taken = Status(StatusCode.APPLICATION_ID_TAKEN, "it is that of another")
        async with asyncio.timeout(10):
            while driver.view().statuses != (taken,):
                await asyncio.sleep(0.01)
            records.is_free.set()
            while driver.view().statuses:
                await asyncio.sleep(0.01)
        await driver.close()

    asyncio.run(story())
    assert records.footprint() == Recorded(cluster_id="kafka-a")
    records.close()
