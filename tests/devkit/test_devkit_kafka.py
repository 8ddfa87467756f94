"""The devkit's brokers are real: what is written can be read, kills and restarts are survived, racks are told."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice_devkit.kafka import KafkaCluster, KafkaError
from sluice_devkit.ports import free_ports

pytestmark = pytest.mark.kafka


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": uuid.uuid4().hex,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        values: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value())
        return values
    finally:
        consumer.close()


def admin_of(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def eventually(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def test_what_is_produced_is_consumed(kafka, topics):
    topic = topics.create("events", partitions=2, retention_ms=60_000)

    produce(kafka.bootstrap_servers, topic, [b"a", b"b", b"c"])

    assert sorted(consume(kafka.bootstrap_servers, topic, 3)) == [b"a", b"b", b"c"]


def test_a_topic_is_never_created_by_a_client(kafka, topics, admin):
    assert not admin.list_topics(topic=topics.name("nowhere"), timeout=10).topics[topics.name("nowhere")].partitions


def test_a_broker_comes_back_after_a_kill_with_its_data(tmp_path):
    with KafkaCluster(directory=tmp_path) as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = admin_of(cluster)
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(10)
        produce(bootstrap, "kept", [b"before"])

        cluster.kill(0)
        cluster.restart(0)

        produce(bootstrap, "kept", [b"after"])
        assert cluster.bootstrap_servers == bootstrap
        assert consume(bootstrap, "kept", 2) == [b"before", b"after"]

    with KafkaCluster(directory=tmp_path) as again:
        assert consume(again.bootstrap_servers, "kept", 2) == [b"before", b"after"]


def test_three_brokers_tell_their_racks_and_survive_the_loss_of_one():
    with KafkaCluster(3, racks=("a", "b", "c")) as cluster:
        admin = admin_of(cluster)
        nodes = admin.describe_cluster().result(10).nodes
        assert {node.id: node.rack for node in nodes} == {0: "a", 1: "b", 2: "c"}

        cluster.kill(0)

        eventually(lambda: set(admin.list_topics(timeout=10).brokers) == {1, 2})
        cluster.restart(0)
        eventually(lambda: set(admin.list_topics(timeout=10).brokers) == {0, 1, 2})


def test_a_paused_broker_is_silent_until_it_is_resumed():
    with KafkaCluster() as cluster:
        cluster.pause(0)
        with pytest.raises(KafkaException):
            admin_of(cluster).list_topics(timeout=1)

        cluster.resume(0)

        assert set(admin_of(cluster).list_topics(timeout=20).brokers) == {0}


def test_a_broker_that_cannot_start_says_why():
    with pytest.raises(KafkaError, match=r"(?s)Broker 0 ended with 1 at its start.*no\.such\.Authorizer"):
        KafkaCluster(properties={"authorizer.class.name": "no.such.Authorizer"}).start()


def test_a_taken_port_is_named(kafka):
    taken = int(kafka.bootstrap_servers.rpartition(":")[2])
    with pytest.raises(KafkaError, match=f"Port {taken} is taken"):
        KafkaCluster(port=taken).start()


def test_two_brokers_are_refused():
    with pytest.raises(KafkaError, match="2 brokers was asked for; it may have 1 or 3"):
        KafkaCluster(2)


UP = "import sys; from pathlib import Path; from sluice_devkit.kafka import kafka_up;\
 sys.exit(kafka_up(1, int(sys.argv[1]), Path(sys.argv[2])))"


@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_kafka_up_leaves_nothing_however_it_ends(tmp_path: Path, ending: str):
    (port,) = free_ports(1)
    command = [sys.executable, "-c", UP, str(port), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == f"127.0.0.1:{port}\n"
        assert brokers_of(tmp_path)

        up.send_signal(getattr(signal, ending))

        up.wait(30)
        eventually(lambda: not brokers_of(tmp_path), 10)
        assert ending == "SIGKILL" or up.returncode == 0


def brokers_of(directory: Path) -> list[str]:
    """Command lines of this machine that name the directory and are not the `up` above."""
    lines = [command_line(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [line for line in lines if str(directory) in line and "kafka.Kafka" in line]


def command_line(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
