"""The control plane is real: it defines, collects, protects and signs; it survives kills, and nobody survives it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice_devkit.kubernetes.client import KubernetesClient
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.components import COMPONENTS, PROGRAMS
from sluice_devkit.kubernetes.errors import ApiError, KubernetesError
from sluice_devkit.ports import free_ports

pytestmark = pytest.mark.kubernetes


def a_definition(plural: str, **spec_schema: object) -> dict[str, object]:
    kind = plural.removesuffix("s").capitalize()
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec_schema}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.sluice.dev"},
        "spec": {
            "group": "test.sluice.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural.removesuffix("s"), "kind": kind},
            "versions": [version],
        },
    }


def eventually(holds: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def test_a_defined_kind_is_served_and_its_rules_hold(kubernetes, namespace):
    rule = {"rule": "self.size <= 3", "message": "size must be at most 3"}
    properties = {"size": {"type": "integer"}}
    plural = f"gauges{uuid.uuid4().hex[:6]}s"
    definition = a_definition(plural, properties=properties, **{"x-kubernetes-validations": [rule]})
    kind = definition["spec"]["names"]["kind"]
    gauge = {"apiVersion": "test.sluice.dev/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"size": 4}}
    path = f"/apis/test.sluice.dev/v1/namespaces/{namespace}/{plural}"

    kubernetes.define(definition)

    with pytest.raises(ApiError, match=r"422 Invalid: .*size must be at most 3"):
        kubernetes.client.create(path, gauge)
    kubernetes.client.create(path, gauge | {"spec": {"size": 3}})
    assert [each["spec"]["size"] for each in kubernetes.client.list(path)] == [3]


def test_what_an_object_owns_goes_with_it(kubernetes, namespace):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = kubernetes.client.create(path, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    kubernetes.client.create(path, {"metadata": {"name": "owned", "ownerReferences": [reference]}})

    kubernetes.client.delete(f"{path}/owner")

    eventually(lambda: not kubernetes.client.exists(f"{path}/owned"))


def test_a_deleted_namespace_ends(kubernetes):
    name = kubernetes.namespace(f"test-{uuid.uuid4().hex[:8]}")
    kubernetes.client.create(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "content"}})

    kubernetes.client.delete(f"/api/v1/namespaces/{name}")

    eventually(lambda: not kubernetes.client.exists(f"/api/v1/namespaces/{name}"), 30)


def test_a_token_is_reviewed_for_its_audience_only(kubernetes, namespace):
    token = kubernetes.service_account_token(namespace, "default", audiences=["sluice"])

    def review(audience: str) -> dict[str, object]:
        body = {"spec": {"token": token, "audiences": [audience]}}
        return kubernetes.client.create("/apis/authentication.k8s.io/v1/tokenreviews", body)["status"]

    assert review("sluice")["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    assert review("somebody else").get("authenticated", False) is False


def test_a_service_account_may_do_nothing_until_it_is_told(kubernetes, namespace):
    client = kubernetes.client.as_(kubernetes.service_account_token(namespace, "default"))

    with pytest.raises(ApiError, match=f"403 Forbidden: .*serviceaccount:{namespace}:default"):
        client.list(f"/api/v1/namespaces/{namespace}/pods")


def test_every_write_is_in_the_audit_log_with_its_writer(kubernetes, namespace):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    kubernetes.client.create(path, {"metadata": {"name": "written"}})

    def writers() -> list[str]:
        return [
            event["user"].get("username")
            for event in kubernetes.audit_events()
            if event["verb"] == "create" and event["requestURI"] == path
        ]

    eventually(lambda: "admin" in writers())


def test_the_kubeconfig_is_one_that_others_can_read(kubernetes):
    config = json.loads(kubernetes.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]

    client = KubernetesClient(cluster["server"], Path(cluster["certificate-authority"]), user["token"])

    assert client.text("/readyz") == "ok"
    assert kubernetes.kubeconfig.stat().st_mode & 0o077 == 0


def test_a_frozen_api_server_is_silent_until_it_thaws(kubernetes):
    impatient = KubernetesClient(kubernetes.url, kubernetes.ca_file, kubernetes.client.token, timeout_seconds=0.5)
    kubernetes.freeze()
    try:
        with pytest.raises(OSError, match="timed out"):
            impatient.text("/readyz")
    finally:
        kubernetes.thaw()

    eventually(lambda: kubernetes.client.text("/readyz") == "ok")


def test_a_killed_api_server_comes_back_with_everything(kubernetes, namespace):
    path = f"/api/v1/namespaces/{namespace}/configmaps/kept"
    kubernetes.client.create(path.rpartition("/")[0], {"metadata": {"name": "kept"}})

    kubernetes.restart_apiserver()

    assert kubernetes.client.exists(path)


def test_a_component_that_ends_at_its_start_says_why(tmp_path, monkeypatch):
    for name in PROGRAMS:
        (tmp_path / name).write_text("#!/bin/sh\necho no such luck\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    with pytest.raises(KubernetesError, match=r"(?s)etcd ended with 3 at its start.*no such luck"):
        KubernetesCluster().start()


def test_a_taken_port_is_named(kubernetes):
    taken = int(kubernetes.url.rpartition(":")[2])

    with pytest.raises(KubernetesError, match=f"Port {taken} is taken"):
        KubernetesCluster(port=taken).start()


def test_without_controllers_nothing_is_collected_and_namespaces_can_be_used(tmp_path):
    with KubernetesCluster(tmp_path, controllers=()) as cluster:
        path = f"/api/v1/namespaces/{cluster.namespace('alone')}/configmaps"
        gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": str(uuid.uuid4())}
        cluster.client.create(path, {"metadata": {"name": "orphan", "ownerReferences": [gone]}})

    with KubernetesCluster(tmp_path, controllers=()) as again:
        assert again.client.exists(f"{path}/orphan")


UP = """
import sys
from pathlib import Path
from sluice_devkit.kubernetes.cluster import KubernetesCluster
with KubernetesCluster(Path(sys.argv[1]), port=int(sys.argv[2])) as cluster:
    print(cluster.kubeconfig, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_component_outlives_its_parent(tmp_path: Path, how: signal.Signals):
    (port,) = free_ports(1)
    command = [sys.executable, "-c", UP, str(tmp_path), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == f"{tmp_path}/kubeconfig\n"
        assert len(components_of(tmp_path)) == len(COMPONENTS)

        up.send_signal(how)
        up.wait(30)

    eventually(lambda: not components_of(tmp_path))


def components_of(directory: Path) -> list[str]:
    lines = [command_line(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [line for line in lines if str(directory) in line and any(f"/{name} " in line for name in COMPONENTS)]


def command_line(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
