"""Clients that were there before a broker's restart go on after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluice_coordinator.topics.admin import TopicAdmin
from sluice_coordinator.topics.connections import AdminConnection
from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.offsets import Offsets
from sluice_protocol.ids import TaskId

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

TOPIC = "changes"


@pytest.fixture
def own_kafka() -> Iterator[KafkaCluster]:
    """A broker that may be killed."""
    with KafkaCluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        yield cluster


def test_ends_of_logs_are_read_again_at_once_after_a_restart(own_kafka: KafkaCluster) -> None:
    offsets = Offsets(own_kafka.bootstrap_servers, {}, "group")
    admin = TopicAdmin(AdminConnection(own_kafka.bootstrap_servers, {}))
    changelogs = {TaskId(0, 0): (TOPIC,)}
    assert offsets.log_ends([(TOPIC, 0)]) == {(TOPIC, 0): 0}
    assert admin.end_offset_sums(changelogs) == {TaskId(0, 0): 0}

    own_kafka.kill(0)
    own_kafka.restart(0)

    assert offsets.log_ends([(TOPIC, 0)]) == {(TOPIC, 0): 0}
    assert admin.end_offset_sums(changelogs) == {TaskId(0, 0): 0}
