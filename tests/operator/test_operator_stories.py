"""The operator process on a real API server and a real Kafka, with workers that have no data plane.

What people do with an application, and what they then see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from broker_certificate import a_certificate
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from operator_process import Operator
from streams_app_flights import PARTITIONS, Flights

from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent import NodeAgent
from sluice_devkit.process_guard import ProcessGuard
from sluice_operator.kube import paths
from sluice_operator.observed import FINALIZER
from sluice_operator.spec.model import KIND
from sluice_protocol.ids import dead_letter_topic

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes]

PLANTED = "a-secret-that-nobody-should-see"
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "flights"}


def logged_in(cluster: KafkaCluster) -> dict[str, Any]:
    """spec.kafka of an application there; password and CA are in the Secret kafka."""
    reference = {"name": "kafka", "settings": {"sasl.password": "password", "ssl.ca.pem": "ca.crt"}}
    return {"bootstrapServers": cluster.bootstrap_servers, "config": LOGIN, "secretRef": reference}


def topics_of(admin: Any) -> set[str]:
    return set(admin.list_topics(timeout=30).topics)


def groups_of(admin: Any) -> set[str]:
    return {group.group_id for group in admin.list_consumer_groups(request_timeout=30).result().valid}


@pytest.fixture(scope="module")
def operator(kubernetes: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with ProcessGuard() as guard:
        running = Operator(kubernetes, guard, kubernetes.namespace("sluice-system"), log)
        running.start()
        yield running


@pytest.fixture(scope="module")
def guarded_kafka() -> Iterator[KafkaCluster]:
    """A broker to which one has to log in, by TLS."""
    with KafkaCluster(users={LOGIN["sasl.username"]: PLANTED}, certificate=a_certificate()) as cluster:
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
    status = flights.kubernetes.client.get(flights.path)["status"]
    assert status["footprint"]["slots"] == 1  # or each restart of the operator would wait for worker-1


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
    flights.wait_for("every pod is another one", lambda: flights.are_others(pods))
    flights.wait_ready(2)

    assert flights.claims() == claims
    assert flights.events().count("DrainStarted") == 2


def test_a_worker_is_restarted_in_its_place_and_its_pause_is_told(flights: Flights):
    flights.apply(replicas=2, rollout="Restart")
    flights.wait_ready(2)
    pods = flights.pods()

    flights.patch(workers={"template": {"metadata": {"labels": {"release": "2"}}}})
    flights.wait_for("every pod is another one", lambda: flights.are_others(pods))
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
    flights.apply(replicas=0, deletionPolicy="Delete")
    client = flights.kubernetes.client
    flights.wait_for("it is kept", lambda: FINALIZER in client.get(flights.path)["metadata"].get("finalizers", ()))
    flights.patch(kafka={"bootstrapServers": "127.0.0.1:1"})
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
    flights.apply(workers={"replicas": 1, "stateVolume": {"size": "1Gi", "retentionPolicy": {"whenDeleted": "Delete"}}})
    flights.wait_ready(1)
    claims = flights.claims()
    flights.patch(workers={"stateVolume": {"retentionPolicy": {"whenDeleted": "Retain"}}})

    flights.kubernetes.client.delete(flights.path)
    flights.wait_for("it is gone", lambda: not flights.kubernetes.client.exists(flights.path))
    assert flights.pods() == {}
    assert flights.claims() == claims


def test_a_second_application_with_the_same_id_is_refused_by_the_name_of_the_first(flights: Flights):
    flights.apply(replicas=1, rollout="Restart")
    flights.wait_ready(1)
    other_name = flights.bootstrap_servers.replace("127.0.0.1", "localhost")
    assert other_name != flights.bootstrap_servers
    twins = [
        replace(flights, name=name, bootstrap_servers=servers)
        for name, servers in (("twin", flights.bootstrap_servers), ("other-name", other_name))
    ]

    for twin in twins:
        twin.apply(replicas=1)
        message = twin.wait_condition("Ready", "False", "ApplicationIdTaken")
        assert f"{flights.namespace}/flights" in message
    assert flights.pods().keys() == {"flights-worker-0"}
    assert flights.condition("Ready")[0] == "True"

    flights.patch(kafka={"bootstrapServers": other_name})
    flights.wait_for("its worker has the other name", lambda: flights.launch()["bootstrapServers"] == other_name)
    flights.wait_ready(1)


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


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"password": "wrong"}, "refuses the credentials"), ({"ca.crt": a_certificate().ca}, "ssl.ca.pem")],
    ids=["password", "ca"],
)
def test_a_login_and_a_ca_that_do_not_fit_are_named_and_mended_in_the_secret(
    flights: Flights, operator: Operator, guarded_kafka: KafkaCluster, wrong: dict[str, str], words: str
):
    login = guarded_kafka.login(LOGIN["sasl.username"])
    admin = AdminClient({"bootstrap.servers": guarded_kafka.bootstrap_servers, "log_level": 0, **login})
    admin.create_topics([NewTopic(flights.topic, PARTITIONS)])[flights.topic].result(30)
    secrets = f"/api/v1/namespaces/{flights.namespace}/secrets"
    right = {"password": login["sasl.password"], "ca.crt": login["ssl.ca.pem"]}
    flights.kubernetes.client.create(secrets, {"metadata": {"name": "kafka"}, "stringData": {**right, **wrong}})

    flights.apply(replicas=1, kafka=logged_in(guarded_kafka))
    message = flights.wait_condition("KafkaReachable", "False", "KafkaRefused")
    assert words in message
    assert not any(value in message for value in wrong.values())
    assert operator.probe("/healthz")[0] == 200

    flights.kubernetes.client.patch(f"{secrets}/kafka", {"stringData": right})
    flights.wait_condition("KafkaReachable", "True", "KafkaAnswers")
    flights.wait_ready(1)
    assert flights.launch()["kafkaConfig"].items() >= login.items()


def test_another_kafka_is_refused_before_a_pod_is_touched(flights: Flights, admin: Any, guarded_kafka: KafkaCluster):
    login = guarded_kafka.login(LOGIN["sasl.username"])
    values = {"password": login["sasl.password"], "ca.crt": login["ssl.ca.pem"]}
    secrets = f"/api/v1/namespaces/{flights.namespace}/secrets"
    flights.kubernetes.client.create(secrets, {"metadata": {"name": "kafka"}, "stringData": values})
    flights.apply(replicas=1, rollout="Restart")
    flights.wait_ready(1)
    pods = flights.pods()

    flights.patch(kafka=logged_in(guarded_kafka))
    message = flights.wait_condition("KafkaReachable", "False", "KafkaClusterChanged")
    assert flights.condition("Ready")[:2] == ("False", "KafkaClusterChanged")
    assert admin.list_topics(timeout=30).cluster_id in message

    flights.patch(kafka={"bootstrapServers": flights.bootstrap_servers, "config": None, "secretRef": None})
    flights.wait_ready(1)
    assert flights.pods() == pods


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
