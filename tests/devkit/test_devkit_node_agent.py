"""Pods are processes that live and end as pods do: volumes, tokens, probes, restarts, grace, and what befalls nodes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice_devkit.kubernetes.client import STRATEGIC_MERGE_PATCH
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.errors import ApiError, KubernetesError
from sluice_devkit.node_agent import Image, NodeAgent

pytestmark = pytest.mark.kubernetes

SLEEPS = "echo started; exec sleep 600"
SERVES = "exec python -m http.server --bind $POD_IP 8000"


class Pods:
    """One namespace's pods, as a test makes and sees them."""

    def __init__(self, cluster: KubernetesCluster, nodes: NodeAgent, namespace: str) -> None:
        self.client = cluster.client
        self.nodes = nodes
        self.namespace = namespace
        self.base = f"/api/v1/namespaces/{namespace}"

    def create(self, name: str, script: str = SLEEPS, *, image: str = "shell", **options: Any) -> dict[str, Any]:
        """Run a shell script; `container` and `metadata` are merged into theirs, other options into the spec."""
        container = {"name": "main", "image": image, "command": ["sh", "-c", script], **options.pop("container", {})}
        metadata = {"name": name, **options.pop("metadata", {})}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **options}
        return self.client.create(f"{self.base}/pods", {"metadata": metadata, "spec": spec})

    def claim(self, name: str, **spec: Any) -> None:
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        self.client.create(f"{self.base}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": wanted})

    def get(self, name: str) -> dict[str, Any]:
        return self.client.get(f"{self.base}/pods/{name}")

    def status(self, name: str) -> dict[str, Any]:
        statuses = self.get(name).get("status", {}).get("containerStatuses") or [{"restartCount": 0, "state": {}}]
        return statuses[0]

    def waiting(self, name: str) -> str | None:
        return self.status(name)["state"].get("waiting", {}).get("reason")

    def is_ready(self, name: str) -> bool:
        return self.condition(name, "Ready").get("status") == "True"

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        conditions = self.get(name).get("status", {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == kind), {})

    def exists(self, name: str) -> bool:
        return self.client.exists(f"{self.base}/pods/{name}")

    def delete(self, name: str, **body: Any) -> None:
        self.client.delete(f"{self.base}/pods/{name}", body or None)

    def log(self, name: str) -> str:
        """As `kubectl logs` has it; nothing as long as no container has started."""
        try:
            return self.client.text(f"{self.base}/pods/{name}/log")
        except ApiError as error:
            if error.reason not in ("BadRequest", "NotFound"):
                raise
            return ""

    def start(self, name: str, script: str = SLEEPS, **options: Any) -> None:
        self.create(name, script, **options)
        self.until(lambda: self.is_ready(name), f"{name} is ready")

    def until(self, holds: Callable[[], bool], what: str, seconds: float = 90) -> None:
        self.client.wait_for(what, holds, seconds)


@pytest.fixture
def pods(kubernetes: KubernetesCluster, nodes: NodeAgent, namespace: str) -> Pods:
    return Pods(kubernetes, nodes, namespace)


@pytest.fixture
def node(nodes: NodeAgent):
    """A node that may be cut off; it is healed afterwards."""
    yield "node-a-0"
    nodes.heal("node-a-0")


def on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- a pod's life


def test_a_pod_runs_speaks_and_says_where(pods):
    pods.start("speaker", "echo hello from $WHO on $NODE; exec sleep 600", container={
        "env": [
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ]
    })  # fmt: skip

    pods.until(lambda: pods.log("speaker") != "", "it has spoken")
    assert pods.log("speaker") == f"hello from speaker on {pods.get('speaker')['spec']['nodeName']}\n"
    assert pods.get("speaker")["status"]["podIP"].startswith("127.")


def test_a_killed_container_is_started_again_and_the_pod_stays(pods, nodes, namespace):
    pods.start("phoenix")
    before = pods.get("phoenix")["metadata"]["uid"]

    nodes.kill(namespace, "phoenix")

    pods.until(lambda: pods.status("phoenix")["restartCount"] == 1 and pods.is_ready("phoenix"), "restarted")
    assert pods.get("phoenix")["metadata"]["uid"] == before
    assert pods.status("phoenix")["lastState"]["terminated"]["exitCode"] == 137


