"""An application on the tests' control plane, and the operator that looks after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e_application import Shop

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_devkit.ports import free_ports
from sluice_devkit.process_guard import ProcessGuard
from sluice_operator.kube import paths

HERE = Path(__file__).parent
NAME = "orders"
SECONDS = 120.0
WORKER_IMAGE = "orders-pipeline"


@dataclass
class OnKubernetes:
    """The shop's application in a namespace of its own."""

    shop: Shop
    kubernetes: KubernetesCluster
    nodes: NodeAgent
    namespace: str
    ports: list[int] = field(default_factory=lambda: free_ports(2))

    def __post_init__(self) -> None:
        environment = {
            **of_this_machine(),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "E2E_PREFIX": self.shop.topics.prefix,
            "E2E_MENDED": str(self.shop.mended),
        }
        self.image = f"{WORKER_IMAGE}-{self.namespace}"
        self.nodes.add_image(self.image, Image(environment=environment))

    @property
    def log(self) -> Path:
        return self.shop.directory / "operator.log"

    def start_operator(self, guard: ProcessGuard) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "sluice_cli", "operator",
            f"--coordinator-url=https://127.0.0.1:{self.ports[0]}", "--host=127.0.0.1", f"--port={self.ports[0]}",
            f"--probe-port={self.ports[1]}",
            f"--namespace={self.namespace}", f"--lease-namespace={self.namespace}",
            "--lease-duration=12s", "--renew-deadline=10s", "--retry=500ms",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            return guard.start(
                command, environment={**os.environ, "KUBECONFIG": str(self.kubernetes.kubeconfig)}, output=log
            )

    def apply(self, replicas: int = 1) -> None:
        body = {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": NAME},
            "spec": {
                "applicationId": self.shop.application_id,
                "kafka": {"bootstrapServers": self.shop.servers},
                "pipeline": {"module": "e2e_pipelines:counting", "image": self.image},
                "assignment": {"acceptableRecoveryLag": 100},
                "workers": {"replicas": replicas, "threads": 1, "stateVolume": {"size": "1Gi"}},
            },
        }
        self.kubernetes.client.create(paths.apps(self.namespace), body)

    def scale(self, replicas: int) -> None:
        """What `kubectl scale` does."""
        self.kubernetes.client.patch(f"{self._path}/scale", {"spec": {"replicas": replicas}})

    def patch(self, **spec: Any) -> None:
        self.kubernetes.client.patch(self._path, {"spec": spec})

    def delete(self) -> None:
        self.kubernetes.client.delete(self._path)

    def exists(self) -> bool:
        return self.kubernetes.client.exists(self._path)

    def status(self) -> dict[str, Any]:
        return dict(self.kubernetes.client.get(self._path).get("status", {}))

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason; for the present generation only."""
        app = self.kubernetes.client.get(self._path)
        for condition in app.get("status", {}).get("conditions", ()):
            if condition["type"] == kind and condition["observedGeneration"] == app["metadata"]["generation"]:
                return condition["status"], condition["reason"]
        return "", ""

    def is_ready(self, workers: int) -> bool:
        return (
            self.condition("Ready")[0] == "True"
            and self.condition("Rebalancing")[0] == "False"
            and (self.status()["replicas"], self.status()["readyReplicas"]) == (workers, workers)
        )

    def pods(self) -> dict[str, str]:
        """Uid by name, of those that are not going."""
        return self._uids(paths.pods(self.namespace))

    def claims(self) -> dict[str, str]:
        return self._uids(paths.claims(self.namespace))

    def events(self) -> list[str]:
        """Reasons, in no order."""
        return [event["reason"] for event in self.kubernetes.client.list(paths.events(self.namespace))]

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        self.kubernetes.client.wait_for(what, holds, SECONDS)

    @property
    def _path(self) -> str:
        return paths.app((self.namespace, NAME))

    def _uids(self, path: str) -> dict[str, str]:
        items = self.kubernetes.client.list(path)
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in items
            if "deletionTimestamp" not in item["metadata"]
        }
