"""The chart's Deployment runs on real nodes: the operator under its own service account keeps an application.

Its workers have no data plane (tests/operator/stand_in_worker.py); the API, the coordinator and Kafka are real.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from chart_release import CHART, RELEASE

from sluice_cli.commands.dev import OPERATOR_COMMAND, OPERATOR_IMAGE
from sluice_cli.main import main
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.client import KubernetesClient
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.helm import Helm
from sluice_devkit.kubernetes.https_service import https_service
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_operator.kube import paths
from sluice_operator.spec.model import API_VERSION, KIND

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes]

STAND_IN = Path(__file__).parents[1] / "operator" / "stand_in_worker.py"
ENVIRONMENT = {**of_this_machine(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
SECONDS = 90.0


@dataclass
class Installed:
    """A release in a namespace of its own, and an application in another one."""

    kubernetes: KubernetesCluster
    nodes: NodeAgent
    own: str
    shop: str
    replicas: int
    foreseen: list[str]
    """What it asks for and may not: it does without."""

    @property
    def client(self) -> KubernetesClient:
        return self.kubernetes.client

    @property
    def app(self) -> str:
        return paths.app((self.shop, "flights"))

    def apply(self, kafka: KafkaCluster, topic: str, directory: Path) -> None:
        program = directory / "sluice"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        program.chmod(0o755)
        environment = {
            **ENVIRONMENT,
            "PATH": f"{directory}:{os.environ['PATH']}",
            "STAND_IN_TOPIC": topic,
            "STAND_IN_CLINGS": str(directory / "clings"),
        }
        self.nodes.add_image(f"worker-{self.shop}", Image(environment=environment))
        spec = {
            "applicationId": f"{self.shop}-flights",
            "kafka": {"bootstrapServers": kafka.bootstrap_servers},
            "pipeline": {"module": "flights:topology", "image": f"worker-{self.shop}"},
            "workers": {"replicas": 1, "stateVolume": {"size": "1Gi"}},
        }
        body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flights"}, "spec": spec}
        self.client.create(paths.apps(self.shop), body)

    def wait_ready(self, workers: int) -> None:
        def is_ready() -> bool:
            status = self.client.get(self.app).get("status", {})
            ready = [each["status"] for each in status.get("conditions", ()) if each["type"] == "Ready"]
            return ready == ["True"] and (status["replicas"], status["readyReplicas"]) == (workers, workers)

        self.client.wait_for(f"flights is ready with {workers} workers", is_ready, SECONDS)

    def available(self) -> int:
        deployment = self.client.get(f"/apis/apps/v1/namespaces/{self.own}/deployments/{RELEASE}")
        return int(deployment["status"].get("availableReplicas", 0))

    def coordinator(self) -> tuple[str, str]:
        """Where it is reached, and the CA by which to verify it."""
        return https_service(self.client, self.own, f"{RELEASE}-coordinator", f"{RELEASE}-coordinator-tls")

    def operators(self) -> list[str]:
        """Their addresses."""
        self.client.wait_for("every replica is available", lambda: self.available() == self.replicas, SECONDS)
        return [pod["status"]["podIP"] for pod in self.client.list(paths.pods(self.own))]

    def kubeconfig_of_a(self, role: str, directory: Path) -> Path:
        """That of somebody with this role of the chart's in the application's namespace."""
        accounts = f"/api/v1/namespaces/{self.shop}/serviceaccounts"
        bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.shop}/rolebindings"
        self.client.create(accounts, {"metadata": {"name": role}})
        self.client.create(bindings, {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": f"{self.own}-{RELEASE}-{role}"},
            "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": self.shop}],
        })  # fmt: skip
        token = self.kubernetes.service_account_token(self.shop, role)
        return self.kubernetes.write_kubeconfig(directory / role, token, self.shop)

    def refusals(self) -> list[str]:
        """What the API server has forbidden the operator."""
        account = f"system:serviceaccount:{self.own}:{RELEASE}"
        return [
            f"{event['verb']} {event['objectRef']['resource']}"
            for event in self.kubernetes.audit_events()
            if event["user"].get("username") == account and event.get("responseStatus", {}).get("code") == 403
        ]


@pytest.fixture(params=["cluster", "namespaces"])
def installed(
    request: pytest.FixtureRequest, helm: Helm, kubernetes: KubernetesCluster, nodes: NodeAgent, namespace: str
) -> Iterator[Installed]:
    own = kubernetes.namespace(f"{namespace}-system")
    nodes.add_image(OPERATOR_IMAGE, Image(OPERATOR_COMMAND, environment=ENVIRONMENT))
    values: dict[str, Any] = {"watchNamespaces": [namespace], "replicas": 2} if request.param == "namespaces" else {}
    helm.install(kubernetes.kubeconfig, CHART, RELEASE, own, crds={"install": False}, **values)
    # Limited to namespaces it may not read nodes, and does without; only the leader tries.
    yield Installed(kubernetes, nodes, own, namespace, values.get("replicas", 1), ["list nodes"] if values else [])
    if kubernetes.client.exists(paths.app((namespace, "flights"))):
        kubernetes.client.delete(paths.app((namespace, "flights")))
        gone = paths.app((namespace, "flights"))
        kubernetes.client.wait_for("flights is gone", lambda: not kubernetes.client.exists(gone))
    helm.uninstall(kubernetes.kubeconfig, RELEASE, own)
    kubernetes.client.delete(f"/api/v1/namespaces/{own}")


def test_the_installed_operator_keeps_an_application_and_is_refused_nothing(
    installed: Installed, kafka: KafkaCluster, topics: Any, tmp_path: Path
):
    def is_available() -> bool:
        return installed.available() == installed.replicas

    installed.client.wait_for("every replica is available", is_available, SECONDS)

    installed.apply(kafka, topics.create("input", 4), tmp_path)
    installed.wait_ready(1)
    installed.client.patch(f"{installed.app}/scale", {"spec": {"replicas": 2}})
    installed.wait_ready(2)
    installed.client.patch(f"{installed.app}/scale", {"spec": {"replicas": 1}})
    installed.wait_ready(1)
    installed.client.delete(installed.app)
    installed.client.wait_for("it is gone", lambda: not installed.client.exists(installed.app), SECONDS)

    assert installed.client.list(paths.pods(installed.shop)) == []
    assert installed.refusals() == installed.foreseen


def test_people_see_the_tasks_of_what_they_may_see(
    installed: Installed, kafka: KafkaCluster, topics: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    installed.apply(kafka, topics.create("input", 4), tmp_path)
    installed.wait_ready(1)
    url, ca = installed.coordinator()
    (tmp_path / "ca.crt").write_text(ca)
    coordinator = [f"--coordinator={url}", f"--coordinator-ca={tmp_path / 'ca.crt'}"]
    viewer = installed.kubeconfig_of_a("view", tmp_path)

    assert main(["status", "flights", f"--kubeconfig={viewer}", "--output=json", *coordinator]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {task["state"] for task in shown["group"]["tasks"]} == {"running"}
    assert shown["app"]["status"]["readyReplicas"] == 1

    for pod in installed.operators():  # as through a forwarded port; one that does not lead sends us on
        direct = [f"--coordinator=https://{pod}:8080", f"--coordinator-name={urlsplit(url).hostname}", coordinator[1]]
        assert main(["status", "flights", f"--kubeconfig={viewer}", "--output=json", *direct]) == 0
        assert json.loads(capsys.readouterr().out)["group"]["epoch"] == shown["group"]["epoch"]

    assert main(["resume", "flights", f"--kubeconfig={viewer}", *coordinator]) == 1
    assert "may not patch streamsapps flights" in capsys.readouterr().err
    assert main(["scale", "2", "flights", f"--kubeconfig={viewer}"]) == 2
    assert "you may not do that" in capsys.readouterr().err