def test_what_fails_again_and_again_is_held_back(pods):
    pods.create("failing", "exit 3")

    pods.until(lambda: pods.status("failing")["restartCount"] >= 2, "two restarts")
    pods.until(lambda: pods.waiting("failing") == "CrashLoopBackOff", "held back")
    assert pods.status("failing")["lastState"]["terminated"]["exitCode"] == 3


@pytest.mark.parametrize(("status", "phase"), [(0, "Succeeded"), (4, "Failed")])
def test_what_may_not_restart_ends_in_its_phase(pods, status, phase):
    pods.create("once", f"exit {status}", restartPolicy="Never")

    pods.until(lambda: pods.get("once")["status"]["phase"] == phase, phase)
    assert pods.status("once")["state"]["terminated"]["exitCode"] == status
    pods.delete("once")
    pods.until(lambda: not pods.exists("once"), "it is gone")


def test_grace_is_given_and_ends(pods, nodes, namespace):
    pods.start("stubborn", "trap 'echo heard' TERM; echo ready; while :; do sleep 0.1; done")
    pods.until(lambda: "ready" in pods.log("stubborn"), "it traps")
    container = nodes.containers(namespace, "stubborn")[0]

    pods.delete("stubborn", gracePeriodSeconds=2)
    pods.until(lambda: "heard" in container.log.read_text(), "it was asked")
    assert is_alive(container.pid)

    pods.until(lambda: not pods.exists("stubborn"), "it was killed")
    assert not is_alive(container.pid)


def test_everything_that_a_container_started_ends_with_it(pods, nodes, namespace):
    pods.start("parent", "setsid sleep 601 & echo child $!; exec sleep 600")
    pods.until(lambda: "child" in pods.log("parent"), "it has a child")
    child = int(pods.log("parent").split()[1])
    assert is_alive(child)

    pods.delete("parent")

    pods.until(lambda: not pods.exists("parent"), "it is gone")
    assert not is_alive(child)


def test_an_unknown_image_is_reported_until_it_is_there(pods, nodes, namespace):
    pods.create("stranger", image=f"unknown/{namespace}:1")
    pods.until(lambda: pods.waiting("stranger") in ("ErrImagePull", "ImagePullBackOff"), "the image is missed")

    nodes.add_image(f"unknown/{namespace}", Image())

    pods.until(lambda: pods.is_ready("stranger"), "it runs")


def test_what_the_agent_cannot_do_is_said(pods):
    pods.create("demanding", initContainers=[{"name": "first", "image": "shell"}])

    pods.until(lambda: pods.waiting("demanding") == "CreateContainerConfigError", "refused")
    assert "initContainers" in pods.status("demanding")["state"]["waiting"]["message"]


# --- volumes, tokens, variables


def test_files_and_variables_come_from_config_maps_and_secrets(pods):
    pods.client.create(f"{pods.base}/configmaps", {"metadata": {"name": "settings"}, "data": {"colour": "green"}})
    pods.client.create(f"{pods.base}/secrets", {"metadata": {"name": "keys"}, "stringData": {"password": "hidden"}})
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys", "items": [{"key": "password", "path": "deep/file"}]}},
    ]
    mounts = [{"name": "settings", "mountPath": "/etc/settings"}, {"name": "keys", "mountPath": "/etc/keys"}]
    reference = {"configMapKeyRef": {"name": "settings", "key": "colour"}}
    script = (
        'echo $(cat /etc/settings/colour) "$COLOUR" "$DERIVED" $(cat "$POD_ROOT/etc/keys/deep/file"); exec sleep 600'
    )
    env = [{"name": "COLOUR", "valueFrom": reference}, {"name": "DERIVED", "value": "very-$(COLOUR)"}]

    pods.start("reader", script, volumes=volumes, container={"volumeMounts": mounts, "env": env})

    pods.until(lambda: pods.log("reader") != "", "it has read")
    assert pods.log("reader") == "green green very-green hidden\n"


