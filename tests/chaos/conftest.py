"""What the fault tests share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from chaos_feed import TOPIC
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline.engine.session import settings

PARTITIONS = 4


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as workers have it."""
    builder = SparkSession.builder
    for key, value in settings("local[1]", 1, {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Shown at once, also when the test passes: the seed is what a failure is replayed with."""

    one_at_a_time = threading.Lock()

    def shown(line: str) -> None:
        with one_at_a_time, capfd.disabled():
            print(line, flush=True)

    return shown


@pytest.fixture
def own_kafka() -> Iterator[KafkaCluster]:
    """A broker that may be killed."""
    with KafkaCluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = (TOPIC, "echo", "user-counts", "team-counts")
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
            created.result(30)
        yield cluster
