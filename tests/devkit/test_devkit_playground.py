"""`sluice dev kubernetes up` is a whole cluster that leaves nothing, and what it kept is there again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice_devkit.kubernetes.client import KubernetesClient
from sluice_devkit.kubernetes.cluster import NODE_AGENT, KubernetesCluster
from sluice_devkit.kubernetes.playground import spread
from sluice_devkit.node_agent import Image, NodeAgent
from sluice_devkit.ports import free_ports

pods = "/api/v1/namespaces/default/pods"


def eventually(holds: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def running(word: str) -> list[str]:
    """Command lines of this machine with the word, without the playground's own."""
    return [line for line in command_lines() if word in line and "dev kubernetes up" not in line]


def command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue


def a_pod(name: str, script: str, **spec: object) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **spec.pop("container", {})}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def test_nodes_are_dealt_out_to_the_zones():
    assert spread(3, ["a", "b"]) == {"node-a-0": "a", "node-b-0": "b", "node-a-1": "a"}


@pytest.mark.kubernetes
@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_the_playground_leaves_nothing_however_it_ends(tmp_path: Path, ending: str):
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "sluice_cli", "dev", "kubernetes", "up", "--nodes", "1", "--zones", "x"]
    command += ["--port", str(port), "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == f"{tmp_path}/kubeconfig\n"
        admin = administrator(tmp_path, port)
        eventually(lambda: admin.exists("/api/v1/namespaces/default/serviceaccounts/default"))
        admin.create(pods, a_pod("guest", f"echo {tmp_path}; sleep 600 # {tmp_path}"))
        eventually(lambda: bool(running(f"# {tmp_path}")))

        up.send_signal(getattr(signal, ending))

        up.wait(30)
        eventually(lambda: not running(str(tmp_path)))
        assert ending == "SIGKILL" or up.returncode == 0


def administrator(directory: Path, port: int) -> KubernetesClient:
    token = (directory / "tokens.csv").read_text().partition(",")[0]
    return KubernetesClient(f"https://127.0.0.1:{port}", directory / "certificates" / "apiserver.crt", token)


@pytest.mark.kubernetes
def test_without_controllers_the_nodes_let_deleted_claims_go():
    with (
        KubernetesCluster(controllers=()) as cluster,
        NodeAgent(cluster.client_of(NODE_AGENT), {"n0": "a"}, {"busybox": Image()}),
    ):
        namespace = cluster.namespace("alone")
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        cluster.client.create(path, {"metadata": {"name": "data"}, "spec": spec})

        cluster.client.delete(f"{path}/data")

        eventually(lambda: not cluster.client.exists(f"{path}/data"))