def test_a_missing_config_map_is_waited_for(pods):
    volumes = [{"name": "settings", "configMap": {"name": "late"}}]
    pods.create("patient", volumes=volumes)
    pods.until(lambda: pods.waiting("patient") == "CreateContainerConfigError", "it waits")

    pods.client.create(f"{pods.base}/configmaps", {"metadata": {"name": "late"}, "data": {}})

    pods.until(lambda: pods.is_ready("patient"), "it runs")


def test_a_projected_token_is_reviewed_as_the_pods_own(pods, kubernetes, namespace):
    token = {"serviceAccountToken": {"path": "token", "audience": "sluice", "expirationSeconds": 600}}
    volumes = [{"name": "identity", "projected": {"sources": [token]}}]
    mounts = [{"name": "identity", "mountPath": "/var/run/sluice"}]
    pods.start(
        "bearer", "cat /var/run/sluice/token; exec sleep 600", volumes=volumes, container={"volumeMounts": mounts}
    )
    pods.until(lambda: pods.log("bearer") != "", "it has read its token")

    body = {"spec": {"token": pods.log("bearer"), "audiences": ["sluice"]}}
    user = kubernetes.client.create("/apis/authentication.k8s.io/v1/tokenreviews", body)["status"]["user"]

    assert user["username"] == f"system:serviceaccount:{namespace}:default"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["bearer"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [pods.get("bearer")["metadata"]["uid"]]


@pytest.mark.parametrize(("storage", "label"), [
    ("local", "kubernetes.io/hostname"),
    ("zonal", "topology.kubernetes.io/zone"),
])  # fmt: skip
def test_a_claim_keeps_its_data_and_its_place(pods, storage, label):
    pods.claim("data", storageClassName=storage)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    options = {"volumes": volumes, "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}}

    def place() -> str:
        name = pods.get("keeper")["spec"]["nodeName"]
        return str(pods.client.get(f"/api/v1/nodes/{name}")["metadata"]["labels"][label])

    pods.start("keeper", "echo kept > /data/file; exec sleep 600", **options)
    first = place()
    pods.delete("keeper")
    pods.until(lambda: not pods.exists("keeper"), "it is gone")
    pods.start("keeper", "cat /data/file; exec sleep 600", **options)

    pods.until(lambda: pods.log("keeper") == "kept\n", "it has read")
    assert place() == first


def test_a_claim_in_use_outlives_its_deletion_and_then_goes_with_its_data(pods):
    pods.claim("data")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pods.start("user", volumes=volumes)
    claim = f"{pods.base}/persistentvolumeclaims/data"
    volume = pods.client.get(f"/api/v1/persistentvolumes/{pods.client.get(claim)['spec']['volumeName']}")

    pods.client.delete(claim)
    assert pods.client.exists(claim)
    pods.delete("user")

    pods.until(lambda: not pods.client.exists(claim), "the claim is gone")
    pods.until(lambda: not Path(volume["spec"]["local"]["path"]).exists(), "the data is gone")


def test_a_pod_without_its_claim_is_not_placed(pods):
    pods.create("waiting", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    pods.until(
        lambda: "not found" in pods.condition("waiting", "PodScheduled").get("message", ""), "it can't be placed"
    )

    pods.claim("data")

    pods.until(lambda: pods.is_ready("waiting"), "it runs")
    assert pods.condition("waiting", "PodScheduled").get("reason") is None


# --- probes and Services


@pytest.mark.parametrize("probe", [
    {"httpGet": {"path": "/", "port": "web"}},
    {"tcpSocket": {"port": 8000}},
    {"exec": {"command": ["test", "-e", "/work/open"]}},
], ids=["http", "tcp", "exec"])  # fmt: skip
def test_readiness_follows_its_probe(pods, probe):
    volumes = [{"name": "work", "emptyDir": {}}]
    container = {
        "ports": [{"name": "web", "containerPort": 8000}],
        "readinessProbe": {**probe, "periodSeconds": 1, "failureThreshold": 1},
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
    }
    script = """
        touch /work/open; python -m http.server --bind $POD_IP 8000 & server=$!
        while [ ! -e /work/close ]; do sleep 0.1; done; rm /work/open; kill $server; sleep 600
    """
    pods.start("web", script, volumes=volumes, container=container)

    (pods.nodes.containers(pods.namespace, "web")[0].log.parent / "root/work/close").touch()

    pods.until(lambda: not pods.is_ready("web"), "it is not ready")
    assert pods.status("web")["restartCount"] == 0


def test_a_probe_of_a_port_without_a_name_fails_and_no_other_pod_notices(pods):
    probe = {"httpGet": {"port": "nameless"}, "periodSeconds": 1, "failureThreshold": 1}
    pods.create("lost", container={"readinessProbe": probe})

    pods.until(lambda: "running" in pods.status("lost")["state"], "it runs")
    pods.start("neighbour")
    assert not pods.is_ready("lost")


def test_a_container_that_is_not_alive_is_restarted(pods):
    probe = {"exec": {"command": ["test", "!", "-e", "/work/dead"]}, "periodSeconds": 1, "failureThreshold": 1}
    container = {"livenessProbe": probe, "volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    script = "[ -e /work/once ] || { touch /work/once /work/dead; exec sleep 600; }; rm -f /work/dead; exec sleep 600"

    pods.create("ill", script, volumes=[{"name": "work", "emptyDir": {}}], container=container)

    pods.until(lambda: pods.status("ill")["restartCount"] == 1 and pods.is_ready("ill"), "restarted")


def test_readiness_waits_for_its_gates(pods):
    gate = "sluice.dev/warm"
    pods.create("gated", readinessGates=[{"conditionType": gate}])
    pods.until(lambda: pods.condition("gated", "ContainersReady").get("status") == "True", "the container is ready")
    assert not pods.is_ready("gated")

    body = {"status": {"conditions": [{"type": gate, "status": "True"}]}}
    pods.client.patch(f"{pods.base}/pods/gated/status", body, STRATEGIC_MERGE_PATCH)

    pods.until(lambda: pods.is_ready("gated"), "it is ready")


def test_a_service_leads_to_its_ready_pods_only(pods):
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": 8000}]},
    }
    address = pods.client.create(f"{pods.base}/services", service)["spec"]["clusterIP"]
    url = f"http://{address}:8080/"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    assert not answers()
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    pods.start("web", SERVES, metadata={"labels": {"app": "web"}}, container={"readinessProbe": probe})
    pods.until(answers, "the service answers")
    pods.delete("web")
    pods.until(lambda: not pods.exists("web"), "it is gone")

    assert not answers()


def test_pods_call_a_service_by_its_name(pods, namespace):
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": 8000}]},
    }
    pods.client.create(f"{pods.base}/services", service)
    pods.start("web", SERVES, metadata={"labels": {"app": "web"}}, container={
        "readinessProbe": {"tcpSocket": {"port": 8000}}
    })  # fmt: skip
    call = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).status)"

    command = ["python", "-c", call, f"http://web.{namespace}.svc:8080/"]
    pods.create("caller", restartPolicy="OnFailure", container={"command": command})

    pods.until(lambda: pods.get("caller")["status"]["phase"] == "Succeeded", "it was answered")
    assert pods.log("caller").splitlines()[-1] == "200"


