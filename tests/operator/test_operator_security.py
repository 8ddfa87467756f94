"""Who may speak to the coordinator, and what nobody ever sees: on a real API server, with a real operator process."""

from __future__ import annotations

import base64
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from operator_process import Operator
from streams_app_flights import PARTITIONS, Flights

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import NodeAgent
from sluice_devkit.process_guard import ProcessGuard
from sluice_operator.kube import paths
from sluice_operator.names import TOKEN_AUDIENCE
from sluice_protocol.heartbeat import PATH, HeartbeatRequest
from sluice_protocol.ids import JOIN
from sluice_protocol.route import Route
from sluice_protocol.wire import encode

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes]

PLANTED = "planted-9f8e7d6c5b4a"
HOUR = 3_600


@dataclasses.dataclass
class Coordinator:
    """The operator's coordinator, as somebody with a token sees it."""

    operator: Operator
    flights: Flights

    def heartbeat(self, token: str, worker: str, incarnation: str, app: str = "flights") -> tuple[int, str]:
        """Status and what is said of one heartbeat."""
        request = HeartbeatRequest("intruder", worker, "process", incarnation, JOIN, 1, "hash", capacity=1)
        path = PATH.format(namespace=self.flights.namespace, name=app)
        connection = Route(f"https://127.0.0.1:{self.operator.ports[0]}", self.secret("ca.crt")).connection(20)
        try:
            connection.request("POST", path, encode(request), {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def secret(self, key: str) -> str:
        path = f"{paths.secrets(self.operator.lease_namespace)}/sluice-coordinator-tls"
        data = self.flights.kubernetes.client.get(path)["data"]
        return base64.b64decode(data[key]).decode()

    def token(self, pod: str, **spec: Any) -> str:
        """Of this pod, as its kubelet asks for it."""
        namespace, uid = self.flights.namespace, self.flights.pods()[pod]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        wanted = {"audiences": [TOKEN_AUDIENCE], "boundObjectRef": bound, **spec}
        return self.flights.kubernetes.service_account_token(namespace, "default", **wanted)


@pytest.fixture
def operator(kubernetes: KubernetesCluster, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    with ProcessGuard() as guard:
        operator = Operator(kubernetes, guard, namespace, tmp_path / "operator.log", namespaces=(namespace,))
        operator.start()
        yield operator


@pytest.fixture
def coordinator(
    operator: Operator, kubernetes: KubernetesCluster, kafka: Any, nodes: NodeAgent, namespace: str, topics: Any,
    tmp_path: Path,
) -> Coordinator:  # fmt: skip
    flights = Flights(
        kubernetes, nodes, namespace, kafka.bootstrap_servers, topics.create("input", PARTITIONS), tmp_path,
        operator.log,
    )  # fmt: skip
    return Coordinator(operator, flights)


def signed_anew(token: str, key_file: Path, **claims: Any) -> str:
    """The token with other claims, signed with the cluster's own key."""
    header, payload, _ = token.split(".")
    text = json.loads(base64.urlsafe_b64decode(payload + "=="))
    body = f"{header}.{_base64(json.dumps({**text, **claims}).encode())}"
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return f"{body}.{_base64(key.sign(body.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_workers_token_speaks_for_its_own_application_and_pod_only(coordinator: Coordinator):
    flights = coordinator.flights
    other = dataclasses.replace(flights, name="other")
    flights.apply(replicas=2)
    other.apply(replicas=1, applicationId=f"{flights.namespace}-other")
    flights.wait_ready(2)
    other.wait_ready(1)
    uids, token = flights.pods(), coordinator.token("flights-worker-0")
    own = uids["flights-worker-0"]

    for worker, incarnation, app in (
        ("worker-1", uids["flights-worker-1"], "flights"),
        ("worker-1", own, "flights"),
        ("worker-0", uids["other-worker-0"], "other"),
        ("worker-0", own, "other"),
        ("worker-0", "another-incarnation", "flights"),
    ):
        status, said = coordinator.heartbeat(token, worker, incarnation, app)
        assert status == 403, (worker, app, said)
        assert "flights-worker-0, which can't speak as" in said
    assert coordinator.heartbeat(token, "worker-0", own)[0] == 200


def test_a_token_that_does_not_hold_is_refused(coordinator: Coordinator):
    flights = coordinator.flights
    flights.apply(replicas=1)
    flights.wait_ready(1)
    uid, key = flights.pods()["flights-worker-0"], flights.kubernetes.service_account_key
    token, now = coordinator.token("flights-worker-0"), int(time.time())

    def status(token: str) -> int:
        return coordinator.heartbeat(token, "worker-0", uid)[0]

    assert status(signed_anew(token, key, iat=now - 2 * HOUR, nbf=now - 2 * HOUR, exp=now - HOUR)) == 401
    assert status(coordinator.token("flights-worker-0", audiences=["another"])) == 401
    assert (
        status(flights.kubernetes.service_account_token(flights.namespace, "default", audiences=[TOKEN_AUDIENCE]))
        == 401
    )
    assert status(token[:-8] + "AAAAAAAA") == 401
    assert status("") == 401
    for_the_api = flights.kubernetes.service_account_token(flights.namespace, "default")
    assert status(for_the_api) == 403
    assert status(signed_anew(token, key, iat=now - HOUR, nbf=now - HOUR, exp=now + HOUR)) == 200


def test_no_secret_is_ever_seen(coordinator: Coordinator):
    flights, client = coordinator.flights, coordinator.flights.kubernetes.client
    secrets = paths.secrets(flights.namespace)
    client.create(secrets, {"metadata": {"name": "kafka"}, "stringData": {"password": PLANTED}})
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "flights"}
    reference = {"name": "kafka", "settings": {"sasl.password": "password"}}
    kafka = {"bootstrapServers": flights.bootstrap_servers, "secretRef": reference}
    refused = dataclasses.replace(flights, name="refused")
    flights.apply(replicas=1, kafka=kafka)
    refused.apply(replicas=1, kafka={**kafka, "config": login}, applicationId=f"{flights.namespace}-refused")
    flights.wait_ready(1)
    refused.wait_for("its login fails", lambda: refused.condition("KafkaReachable")[0] == "False")
    worker = flights.launch()
    assert worker["kafkaConfig"]["sasl.password"] == PLANTED
    token = Path(worker["tokenFile"]).read_text().strip()
    assert coordinator.heartbeat(f"{PLANTED}-token", "worker-0", "x")[0] == 401
    flights.scale(2)
    flights.wait_ready(2)

    planted = {"the password": PLANTED, "the worker's token": token, "the token's signature": token.rpartition(".")[2]}
    for name in ("ca.key", "tls.key"):
        planted[name] = coordinator.secret(name).splitlines()[1]
    for place, text in everything(coordinator).items():
        for name, secret in planted.items():
            assert secret not in text, f"{name} is in {place}"


def everything(coordinator: Coordinator) -> dict[str, str]:
    """All that somebody without access to Secrets can look at."""
    operator, flights, client = coordinator.operator, coordinator.flights, coordinator.flights.kubernetes.client
    lease = f"{paths.leases(operator.lease_namespace)}/sluice-operator"
    seen = {
        "the operator's log": operator.log.read_text(),
        "its metrics": operator.probe("/metrics")[1],
        "its readiness": operator.probe("/readyz")[1],
        "the Lease": json.dumps(client.get(lease)),
        "the events": json.dumps(client.list(paths.events(flights.namespace))),
        "the StreamsApps": json.dumps(client.list(paths.apps(flights.namespace))),
        "the pods": json.dumps(client.list(paths.pods(flights.namespace))),
        **{f"the log of {pod}": flights.nodes.log(flights.namespace, pod) for pod in flights.pods()},
    }
    assert all(seen.values())
    return seen
