"""Topics, offsets and fences on a real broker, and a coordinator process on it."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from coordinator_process import Worker, running_coordinator, wait_for

from sluice_coordinator.fencing import Fencer
from sluice_coordinator.group import Recorded
from sluice_coordinator.records import Records
from sluice_coordinator.topics.admin import KafkaUnreachableError, TopicAdmin
from sluice_coordinator.topics.connections import AdminConnection, AdminConnections
from sluice_devkit.kafka import KafkaCluster
from sluice_protocol import view
from sluice_protocol.heartbeat import Code, Role, Status, StatusCode
from sluice_protocol.ids import LEAVE, TaskId, transactional_id
from sluice_protocol.topology import Subtopology, TopologyDescription

pytestmark = pytest.mark.kafka


def a_topology(application: str, source: str) -> TopologyDescription:
    repartition = f"{application}-by-user-repartition"
    return TopologyDescription(
        application,
        (
            Subtopology(0, source_topics=(source,), repartition_sink_topics=(repartition,)),
            Subtopology(
                1, repartition_source_topics=(repartition,), changelog_topics=(f"{application}-counts-changelog",)
            ),
        ),
        dead_letter_topic=f"{application}-dead-letters",
    )


def config_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries = next(iter(admin.describe_configs([resource]).values())).result(10)
    return {name: entry.value for name, entry in entries.items()}


def test_internal_topics_are_created_once_and_found_again(kafka: Any, topics: Any, admin: AdminClient) -> None:
    source = topics.create("orders", partitions=3)
    topology = a_topology(topics.name("app"), source)
    ours = TopicAdmin(AdminConnection(kafka.bootstrap_servers, {}))

    assert ours.prepare(topology) == (3, 3)
    assert ours.prepare(topology) == (3, 3)

    application = topology.application_id
    internal = [f"{application}-{name}" for name in ("by-user-repartition", "counts-changelog", "dead-letters")]
    assert ours.describe(internal) == dict(zip(internal, (3, 3, 1), strict=True))
    assert config_of(admin, internal[0])["retention.ms"] == "-1"
    assert config_of(admin, internal[0])["cleanup.policy"] == "delete"
    assert config_of(admin, internal[1])["cleanup.policy"] == "compact"


def test_two_coordinators_that_create_at_the_same_time_agree(kafka: Any, topics: Any) -> None:
    source = topics.create("orders", partitions=4)
    topology = a_topology(topics.name("app"), source)
    answers: list[object] = []

    def prepare() -> None:
        answers.append(TopicAdmin(AdminConnection(kafka.bootstrap_servers, {})).prepare(topology))

    threads = [threading.Thread(target=prepare) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert answers == [(4, 4)] * 3


def test_a_missing_source_topic_is_named_and_not_created(kafka: Any, topics: Any) -> None:
    ours = TopicAdmin(AdminConnection(kafka.bootstrap_servers, {}))
    missing = topics.name("orders")

    answer = ours.prepare(a_topology(topics.name("app"), missing))

    assert isinstance(answer, Status)
    assert answer.code is StatusCode.MISSING_SOURCE_TOPICS
    assert missing in answer.message
    assert ours.describe([missing]) == {}


def test_who_may_not_act_any_more_creates_and_deletes_nothing(kafka: Any, topics: Any) -> None:
    def check() -> None:
        raise PermissionError("somebody else leads")

    source, application = topics.create("orders", partitions=2), topics.name("app")
    connection = AdminConnection(kafka.bootstrap_servers, {})
    deposed = TopicAdmin(connection, check=check)
    wait_for(lambda: deposed.describe([source]) == {source: 2})

    with pytest.raises(PermissionError):
        deposed.prepare(a_topology(application, source))
    with pytest.raises(PermissionError):
        deposed.delete([source], application)

    assert TopicAdmin(connection).describe([source, f"{application}-counts-changelog"]) == {source: 2}


def test_an_unreachable_kafka_is_named_with_its_reason() -> None:
    ours = TopicAdmin(AdminConnection("127.0.0.1:1", {}))

    with pytest.raises(KafkaUnreachableError, match=r"Kafka at 127\.0\.0\.1:1 does not answer: .*Connection refused"):
        ours.check()


def test_the_racks_of_every_replica_are_told() -> None:
    with KafkaCluster(brokers=3, racks=("a", "b", "c")) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        layout = NewTopic("t", 3, replica_assignment=[[0, 1], [1, 0], [1, 2]])
        admin.create_topics([layout])["t"].result(30)
        ours = TopicAdmin(AdminConnection(kafka.bootstrap_servers, {}))
        wait_for(lambda: len(ours.racks(["t"])) == 3)

        found = ours.racks(["t", "missing"])

    assert found == {("t", 0): {"a", "b"}, ("t", 1): {"a", "b"}, ("t", 2): {"b", "c"}}


def test_end_offsets_leave_an_open_transaction_out(kafka: Any, topics: Any) -> None:
    changelog = topics.create("counts-changelog", partitions=2)
    ours = TopicAdmin(AdminConnection(kafka.bootstrap_servers, {}))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topics.name("t")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(10):
        producer.produce(changelog, b"value", partition=0)
    producer.commit_transaction(30)
    tasks = {TaskId(0, 0): (changelog,), TaskId(0, 1): (changelog,)}
    wait_for(lambda: ours.end_offset_sums(tasks)[TaskId(0, 0)] == 11)

    producer.begin_transaction()
    producer.produce(changelog, b"open", partition=0)
    producer.flush(10)

    assert ours.end_offset_sums(tasks) == {TaskId(0, 0): 11, TaskId(0, 1): 0}
    producer.abort_transaction(30)


def test_a_fence_ends_open_transactions_and_kills_their_producers(kafka: Any, topics: Any) -> None:
    topic = topics.create("out")
    application = topics.name("app")
    ids = [transactional_id(application, "worker-0", number) for number in range(2)]
    producers = [Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": one}) for one in ids]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"never seen")
        producer.flush(10)

    Fencer(kafka.bootstrap_servers, {}).fence(ids)

    for producer in producers:
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction(30)
        assert raised.value.args[0].fatal()
    admin = TopicAdmin(AdminConnection(kafka.bootstrap_servers, {}))
    assert admin.end_offset_sums({TaskId(0, 0): (topic,)})[TaskId(0, 0)] == 2 + 2, "two records, two abort markers"


def test_workers_get_their_tasks_and_hand_them_over(kafka: Any, topics: Any, tmp_path: Path) -> None:
    application = topics.name("app")
    topology = a_topology(application, topics.create("orders", partitions=2))
    with running_coordinator(tmp_path, kafka.bootstrap_servers, application) as running:
        first = Worker(running, "worker-0", topology)
        wait_for(lambda: len(first.beat().grants) == 4)
        assert all(grant.role is Role.ACTIVE for grant in first.grants)
        wait_for(lambda: first.beat().epoch == first.epoch and running.view().state == "stable")
        assert running.call("GET", "/readyz", secret=None)[0] == 200

        second = Worker(running, "worker-1", topology)
        wait_for(lambda: (first.beat(), second.beat()) and len(first.grants) == len(second.grants) == 2)
        assert not {grant.task for grant in first.grants} & {grant.task for grant in second.grants}

        path = running.path(view.GONE_PATH, "worker-0")
        assert running.call("POST", path, b'{"incarnation": "1"}')[0] == 204
        wait_for(lambda: len(second.beat().grants) == 4)
        assert first.beat().code is Code.FENCED
        assert [move.planned for move in running.view().moves].count(False) == 0
        second.beat()
        assert {(move.source, move.planned) for move in running.view().moves} == {
            ("worker-0", True),
            ("worker-0", False),
        }
        assert second.beat(LEAVE).code is Code.OK
        assert running.stop() == 0


def test_another_kafka_than_the_recorded_one_is_named_with_both_ids(
    kafka: KafkaCluster, admin: AdminClient, tmp_path: Path
) -> None:
    with contextlib.closing(Records(tmp_path)) as records:
        records.record_footprint(Recorded(1, 2, "former-cluster"))

    with running_coordinator(tmp_path, kafka.bootstrap_servers) as running:
        wait_for(lambda: StatusCode.KAFKA_CLUSTER_CHANGED in {each.code for each in running.view().statuses})
        said = " ".join(each.message for each in running.view().statuses)

    assert "former-cluster" in said
    assert admin.list_topics(timeout=30).cluster_id in said


def test_who_talks_to_the_same_kafka_in_the_same_way_shares_a_connection(kafka: KafkaCluster) -> None:
    connections = AdminConnections()
    one = connections.to(kafka.bootstrap_servers, {"client.id": "a"})

    assert connections.to(kafka.bootstrap_servers, {"client.id": "a"}) is one
    other = connections.to(kafka.bootstrap_servers, {"client.id": "b"})
    assert other is not one
    TopicAdmin(one).check()
    TopicAdmin(other).check()
    del one, other
    assert len(connections) == 0
