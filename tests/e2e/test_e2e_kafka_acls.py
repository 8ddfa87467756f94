"""The rights in Kafka that docs/kubernetes.md lists are enough for a whole application, and none is too much."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from broker_certificate import a_certificate
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from sluice_cli.local import LocalApplication, LocalSettings
from sluice_coordinator.fencing import Fencer
from sluice_coordinator.topics.admin import TopicAdmin
from sluice_coordinator.topics.connections import AdminConnection
from sluice_devkit.kafka import KafkaCluster
from sluice_pipeline import clients
from sluice_pipeline.offsets import Offsets
from sluice_protocol.heartbeat import Status
from sluice_protocol.ids import changelog_topic, dead_letter_topic, repartition_topic, transactional_id, worker_name
from sluice_protocol.topology import Subtopology, TopologyDescription

pytestmark = pytest.mark.kafka

GUIDE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
SECONDS = 30.0
APPLICATION_SECONDS = 120.0
USER = "application"

Right = tuple[str, str, str, str]
"""Resource, name, pattern, operation."""


def listed() -> list[Right]:
    """The table of the guide."""
    rows = re.findall(r"^\| (\w+) \| `?([\w-]+)`? \| (literal|prefixed) \| (\w+) \|", GUIDE.read_text(), re.MULTILINE)
    return [(resource, name, pattern, operation) for resource, name, pattern, operation in rows]


class RefusedError(Exception):
    """Kafka refused a step."""


@dataclass
class Shop:
    """One application with topics of its own, on a broker that asks everybody for their rights."""

    kafka: KafkaCluster
    application: str = field(default_factory=lambda: f"shop-{uuid.uuid4().hex[:8]}")

    @property
    def source(self) -> str:
        return f"orders-of-{self.application}"

    @property
    def sink(self) -> str:
        return f"spent-of-{self.application}"

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def login(self) -> dict[str, str]:
        return {**self.kafka.login(USER), "log_level": "0"}

    @property
    def topology(self) -> TopologyDescription:
        stream = repartition_topic(self.application, "spent")
        return TopologyDescription(
            self.application,
            (
                Subtopology(0, source_topics=(self.source,), repartition_sink_topics=(stream,)),
                Subtopology(
                    1,
                    repartition_source_topics=(stream,),
                    changelog_topics=(changelog_topic(self.application, "spent"),),
                    sink_topics=(self.sink,),
                ),
            ),
            dead_letter_topic(self.application),
        )

    def internal(self) -> list[str]:
        stores = (repartition_topic, changelog_topic)
        return [*(name(self.application, "spent") for name in stores), dead_letter_topic(self.application)]

    def prepare(self, administrator: AdminClient, rights: list[Right]) -> None:
        new = [NewTopic(topic, 1, 1) for topic in (self.source, self.sink)]
        for future in administrator.create_topics(new).values():
            future.result(SECONDS)
        wanted = [self._binding(right) for right in rights]
        for future in administrator.create_acls(wanted).values():
            future.result(SECONDS)
        deadline = time.monotonic() + SECONDS
        while not set(wanted) <= set(administrator.describe_acls(_ANY_ACL).result(SECONDS)):
            assert time.monotonic() < deadline
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, **self.kafka.login("admin")})
        for number in range(10):
            value = json.dumps({"customer": f"c{number % 3}", "amount": 1.0})
            producer.produce(self.source, value.encode(), key=b"k")
        assert producer.flush(SECONDS) == 0

    def _binding(self, right: Right) -> AclBinding:
        resource, name, pattern, operation = right
        named = {"SOURCE": self.source, "SINK": self.sink}.get(name, name.replace("ID", self.application))
        kinds = {
            "Topic": ResourceType.TOPIC,
            "Group": ResourceType.GROUP,
            "TransactionalId": ResourceType.TRANSACTIONAL_ID,
        }
        return AclBinding(
            kinds[resource],
            named,
            ResourcePatternType[pattern.upper()],
            f"User:{USER}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )

    # What operator and workers ask of Kafka, with their own clients, in their order.

    def steps(self) -> dict[str, Callable[[], None]]:
        return {
            "prepare topics": self._prepare_topics,
            "fence": self._fence,
            "read offsets": self._read_offsets,
            "read the source": lambda: self._read(self.source),
            "write": self._write,
            "restore": lambda: self._read(changelog_topic(self.application, "spent")),
            "purge": self._purge,
            "delete": lambda: self._admin().delete(self.internal(), self.application),
        }

    def first_refused(self) -> str | None:
        """The step at which Kafka says no."""
        for name, step in self.steps().items():
            try:
                step()
            except Exception as error:
                if "authoriz" not in str(error).lower():
                    raise
                return name
        return None

    def _admin(self) -> TopicAdmin:
        return TopicAdmin(AdminConnection(self.servers, self.login))

    def _prepare_topics(self) -> None:
        admin = self._admin()
        admin.check()
        prepared = admin.prepare(self.topology)
        if isinstance(prepared, Status):
            raise RefusedError(prepared.message)

    def _fence(self) -> None:
        ids = [transactional_id(self.application, worker_name(0), number) for number in range(2)]
        Fencer(self.servers, self.login).fence(ids)

    def _read_offsets(self) -> None:
        offsets = Offsets(self.servers, self.login, self.application, patience_seconds=5)
        offsets.committed([(self.source, 0)])
        offsets.log_ends([(changelog_topic(self.application, "spent"), 0)])

    def _read(self, topic: str) -> None:
        consumer = Consumer(clients.consumer(self.servers, self.login))
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            message = consumer.poll(SECONDS)
            while message is not None and message.topic() is None:  # of its group, which it never joins
                message = consumer.poll(SECONDS)
            if message is None or message.error() is not None:
                raise RefusedError(f"{topic}: {'silence' if message is None else message.error()}")
        finally:
            consumer.close()

    def _write(self) -> None:
        refusals: list[str] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refusals.append(f"{message.topic()}: {error}")

        identity = transactional_id(self.application, worker_name(0), 0)
        producer = Producer(clients.transactional_producer(self.servers, self.login, identity))
        consumer = Consumer(clients.consumer(self.servers, self.login, **{"group.id": self.application}))
        try:
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
            for topic in (self.sink, *self.internal()):
                producer.produce(topic, b"{}", key=b"k", on_delivery=note)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(self.source, 0, 1)], metadata, SECONDS)
            producer.commit_transaction(SECONDS)
        except KafkaException as error:
            raise RefusedError("; ".join([str(error), *refusals])) from error
        finally:
            consumer.close()

    def _purge(self) -> None:
        admin = AdminClient(clients.admin(self.servers, self.login))
        for future in admin.delete_records(
            [TopicPartition(repartition_topic(self.application, "spent"), 0, 1)]
        ).values():
            future.result(SECONDS)


_ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{USER}", None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A broker with an authorizer, by TLS."""
    users = {"admin": uuid.uuid4().hex, USER: uuid.uuid4().hex}
    with KafkaCluster(users=users, certificate=a_certificate()) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def administrator(guarded: KafkaCluster) -> AdminClient:
    settings = {"bootstrap.servers": guarded.bootstrap_servers, "log_level": 0, **guarded.login("admin")}
    return AdminClient(settings)


