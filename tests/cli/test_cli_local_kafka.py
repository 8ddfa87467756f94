"""Local mode with the real coordinator on a real Kafka; the workers are stand-ins, so that no Spark is needed."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stand_in_run import stand_in_settings

from sluice_cli.local import LocalApplication
from sluice_cli.local.settings import THIS_PROGRAM
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId
from sluice_protocol.view import GroupView

pytestmark = pytest.mark.kafka

SECONDS = 60.0
PARTITIONS = 4


@pytest.fixture
def run(kafka: Any, topics: Any, tmp_path: Path) -> Iterator[Callable[..., LocalApplication]]:
    """Start an application that reads the topic `name`, which may or may not exist."""
    running: list[LocalApplication] = []

    def start(name: str = "orders", **changes: Any) -> LocalApplication:
        settings = replace(
            stand_in_settings(tmp_path / "run"),
            pipeline=f"{topics.name(name)}:topology",
            bootstrap_servers=kafka.bootstrap_servers,
            application_id=topics.prefix.rstrip("-"),
            coordinator_command=THIS_PROGRAM,
            **{"heartbeat_interval_ms": 500, "session_timeout_ms": 3_000, **changes},
        )
        running.append(LocalApplication(settings, report=print))
        return running[-1].start(SECONDS)

    yield start
    for application in running:
        application.stop()


def holders(group: GroupView) -> dict[TaskId, str]:
    return {task.task: task.worker for task in group.tasks if task.role is Role.ACTIVE}


def spread(group: GroupView) -> list[int]:
    """How many tasks each worker holds, the fewest first."""
    return sorted(Counter(worker for worker in holders(group).values() if worker).values())


def test_tasks_follow_the_number_of_workers(run: Callable[..., LocalApplication], topics: Any):
    topics.create("orders", PARTITIONS)
    application = run(workers=1)

    application.wait_settled(SECONDS)
    alone = application.view()
    application.scale(3)
    application.wait_settled(SECONDS)
    three = application.view()
    application.scale(2)
    application.wait_settled(SECONDS)
    two = application.view()

    assert spread(alone) == [PARTITIONS]
    assert spread(three) == [1, 1, 2]
    assert spread(two) == [2, 2]
    assert application.pids().keys() == {"coordinator", "worker-0", "worker-1"}
    assert application.local_view().coordinator.restarts == 0


def test_the_tasks_of_a_killed_worker_go_on_elsewhere_long_before_its_session_ends(
    run: Callable[..., LocalApplication], topics: Any
):
    topics.create("orders", PARTITIONS)
    application = run(workers=2, session_timeout_ms=600_000)
    application.wait_settled(SECONDS)
    incarnation = application.local_view().workers[1].incarnation

    application.kill_worker(1)
    application.wait(lambda group: incarnation not in {member.incarnation for member in group.members}, SECONDS)
    application.wait_settled(SECONDS)

    assert application.local_view().workers[1].restarts == 1
    assert spread(application.view()) == [2, 2]


def test_a_new_coordinator_adopts_what_runs(run: Callable[..., LocalApplication], topics: Any):
    topics.create("orders", PARTITIONS)
    application = run(workers=2)
    application.wait_settled(SECONDS)
    before = application.view()

    application.kill_coordinator()
    application.wait(lambda group: group.state == "stable" and len(group.members) == 2, SECONDS)
    after = application.view()

    assert holders(after) == holders(before)
    assert {member.member_id for member in after.members} == {member.member_id for member in before.members}
    assert after.epoch.leader > before.epoch.leader


def test_a_missing_source_topic_is_said_and_nothing_crashes(
    run: Callable[..., LocalApplication], topics: Any, capfd: pytest.CaptureFixture[str]
):
    application = run("nowhere", workers=1)

    application.wait(lambda group: any(s.code.value == "MISSING_SOURCE_TOPICS" for s in group.statuses), SECONDS)
    topics.create("nowhere", 1)
    application.wait_settled(SECONDS)

    assert "MISSING_SOURCE_TOPICS: " in capfd.readouterr().out
    assert application.local_view().workers[0].restarts == 0
