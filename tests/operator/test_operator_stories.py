"""The operator process on a real API server and a real Kafka, with workers that have no data plane.

What people do with an application, and what they then see.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_devkit.ports import free_ports
from sluice_devkit.process_guard import ProcessGuard
from sluice_operator.kube import paths
from sluice_operator.observed import FINALIZER, Part
from sluice_operator.spec.model import API_VERSION, KIND, PLURAL
from sluice_protocol.ids import dead_letter_topic

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes]

HERE = Path(__file__).parent
SECONDS = 90.0
PLANTED = "a-secret-that-nobody-should-see"
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "flights"}
PARTITIONS = 4


@dataclass
class Operator:
    """The operator process, looking after the whole cluster."""

    kubernetes: KubernetesCluster
    guard: ProcessGuard
    lease_namespace: str
    log: Path
    ports: list[int]
    """The coordinator's, and that of probes and metrics."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            sys.executable, "-m", "sluice_cli", "operator", f"--coordinator-url=https://127.0.0.1:{self.ports[0]}",
            "--host=127.0.0.1", f"--port={self.ports[0]}", f"--probe-port={self.ports[1]}",
            f"--lease-namespace={self.lease_namespace}",
            "--lease-duration=12s", "--renew-deadline=10s", "--retry=500ms",
        ]  # fmt: skip
        environment = {**os.environ, "KUBECONFIG": str(self.kubernetes.kubeconfig)}
        with self.log.open("ab") as log:
            self.process = self.guard.start(command, environment=environment, output=log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@dataclass
class Flights:
    """One StreamsApp in the namespace of a test."""

    kubernetes: KubernetesCluster
    nodes: NodeAgent
    namespace: str
    bootstrap_servers: str
    topic: str
    directory: Path
    operator_log: Path
    name: str = "flights"

    def __post_init__(self) -> None:
        program = self.directory / "bin" / "sluice"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "stand_in_worker.py"} "$@"\n')
        program.chmod(0o755)
        self.image = self.make_image(self.topic)

    def make_image(self, *topics: str, fails: str = "") -> str:
        """The name of an image whose workers read these topics together. `fails`: see the stand-in worker."""
        environment = {
            **of_this_machine(),
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "STAND_IN_TOPIC": ",".join(topics),
            "STAND_IN_CLINGS": str(self.clings),
            "STAND_IN_FAILS": fails,
            "STAND_IN_DEAD_LETTERS": "yes",
        }
        name = f"stand-in-{self.namespace}-{len(topics)}{fails}"
        self.nodes.add_image(name, Image(environment=environment))
        return name

    def launch(self) -> dict[str, Any]:
        """With what worker-0 was launched last."""
        said: dict[str, Any] = json.loads((self.directory / f"{self.name}-worker-0.json").read_text())
        return said

    @property
    def clings(self) -> Path:
        """While it is there, workers let go of nothing."""
        return self.directory / "clings"

    def apply(self, replicas: int = 1, *, image: str | None = None, **spec: Any) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": {
                "applicationId": f"{self.namespace}-flights",
                "kafka": {"bootstrapServers": self.bootstrap_servers},
                "pipeline": {"module": "flights:topology", "image": image or self.image},
                "workers": {"replicas": replicas, "stateVolume": {"size": "1Gi"}},
                **spec,
            },
        }
        self.kubernetes.client.create(paths.apps(self.namespace), body)

    def patch(self, **spec: Any) -> None:
        self.kubernetes.client.patch(self.path, {"spec": spec})

    def scale(self, replicas: int) -> None:
        """What `kubectl scale` does."""
        self.kubernetes.client.patch(f"{self.path}/scale", {"spec": {"replicas": replicas}})

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message, if they speak of the present generation."""
        app = self.kubernetes.client.get(self.path)
        for condition in app.get("status", {}).get("conditions", ()):
            if condition["type"] == kind and condition["observedGeneration"] == app["metadata"]["generation"]:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def wait_ready(self, workers: int) -> None:
        def is_ready() -> bool:
            status = self.kubernetes.client.get(self.path).get("status", {})
            seen = (status.get("replicas"), status.get("readyReplicas"))
            return self.condition("Ready")[0] == "True" and seen == (workers, workers)

        self.wait_for(f"it is ready with {workers} workers", is_ready)

    def wait_condition(self, kind: str, status: str, reason: str) -> str:
        """The message, once it is so."""
        self.wait_for(f"{kind} is {status} ({reason})", lambda: self.condition(kind)[:2] == (status, reason))
        return self.condition(kind)[2]

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        self.kubernetes.client.wait_for(what, holds, SECONDS)

    def pods(self) -> dict[str, str]:
        """Uid by name."""
        items = self.kubernetes.client.list(paths.pods(self.namespace))
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}

    def node_of(self, pod: str) -> str:
        return str(self.kubernetes.client.get(f"{paths.pods(self.namespace)}/{pod}")["spec"].get("nodeName", ""))

    def cordon(self, node: str, *, on: bool = True) -> None:
        """What `kubectl cordon` and `kubectl uncordon` do."""
        self.kubernetes.client.patch(paths.node(node), {"spec": {"unschedulable": on or None}})

    def evict(self, pod: str) -> None:
        """What `kubectl drain` does to each pod. Raises ApiError 429 while that would do harm."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.namespace}}
        self.kubernetes.client.create(f"{paths.pods(self.namespace)}/{pod}/eviction", body)

    def written_statuses(self) -> list[dict[str, Any]]:
        """What was written to the status, in its order, as far as the API server took it."""
        written = {"resource": PLURAL, "subresource": "status", "namespace": self.namespace, "name": self.name}
        return [
            event["requestObject"]["status"]
            for event in self.kubernetes.audit_events()
            if (event.get("objectRef") or {}).items() >= written.items() and event["responseStatus"]["code"] == 200
        ]

    def messages(self, reason: str) -> list[str]:
        """Of the events of this reason."""
        items = self.kubernetes.client.list(paths.events(self.namespace))
        return [item["message"] for item in items if item["reason"] == reason]

    def parts(self) -> list[str]:
        """What the workers share, by its kind."""
        client = self.kubernetes.client
        return [part.value for part in Part if client.exists(paths.part(part, self.name, self.namespace))]

    def claims(self) -> dict[str, str]:
        items = self.kubernetes.client.list(paths.claims(self.namespace))
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}

    def events(self) -> list[str]:
        items = self.kubernetes.client.list(paths.events(self.namespace))
        return [item["reason"] for item in items if item["involvedObject"]["kind"] == KIND]

    @property
    def path(self) -> str:
        return paths.app((self.namespace, self.name))