# --- eviction, spread, cordons


def test_a_disruption_budget_lets_one_go_and_refuses_the_next(pods):
    for name in ("first", "second"):
        pods.start(name, metadata={"labels": {"app": "guarded"}})
    budget = {
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    path = f"/apis/policy/v1/namespaces/{pods.namespace}/poddisruptionbudgets"
    pods.client.create(path, budget)
    pods.until(lambda: pods.client.get(f"{path}/guarded").get("status", {}).get("disruptionsAllowed") == 1, "counted")

    pods.client.create(f"{pods.base}/pods/first/eviction", {"metadata": {"name": "first"}})

    with pytest.raises(ApiError, match="429 TooManyRequests"):
        pods.client.create(f"{pods.base}/pods/second/eviction", {"metadata": {"name": "second"}})
    pods.until(lambda: not pods.exists("first"), "the first is gone")
    assert pods.is_ready("second")


def test_siblings_are_spread_over_zones(pods, nodes):
    owner = pods.client.create(f"{pods.base}/configmaps", {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for number in range(4):
        pods.create(f"worker-{number}", metadata={"ownerReferences": [reference]})

    names = [f"worker-{number}" for number in range(4)]
    pods.until(lambda: all(map(pods.is_ready, names)), "all run")
    assert {pods.get(name)["spec"]["nodeName"] for name in names} == set(nodes.nodes)


def test_a_cordoned_node_takes_no_pod(pods):
    cordon = "/api/v1/nodes/node-b-1"
    pods.client.patch(cordon, {"spec": {"unschedulable": True}})
    try:
        pods.create("homeless", **on("node-b-1"))
        pods.until(lambda: pods.condition("homeless", "PodScheduled").get("reason") == "Unschedulable", "refused")
    finally:
        pods.client.patch(cordon, {"spec": {"unschedulable": None}})

    pods.until(lambda: pods.is_ready("homeless"), "it runs")


# --- what befalls nodes and the API server


def test_after_a_partition_two_of_one_name_run_until_it_heals(pods, nodes, namespace, node):
    pods.start("twin", **on(node))
    old = nodes.containers(namespace, "twin")[0]

    nodes.partition(node)
    pods.delete("twin")
    assert pods.exists("twin")
    pods.delete("twin", gracePeriodSeconds=0)
    pods.start("twin")

    running = nodes.containers(namespace, "twin")
    assert {container.node == node for container in running} == {True, False}
    nodes.heal(node)
    pods.until(lambda: len(nodes.containers(namespace, "twin")) == 1, "the old one was ended")
    assert not is_alive(old.pid)
    assert pods.is_ready("twin")


def test_a_disk_of_a_partitioned_node_goes_to_one_pod_at_a_time(pods, nodes, namespace, node):
    pods.claim("data")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pods.start("holder", volumes=volumes, **on(node))

    nodes.partition(node)
    pods.delete("holder", gracePeriodSeconds=0)
    pods.create("holder", volumes=volumes)
    pods.until(lambda: "still attached" in json.dumps(pods.status("holder")), "it waits for the disk")
    nodes.heal(node)

    pods.until(lambda: pods.is_ready("holder"), "it runs")


def test_a_failed_node_is_silent_and_boots_with_its_pods(pods, nodes, namespace, node):
    pods.start("resident", **on(node))
    process = nodes.containers(namespace, "resident")[0].pid

    nodes.fail_node(node)

    pods.until(lambda: not is_alive(process), "its processes are dead")
    conditions = pods.client.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    assert {"Unknown"} == {each["status"] for each in conditions if each["type"] == "Ready"}
    assert pods.is_ready("resident")  # nobody has said otherwise
    nodes.heal(node)
    pods.until(lambda: pods.status("resident")["restartCount"] == 1 and pods.is_ready("resident"), "restarted")


def test_no_pod_dies_of_an_api_server_that_is_away(pods, nodes, namespace, kubernetes):
    pods.start("survivor")
    before = nodes.containers(namespace, "survivor")

    kubernetes.freeze()
    time.sleep(1)  # the outage itself
    kubernetes.thaw()
    kubernetes.restart_apiserver()

    pods.start("newcomer")
    assert nodes.containers(namespace, "survivor") == before
    assert pods.status("survivor")["restartCount"] == 0


def test_a_slow_start_is_slow(pods, nodes):
    nodes.slow_start(600)
    try:
        pods.create("slow")
        pods.until(lambda: pods.get("slow")["spec"].get("nodeName") is not None, "it is placed")
    finally:
        nodes.slow_start(0)

    pods.start("quick")
    assert not pods.is_ready("slow")


def test_unknown_names_are_refused(nodes, namespace):
    with pytest.raises(KubernetesError, match=f"No container of pod {namespace}/nobody runs"):
        nodes.kill(namespace, "nobody")
    with pytest.raises(KubernetesError, match="There is no node nowhere; there are node-a-0"):
        nodes.partition("nowhere")
