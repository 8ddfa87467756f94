"""`sluice status`, `describe`, `scale` and `resume` of a StreamsApp, on a real API server."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice_cli.cluster import client as cluster_client
from sluice_cli.main import main
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator.kube import paths
from sluice_operator.spec.model import API_VERSION, KIND

pytestmark = pytest.mark.kubernetes

Sluice = Callable[..., tuple[int, str, str]]

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "AllTasksRunning",
    "message": "All 4 tasks run.",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "observedGeneration": 1,
}
STATUS = {
    "observedGeneration": 1,
    "replicas": 2,
    "readyReplicas": 2,
    "selector": "sluice.dev/app=flights",
    "epoch": "7.3",
    "subtopologies": [{"id": 0, "stateful": True, "currentParallelism": 4}],
    "warmups": [{"task": "0_1", "worker": "worker-1", "lag": 2000, "eta": "40s"}],
    "conditions": [READY],
}


@pytest.fixture
def sluice(kubernetes: KubernetesCluster, namespace: str, capsys: pytest.CaptureFixture[str]) -> Sluice:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, f"--kubeconfig={kubernetes.kubeconfig}", f"--namespace={namespace}"])
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


def create(kubernetes: KubernetesCluster, namespace: str, name: str = "flights", status: Any = None) -> None:
    spec = {
        "applicationId": f"{namespace}-{name}",
        "kafka": {"bootstrapServers": "kafka:9092"},
        "pipeline": {"module": "flights:topology", "image": "flights:1"},
        "workers": {"replicas": 2},
    }
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    kubernetes.client.create(paths.apps(namespace), body)
    if status is not None:
        kubernetes.client.patch(paths.app_status((namespace, name)), {"status": status})


def test_conditions_come_from_the_streams_app_and_it_says_so(
    kubernetes: KubernetesCluster, namespace: str, sluice: Sluice
):
    create(kubernetes, namespace, status=STATUS)

    status, out, _ = sluice("status")

    assert status == 0
    assert f"{namespace}/flights: ready at epoch 7.3, 2 of 2 workers in the group" in out
    assert f"conditions: StreamsApp {namespace}/flights of cluster {kubernetes.url} (context sluice)" in out
    assert "All 4 tasks run." in out
    assert "tasks: not asked for; say with --coordinator URL" in out
    assert "0_1 warming on worker-1: about 2000 offsets left, 40s" in out


def test_json_is_the_streams_app_as_it_is(kubernetes: KubernetesCluster, namespace: str, sluice: Sluice):
    create(kubernetes, namespace, status=STATUS)

    status, out, _ = sluice("status", "flights", "--output=json")

    fields = json.loads(out)
    assert (status, fields["group"]) == (0, None)
    assert fields["app"]["status"]["conditions"] == [READY]
    assert "--coordinator" in fields["groupMissing"]


def test_an_application_that_no_operator_has_seen_says_so(
    kubernetes: KubernetesCluster, namespace: str, sluice: Sluice
):
    create(kubernetes, namespace)

    assert "no operator has looked at it yet" in sluice("status")[1]


def test_describe_tells_what_is_wanted_and_what_has_happened(
    kubernetes: KubernetesCluster, namespace: str, sluice: Sluice
):
    create(kubernetes, namespace, status=STATUS)
    event = {
        "metadata": {"name": "flights.1"},
        "involvedObject": {"kind": KIND, "name": "flights", "namespace": namespace},
        "type": "Normal", "reason": "WorkerCreated", "message": "created worker-0",
        "lastTimestamp": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    kubernetes.client.create(paths.events(namespace), event)

    status, out, _ = sluice("describe", "flights")

    assert status == 0
    for fact in ("kafka:9092", "flights:topology in flights:1", "All 4 tasks run.", "created worker-0"):
        assert fact in out
    assert sluice("describe", "--output=id")[1].strip() == f"{namespace}-flights"


def test_scale_writes_what_kubectl_scale_writes(kubernetes: KubernetesCluster, namespace: str, sluice: Sluice):
    create(kubernetes, namespace)

    assert sluice("scale", "5", "flights") == (0, "flights: 2 → 5 workers\n", "")
    assert kubernetes.client.get(paths.app((namespace, "flights")))["spec"]["workers"]["replicas"] == 5
    assert sluice("scale", "5")[1] == "flights: 5 workers, as before\n"


def test_of_several_applications_one_must_be_named(kubernetes: KubernetesCluster, namespace: str, sluice: Sluice):
    create(kubernetes, namespace, "flights")
    create(kubernetes, namespace, "orders")

    status, _, said = sluice("status")

    assert status == 2
    assert f"there are several StreamsApps in namespace {namespace} (flights, orders); name one" in said


def test_an_application_that_is_not_there_is_named(namespace: str, sluice: Sluice):
    assert f"there is no StreamsApp flights in namespace {namespace}" in sluice("status", "flights")[2]
    assert f"there is no StreamsApp in namespace {namespace}" in sluice("scale", "1")[2]


def test_resume_needs_the_coordinator(kubernetes: KubernetesCluster, namespace: str, sluice: Sluice):
    create(kubernetes, namespace)

    status, _, said = sluice("resume", "flights")

    assert (status, "say where it is with --coordinator URL" in said) == (2, True)


def test_a_token_does_not_travel_in_the_clear(kubernetes: KubernetesCluster, namespace: str, sluice: Sluice):
    create(kubernetes, namespace)

    status, _, said = sluice("status", "--coordinator=http://coordinator.example.com:8080")

    assert (status, "your token would travel in the clear; use https://" in said) == (2, True)


def test_a_coordinator_that_does_not_answer_hides_nothing_of_the_rest(
    kubernetes: KubernetesCluster, namespace: str, sluice: Sluice
):
    create(kubernetes, namespace, status=STATUS)

    status, out, _ = sluice("status", "--coordinator=https://127.0.0.1:1")

    assert status == 0
    assert "All 4 tasks run." in out
    assert "tasks: GET https://127.0.0.1:1/v1/apps/" in out


def test_what_one_may_not_do_is_said(
    kubernetes: KubernetesCluster, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    stranger = kubernetes.service_account_token(namespace, "default")
    path = kubernetes.write_kubeconfig(tmp_path / "stranger", stranger, namespace)
    assert main(["status", "flights", f"--kubeconfig={path}"]) == 2
    assert f"you may not do that in namespace {namespace}" in capsys.readouterr().err

    path = kubernetes.write_kubeconfig(tmp_path / "nobody", "x.y.z", namespace)
    assert main(["status", "flights", f"--kubeconfig={path}"]) == 2
    assert "does not accept the credentials of context sluice" in capsys.readouterr().err


def test_a_cluster_without_the_operator_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with KubernetesCluster(controllers=()) as bare:
        for arguments in (["status"], ["status", "flights"], ["scale", "2", "flights"]):
            assert main([*arguments, f"--kubeconfig={bare.kubeconfig}"]) == 2
            assert "knows no StreamsApps; install the operator's chart there" in capsys.readouterr().err


def test_a_cluster_that_is_silent_or_away_is_named(
    kubernetes: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(cluster_client, "CALL_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = json.loads(kubernetes.kubeconfig.read_text())
        for port, said in ((silent.getsockname()[1], "does not answer within 0.5 s"), (1, "can't be reached")):
            away["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
            path = tmp_path / "away"
            path.write_text(json.dumps(away))
            assert main(["status", "flights", f"--kubeconfig={path}"]) == 1
            assert said in capsys.readouterr().err


def test_flags_of_a_local_run_are_refused(sluice: Sluice):
    assert "--application-id is for a local run" in sluice("status", "--application-id=orders")[2]