def test_with_the_list_everything_goes(guarded: KafkaCluster, administrator: AdminClient):
    shop = Shop(guarded)
    shop.prepare(administrator, listed())

    assert shop.first_refused() is None


NEEDED_FIRST = {
    ("Topic", "SOURCE", "literal", "Read"): "prepare topics",
    ("Topic", "SINK", "literal", "Write"): "write",
    ("Topic", "ID-", "prefixed", "Create"): "prepare topics",
    ("Topic", "ID-", "prefixed", "Read"): "restore",
    ("Topic", "ID-", "prefixed", "Write"): "write",
    ("Topic", "ID-", "prefixed", "Delete"): "purge",
    ("Group", "ID", "prefixed", "Read"): "write",  # Delete lets it read the offsets, too
    ("Group", "ID", "literal", "Delete"): "delete",
    ("TransactionalId", "ID-", "prefixed", "Write"): "fence",
}


def test_every_listed_right_is_tried():
    assert set(listed()) == NEEDED_FIRST.keys()


@pytest.mark.parametrize("left_out", NEEDED_FIRST, ids="-".join)
def test_without_one_of_them_something_is_refused(guarded: KafkaCluster, administrator: AdminClient, left_out: Right):
    shop = Shop(guarded)
    shop.prepare(administrator, [right for right in listed() if right != left_out])

    assert shop.first_refused() == NEEDED_FIRST[left_out]


PIPELINE = """
import sluice

topology = sluice.Topology("{application}")
orders = topology.stream("{source}", value="customer string, amount double")
orders.group_by("customer").aggregate("spent", total=sluice.sum_("amount")).to("{sink}")
"""


@pytest.mark.spark
def test_a_whole_application_runs_with_the_list(guarded: KafkaCluster, administrator: AdminClient, tmp_path: Path):
    shop = Shop(guarded)
    shop.prepare(administrator, listed())
    text = PIPELINE.format(application=shop.application, source=shop.source, sink=shop.sink)
    (tmp_path / "guarded_shop.py").write_text(text)
    settings = LocalSettings(
        pipeline="guarded_shop:topology",
        bootstrap_servers=shop.servers,
        application_id=shop.application,
        run_directory=tmp_path / "run",
        threads=1,
        restorers=1,
        kafka_config=shop.login,
        environment={"PYTHONPATH": str(tmp_path)},
    )

    with LocalApplication(settings):
        assert totals(shop, customers=3) == {"c0": 4.0, "c1": 3.0, "c2": 3.0}


def totals(shop: Shop, customers: int) -> dict[str, float]:
    """What the sink says of everybody, once the records of all customers add up."""
    settings = {"bootstrap.servers": shop.servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "log_level": 0, **shop.kafka.login("admin")})
    consumer.assign([TopicPartition(shop.sink, 0, 0)])
    found: dict[str, float] = {}
    deadline = time.monotonic() + APPLICATION_SECONDS
    while sum(found.values()) < 10 or len(found) < customers:
        assert time.monotonic() < deadline, found
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found[message.key().decode()] = json.loads(message.value())["total"]
    consumer.close()
    return found
