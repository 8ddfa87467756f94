"""What a user is told when something is wrong: a sentence, nothing that spins, and nothing counted twice."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from e2e_application import PARTITIONS, SECONDS, Shop, is_stable

from sluice_cli.errors import MistakeError
from sluice_cli.local import LocalApplication
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.state.directory import StateDirectory
from sluice_pipeline.worker.agent import Agent, heartbeat_path
from sluice_protocol.heartbeat import FailedTask, HeartbeatRequest
from sluice_protocol.ids import JOIN
from sluice_protocol.route import Route
from sluice_protocol.view import GroupView

pytestmark = pytest.mark.kafka


def statuses(group: GroupView) -> dict[str, str]:
    return {status.code.value: status.message for status in group.statuses}


def failures(group: GroupView) -> list[FailedTask]:
    return [failed for member in group.members for failed in member.failed]


def restarts(application: LocalApplication) -> int:
    view = application.local_view()
    return view.coordinator.restarts + sum(worker.restarts for worker in view.workers)


@pytest.mark.spark
def test_an_application_waits_for_its_source_topic_and_its_failed_task_for_a_person(shop: Shop) -> None:
    orders = shop.topics.name("orders")
    shop.create_topics("totals")
    with shop.run("stopping") as application:
        waiting = application.wait(lambda group: "MISSING_SOURCE_TOPICS" in statuses(group), SECONDS)
        shop.create_topics("orders")
        application.wait(is_stable(1), SECONDS)
        for amount in (10, 13, 20):
            shop.order("ann", amount)
        shop.flush()
        stopped = application.wait(lambda group: bool(failures(group)), SECONDS)
        application.coordinator().resume()
        application.wait(lambda group: failures(group) != failures(stopped) or not failures(group), SECONDS)
        again = application.wait(lambda group: bool(failures(group)), SECONDS)
        shop.mended.touch()
        application.coordinator().resume()
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
        assert restarts(application) == 0

    assert orders in statuses(waiting)["MISSING_SOURCE_TOPICS"]
    (failed,) = failures(stopped)
    (refailed,) = failures(again)
    assert (failed.topic, failed.partition, failed.offset) == (orders, failed.task.partition, 1)
    assert "13 brings bad luck" in failed.message
    assert (refailed.task, refailed.offset) == (failed.task, 1)
    assert shop.totals() == shop.expected


@pytest.mark.spark
def test_a_lost_committed_offset_stops_the_task_until_somebody_sets_it(shop: Shop) -> None:
    shop.create_topics("orders", "totals")
    shop.order_many(400, users=40)
    with shop.run() as application:
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
    admin = AdminClient({"bootstrap.servers": shop.servers})
    orders = shop.topics.name("orders")
    committed = Offsets(shop.servers, {}, shop.application_id).committed(
        [(orders, partition) for partition in range(PARTITIONS)]
    )
    admin.delete_consumer_groups([shop.application_id])[shop.application_id].result(30)
    _set_offsets(admin, shop, {partition: committed[orders, partition] for partition in range(1, PARTITIONS)})
    shop.order_many(400, users=40)

    with shop.run() as application:
        group = application.wait(lambda group: bool(failures(group)), SECONDS)
        _set_offsets(admin, shop, {0: committed[orders, 0]})
        application.coordinator().resume()
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
        assert restarts(application) == 0

    (failed,) = failures(group)
    assert (failed.reason, failed.topic, failed.partition) == ("CommittedOffsetLost", orders, 0)
    assert "sluice resume" in failed.message
    assert shop.totals() == shop.expected


def _set_offsets(admin: AdminClient, shop: Shop, offsets: dict[int, Any]) -> None:
    orders = shop.topics.name("orders")
    positions = [TopicPartition(orders, partition, offset) for partition, offset in offsets.items()]
    request = ConsumerGroupTopicPartitions(shop.application_id, positions)
    for answer in admin.alter_consumer_group_offsets([request]).values():
        answer.result(30)


@pytest.mark.spark
def test_topics_that_are_read_together_and_differ_in_size_are_named(shop: Shop) -> None:
    shop.create_topics("orders", "totals")
    shop.create_topics("returns", partitions=PARTITIONS + 1)
    with shop.run("reading_two") as application:
        group = application.wait(lambda group: "INCORRECTLY_PARTITIONED_TOPICS" in statuses(group), SECONDS)
        assert restarts(application) == 0

    sentence = statuses(group)["INCORRECTLY_PARTITIONED_TOPICS"]
    assert shop.topics.name("orders") in sentence
    assert shop.topics.name("returns") in sentence


@pytest.mark.spark
def test_a_kafka_that_does_not_answer_is_named_and_waited_for(shop: Shop) -> None:
    with shop.run(bootstrap_servers="127.0.0.1:1") as application:
        group = application.wait(lambda group: "KAFKA_UNREACHABLE" in statuses(group), SECONDS)
        log = shop.directory / "run" / "logs" / "worker-0.log"
        shop.wait_until(lambda: "Kafka does not answer" in log.read_text())
        assert restarts(application) == 0

    assert "127.0.0.1:1" in statuses(group)["KAFKA_UNREACHABLE"]


@pytest.mark.spark
def test_a_transformation_that_needs_several_rows_ends_the_run_naming_its_line(shop: Shop) -> None:
    with pytest.raises(MistakeError, match=r"worker-0 can't run: .*e2e_pipelines\.py:\d+"):
        _run_to_its_end(shop.run("not_row_wise"))


def test_an_unknown_module_ends_the_run(shop: Shop) -> None:
    with pytest.raises(MistakeError, match=r"worker-0 can't run: .*there is no module 'nowhere'"):
        _run_to_its_end(shop.run(pipeline="nowhere:topology"))


def test_a_state_directory_of_another_application_ends_the_run(shop: Shop) -> None:
    StateDirectory(shop.directory / "run" / "state" / "worker-0", "another").close()

    with pytest.raises(MistakeError, match=r"worker-0 can't run: .*belongs to application 'another'"):
        _run_to_its_end(shop.run())


def _run_to_its_end(application: LocalApplication) -> None:
    application.start()
    application.join(SECONDS)


def test_a_worker_with_the_wrong_secret_is_told_so_once(shop: Shop) -> None:
    said: list[str] = []
    heard = threading.Event()

    def refuse(message: str) -> None:
        said.append(message)
        heard.set()

    with shop.run(workers=0) as application:
        agent = Agent(
            Route(application.coordinator().url),
            heartbeat_path("local", shop.application_id),
            lambda: "not the secret",
            on_answer=lambda *_: None,
            on_refused=refuse,
            watch=lambda: None,
        )
        agent.start()
        agent.submit(HeartbeatRequest("m", "worker-0", "p", "1", JOIN, 0, "hash", capacity=1))
        assert heard.wait(SECONDS)
        agent.join(SECONDS)

    assert not agent.is_alive()
    assert "(HTTP 401)" in said[0]
    assert "secret" in said[0]