def topics_of(admin: Any) -> set[str]:
    return set(admin.list_topics(timeout=30).topics)


def groups_of(admin: Any) -> set[str]:
    return {group.group_id for group in admin.list_consumer_groups(request_timeout=30).result().valid}


@pytest.fixture(scope="module")
def operator(kubernetes: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with ProcessGuard() as guard:
        running = Operator(kubernetes, guard, kubernetes.namespace("sluice-system"), log, free_ports(2))
        running.start()
        yield running


@pytest.fixture
def guarded_kafka() -> Iterator[KafkaCluster]:
    """A broker to which one has to log in."""
    users = f'username="broker" password="{PLANTED}" user_broker="{PLANTED}" user_flights="{PLANTED}"'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login,
    }
    with KafkaCluster(properties=properties) as cluster:
        yield cluster


@pytest.fixture
def flights(
    operator: Operator, kafka: Any, nodes: NodeAgent, namespace: str, topics: Any, tmp_path: Path
) -> Iterator[Flights]:
    app = Flights(
        operator.kubernetes, nodes, namespace, kafka.bootstrap_servers, topics.create("input", PARTITIONS), tmp_path,
        operator.log,
    )  # fmt: skip
    yield app
    app.clings.unlink(missing_ok=True)
    if operator.kubernetes.client.exists(app.path):
        operator.kubernetes.client.delete(app.path)
        app.wait_for("it is gone", lambda: not operator.kubernetes.client.exists(app.path))


def test_an_application_becomes_ready_and_its_parts_are_its_own(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)

    assert flights.pods().keys() == {"flights-worker-0", "flights-worker-1"}
    assert flights.claims().keys() == {"state-flights-worker-0", "state-flights-worker-1"}
    app = flights.kubernetes.client.get(flights.path)
    assert app["metadata"]["finalizers"] == [FINALIZER]
    for item in flights.kubernetes.client.list(paths.pods(flights.namespace)):
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (KIND, app["metadata"]["uid"], True)
    assert {"WorkerCreated", "AllTasksRunning"} <= set(flights.events())
    assert flights.parts() == ["Service", "PodDisruptionBudget"]


def test_a_deleted_pod_comes_back_with_its_name_and_its_volume(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, claims = flights.pods(), flights.claims()

    flights.kubernetes.client.delete(f"{paths.pods(flights.namespace)}/flights-worker-1")
    flights.wait_for("there is another pod", lambda: flights.pods().get("flights-worker-1") not in
                     (None, pods["flights-worker-1"]))  # fmt: skip
    flights.wait_ready(2)

    assert flights.pods()["flights-worker-0"] == pods["flights-worker-0"]
    assert flights.claims() == claims


def test_a_worker_is_drained_before_its_pod_is_deleted_and_its_volume_is_kept(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    claims = flights.claims()
    flights.clings.touch()

    flights.scale(1)
    message = flights.wait_condition("Draining", "True", "HandingOver")
    assert "worker-1" in message
    assert flights.pods().keys() == {"flights-worker-0", "flights-worker-1"}

    flights.clings.unlink()
    flights.wait_ready(1)
    assert flights.pods().keys() == {"flights-worker-0"}
    assert flights.claims() == claims
    assert {"DrainStarted", "WorkerDeleted"} <= set(flights.events())


def test_a_status_is_written_only_when_something_has_changed(flights: Flights):
    flights.apply(replicas=1)
    flights.wait_ready(1)
    flights.scale(2)
    flights.wait_ready(2)

    known: dict[str, Any] = {}
    for written in flights.written_statuses():
        assert any(known.get(field) != value for field, value in written.items()), written
        known |= written
    assert known["readyReplicas"] == 2


def test_a_drain_is_taken_back_half_way(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods = flights.pods()
    flights.clings.touch()
    flights.scale(1)
    flights.wait_condition("Draining", "True", "HandingOver")

    flights.scale(2)
    flights.wait_condition("Draining", "False", "NobodyLeaves")
    flights.clings.unlink()
    flights.wait_ready(2)

    assert flights.pods() == pods
    assert "DrainCancelled" in flights.events()


def test_an_operator_that_dies_during_a_scale_in_finishes_it_when_it_is_back(flights: Flights, operator: Operator):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods = flights.pods()
    flights.clings.touch()
    flights.scale(1)
    flights.wait_condition("Draining", "True", "HandingOver")

    operator.kill()
    flights.clings.unlink()
    operator.start()
    flights.wait_ready(1)

    assert flights.pods() == {"flights-worker-0": pods["flights-worker-0"]}


def test_a_paused_application_is_looked_at_and_left_alone(flights: Flights):
    flights.apply(replicas=1)
    flights.wait_ready(1)

    flights.patch(paused=True, workers={"replicas": 3})
    flights.wait_condition("Paused", "True", "SpecPaused")
    assert flights.pods().keys() == {"flights-worker-0"}

    flights.patch(paused=False)
    flights.wait_ready(3)


def test_a_changed_pod_spec_replaces_workers_one_at_a_time(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, claims = flights.pods(), flights.claims()

    flights.patch(workers={"template": {"metadata": {"labels": {"release": "2"}}}})
    flights.wait_for("every pod is another one", lambda: flights.pods().keys() == pods.keys()
                     and not set(flights.pods().values()) & set(pods.values()))  # fmt: skip
    flights.wait_ready(2)

    assert flights.claims() == claims
    assert flights.events().count("DrainStarted") == 2


def test_a_worker_is_restarted_in_its_place_and_its_pause_is_told(flights: Flights):
    flights.apply(replicas=2, rollout="Restart")
    flights.wait_ready(2)
    pods = flights.pods()

    flights.patch(workers={"template": {"metadata": {"labels": {"release": "2"}}}})
    flights.wait_for("every pod is another one", lambda: flights.pods().keys() == pods.keys()
                     and not set(flights.pods().values()) & set(pods.values()))  # fmt: skip
    flights.wait_for("both are back", lambda: len(flights.messages("WorkerRestarted")) == 2)
    flights.wait_ready(2)

    assert "DrainStarted" not in flights.events()


def test_no_worker_is_evicted_and_a_cordoned_node_is_left_by_a_drain(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    node = flights.node_of("flights-worker-1")
    pods, claims = flights.pods(), flights.claims()
    flights.clings.touch()

    flights.cordon(node)
    try:
        flights.wait_condition("Draining", "True", "HandingOver")
        with pytest.raises(ApiError) as refused:
            flights.evict("flights-worker-1")
        assert refused.value.status == 429
        assert flights.pods() == pods

        flights.clings.unlink()
        flights.wait_for("the pod is another one", lambda: flights.pods().get("flights-worker-1") not in
                         (None, pods["flights-worker-1"]))  # fmt: skip
        flights.wait_ready(2)
        assert flights.node_of("flights-worker-1") not in ("", node)
        assert flights.claims() == claims
    finally:
        flights.cordon(node, on=False)


def test_an_uncordoned_node_keeps_its_worker(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods = flights.pods()
    flights.clings.touch()
    node = flights.node_of("flights-worker-1")

    flights.cordon(node)
    flights.wait_condition("Draining", "True", "HandingOver")
    flights.cordon(node, on=False)
    flights.wait_condition("Draining", "False", "NobodyLeaves")
    flights.clings.unlink()
    flights.wait_ready(2)

    assert flights.pods() == pods


def test_a_worker_whose_volume_stays_behind_is_stood_in_for_until_its_node_is_back(flights: Flights):
    flights.apply(workers={"replicas": 1, "stateVolume": {"size": "1Gi", "storageClassName": "local"}})
    flights.wait_ready(1)
    node, claims = flights.node_of("flights-worker-0"), flights.claims()

    flights.cordon(node)
    try:
        flights.wait_for("there is another worker", lambda: len(flights.pods()) == 2)
        flights.wait_for("its pod waits for its node", lambda: not flights.node_of("flights-worker-0"))
        flights.wait_condition("Ready", "True", "AllTasksRunning")
    finally:
        flights.cordon(node, on=False)

    flights.wait_for("it is back alone", lambda: flights.pods().keys() == {"flights-worker-0"})
    flights.wait_ready(1)
    assert flights.claims().items() >= claims.items()
    assert flights.node_of("flights-worker-0") == node


def test_a_worker_on_a_lost_node_is_replaced_elsewhere_and_its_process_fenced(flights: Flights, nodes: NodeAgent):
    flights.apply(replicas=1)
    flights.wait_ready(1)
    node, uid = flights.node_of("flights-worker-0"), flights.pods()["flights-worker-0"]
    nodes.pause(flights.namespace, "flights-worker-0")

    nodes.partition(node)
    try:
        flights.wait_for("its process is fenced", lambda: f"{flights.namespace}-flights: worker-0 is fenced"
                         in flights.operator_log.read_text())  # fmt: skip
        flights.wait_for("there is another worker", lambda: "flights-worker-1" in flights.pods())
        flights.wait_condition("Ready", "True", "AllTasksRunning")
        assert flights.node_of("flights-worker-1") not in ("", node)
        assert flights.pods()["flights-worker-0"] == uid
    finally:
        nodes.resume(flights.namespace, "flights-worker-0")
        nodes.heal(node)

    flights.wait_for("the stand-in has left", lambda: flights.pods() == {"flights-worker-0": uid})
    flights.wait_ready(1)


def test_the_end_of_an_application_takes_its_pods_and_volumes(flights: Flights):
    flights.apply(replicas=2)
    flights.wait_ready(2)

    flights.kubernetes.client.delete(flights.path)
    flights.wait_for("it is gone", lambda: not flights.kubernetes.client.exists(flights.path))
    assert flights.pods() == {}
    assert flights.parts() == []
    flights.wait_for("its volumes are gone", lambda: flights.claims() == {})


def test_without_a_garbage_collector_the_finalizer_does_it(flights: Flights):
    flights.apply(replicas=1)
    flights.wait_ready(1)

    flights.kubernetes.freeze("kube-controller-manager")
    try:
        flights.kubernetes.client.delete(flights.path)
        flights.wait_for("it is gone", lambda: not flights.kubernetes.client.exists(flights.path))
        assert flights.pods() == {}
        assert flights.parts() == []
        flights.wait_for("its volumes are gone", lambda: flights.claims() == {})
    finally:
        flights.kubernetes.thaw("kube-controller-manager")


def test_topics_and_group_go_with_the_application_where_asked(flights: Flights, admin: Any):
    flights.apply(replicas=1, deletionPolicy="Delete")
    flights.wait_ready(1)
    group = f"{flights.namespace}-flights"
    dead_letters = dead_letter_topic(group)
    assert dead_letters in topics_of(admin)
    consumer = Consumer({"bootstrap.servers": flights.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(flights.topic, 0, 0)], asynchronous=False)
    consumer.close()
    assert group in groups_of(admin)

    flights.kubernetes.client.delete(flights.path)
    flights.wait_for("it is gone", lambda: not flights.kubernetes.client.exists(flights.path))

    flights.wait_for("its topic is gone", lambda: dead_letters not in topics_of(admin))
    assert flights.topic in topics_of(admin)
    assert group not in groups_of(admin)


def test_an_end_that_can_not_reach_kafka_says_so(flights: Flights):
    flights.apply(replicas=0, deletionPolicy="Delete", kafka={"bootstrapServers": "127.0.0.1:1"})
    flights.wait_condition("KafkaReachable", "False", "KafkaUnreachable")

    flights.kubernetes.client.delete(flights.path)
    message = flights.wait_condition("Ready", "False", "TopicsNotDeleted")

    assert "127.0.0.1:1" in message
    flights.patch(deletionPolicy="Retain")  # or wait for 5 minutes
    flights.wait_for("it is gone", lambda: not flights.kubernetes.client.exists(flights.path))


def test_a_deleted_namespace_goes_with_its_applications(flights: Flights):
    doomed = replace(flights, namespace=flights.kubernetes.namespace(f"{flights.namespace}-doomed"))
    doomed.apply(replicas=2, deletionPolicy="Delete")
    doomed.wait_ready(2)
    path = f"/api/v1/namespaces/{doomed.namespace}"

    doomed.kubernetes.client.delete(path)

    doomed.wait_for("the namespace is gone", lambda: not doomed.kubernetes.client.exists(path))


def test_volumes_may_outlive_the_application(flights: Flights):
    flights.apply(workers={"replicas": 1, "stateVolume": {"size": "1Gi", "retentionPolicy": {"whenDeleted": "Retain"}}})
    flights.wait_ready(1)
    claims = flights.claims()

    flights.kubernetes.client.delete(flights.path)
    flights.wait_for("it is gone", lambda: not flights.kubernetes.client.exists(flights.path))
    assert flights.pods() == {}
    assert flights.claims() == claims


def test_a_second_application_with_the_same_id_is_refused_by_the_name_of_the_first(flights: Flights):
    flights.apply(replicas=1)
    flights.wait_ready(1)
    twin = Flights(flights.kubernetes, flights.nodes, flights.namespace, flights.bootstrap_servers, flights.topic,
                   flights.directory, flights.operator_log, name="twin")  # fmt: skip

    twin.apply(replicas=1)
    message = twin.wait_condition("Ready", "False", "ApplicationIdTaken")

    assert f"{flights.namespace}/flights" in message
    assert flights.pods().keys() == {"flights-worker-0"}
    assert flights.condition("Ready")[0] == "True"


def test_an_image_that_can_not_be_pulled_is_named_and_mended_by_another(flights: Flights):
    flights.apply(replicas=1, image="nobody/knows:this")
    assert "nobody/knows:this" in flights.wait_condition("Ready", "False", "ImageNotPulled")

    flights.patch(pipeline={"image": flights.image})
    flights.wait_ready(1)


def test_a_secret_that_is_not_there_is_named_and_a_changed_one_replaces_the_workers(flights: Flights):
    secrets = f"/api/v1/namespaces/{flights.namespace}/secrets"
    reference = {"name": "kafka", "settings": {"client.id": "id"}}
    flights.apply(replicas=1, kafka={"bootstrapServers": flights.bootstrap_servers, "secretRef": reference})
    flights.wait_condition("Ready", "False", "SecretNotFound")

    flights.kubernetes.client.create(secrets, {"metadata": {"name": "kafka"}, "stringData": {"other": "x"}})
    assert "'id'" in flights.wait_condition("Ready", "False", "SecretKeyMissing")

    flights.kubernetes.client.patch(f"{secrets}/kafka", {"stringData": {"id": PLANTED}})
    flights.wait_ready(1)
    pods = flights.pods()
    assert flights.launch()["kafkaConfig"]["client.id"] == PLANTED
    assert PLANTED not in json.dumps(flights.kubernetes.client.get(f"{paths.pods(flights.namespace)}/flights-worker-0"))

    flights.kubernetes.client.patch(f"{secrets}/kafka", {"stringData": {"id": "another"}})
    flights.wait_for("a worker has the new one", lambda: flights.launch()["kafkaConfig"]["client.id"] == "another")
    assert flights.pods()["flights-worker-0"] != pods["flights-worker-0"]
    flights.wait_ready(1)
    assert PLANTED not in flights.operator_log.read_text()
    assert PLANTED not in json.dumps(flights.kubernetes.client.get(flights.path))


def test_refused_credentials_are_named_and_mended_in_the_secret(flights: Flights, guarded_kafka: KafkaCluster):
    secrets = f"/api/v1/namespaces/{flights.namespace}/secrets"
    flights.kubernetes.client.create(secrets, {"metadata": {"name": "kafka"}, "stringData": {"password": "wrong"}})
    reference = {"name": "kafka", "settings": {"sasl.password": "password"}}
    kafka = {"bootstrapServers": guarded_kafka.bootstrap_servers, "config": LOGIN, "secretRef": reference}

    flights.apply(replicas=1, kafka=kafka)
    message = flights.wait_condition("KafkaReachable", "False", "KafkaRefused")
    assert "wrong" not in message

    flights.kubernetes.client.patch(f"{secrets}/kafka", {"stringData": {"password": PLANTED}})
    flights.wait_condition("KafkaReachable", "True", "KafkaAnswers")


def test_a_worker_tells_its_zone_and_its_tags(flights: Flights, nodes: NodeAgent):
    flights.apply(replicas=1, assignment={"rackAware": {"strategy": "MinTraffic", "tags": ["zone", "none"]}})
    flights.wait_ready(1)

    zone = nodes.nodes[flights.node_of("flights-worker-0")]
    assert (flights.launch()["rack"], flights.launch()["tags"]) == (zone, {"zone": zone})


@pytest.mark.parametrize(
    ("fails", "reason", "words"),
    [
        ("raises", "WorkerCrashing", "it can not be divided"),
        ("version", "WorkerNotAdmitted", "unknown field 'warp'"),
    ],
)
def test_a_worker_that_ends_again_and_again_is_quoted_and_mended_by_a_changed_spec(
    flights: Flights, fails: str, reason: str, words: str
):
    flights.apply(replicas=1, image=flights.make_image(flights.topic, fails=fails))
    assert words in flights.wait_condition("Ready", "False", reason)

    flights.patch(pipeline={"image": flights.image})
    flights.wait_ready(1)


def test_a_template_that_sets_what_is_not_its_own_is_named_and_mended(flights: Flights):
    template = {"spec": {"restartPolicy": "Never"}}
    flights.apply(workers={"replicas": 1, "stateVolume": {"size": "1Gi"}, "template": template})
    assert "restartPolicy" in flights.wait_condition("Ready", "False", "TemplateNotAllowed")

    flights.patch(workers={"template": {"spec": {"restartPolicy": None}}})
    flights.wait_ready(1)


def test_a_template_that_the_api_refuses_is_named_and_mended(flights: Flights):
    template = {"spec": {"priorityClassName": "nobody-knows-this"}}
    flights.apply(workers={"replicas": 1, "stateVolume": {"size": "1Gi"}, "template": template})
    assert "nobody-knows-this" in flights.wait_condition("Ready", "False", "PodsRefused")

    flights.patch(workers={"template": {"spec": {"priorityClassName": None}}})
    flights.wait_ready(1)


def test_topics_that_do_not_fit_together_are_named(flights: Flights, topics: Any):
    other = topics.create("other", PARTITIONS + 1)
    flights.apply(replicas=1, image=flights.make_image(flights.topic, other))

    message = flights.wait_condition("TopologyValid", "False", "IncorrectlyPartitionedTopics")
    assert f"{flights.topic} has {PARTITIONS}" in message


def test_a_missing_source_topic_is_named(flights: Flights):
    flights.topic = "nowhere"
    flights.__post_init__()
    flights.apply(replicas=1)

    message = flights.wait_condition("TopologyValid", "False", "MissingSourceTopics")
    assert "nowhere" in message


def test_an_unreachable_kafka_harms_nobody_else(flights: Flights, topics: Any):
    healthy = Flights(flights.kubernetes, flights.nodes, flights.namespace, flights.bootstrap_servers, flights.topic,
                      flights.directory, flights.operator_log, name="healthy")  # fmt: skip
    flights.bootstrap_servers = "127.0.0.1:1"
    flights.apply(replicas=1)
    healthy.apply(replicas=1)

    healthy.wait_ready(1)
    assert "127.0.0.1:1" in flights.wait_condition("KafkaReachable", "False", "KafkaUnreachable")
