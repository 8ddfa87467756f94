"""A StreamsApp with real workers on the tests' control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.errors import KubernetesError
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_operator.kube import paths
from sluice_operator.names import WORKER_LABEL
from sluice_operator.spec.model import API_VERSION, KIND

SECONDS = 180.0
_LAST_WORDS = 3_000


@dataclass
class StreamsApp:
    """One application in a namespace of its own; its pods are `sluice worker` of this machine."""

    kubernetes: KubernetesCluster
    nodes: NodeAgent
    namespace: str
    name: str
    spec: Mapping[str, Any]
    environment: Mapping[str, str]

    def __post_init__(self) -> None:
        self.image = f"pipeline-{self.namespace}"
        self.nodes.add_image(self.image, Image(environment={**of_this_machine(), **self.environment}))

    def apply(self, replicas: int = 1) -> None:
        pipeline = {**self.spec["pipeline"], "image": self.image}
        workers = {"replicas": replicas, "threads": 1, "stateVolume": {"size": "1Gi"}}
        spec = {**self.spec, "pipeline": pipeline, "workers": {**workers, **self.spec.get("workers", {})}}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self.name}, "spec": spec}
        self.kubernetes.client.create(paths.apps(self.namespace), body)

    def scale(self, replicas: int) -> None:
        """What `kubectl scale` does."""
        self.kubernetes.client.patch(f"{self.path}/scale", {"spec": {"replicas": replicas}})

    def patch(self, **spec: Any) -> None:
        self.kubernetes.client.patch(self.path, {"spec": spec})

    def delete(self) -> None:
        self.kubernetes.client.delete(self.path)

    def exists(self) -> bool:
        return self.kubernetes.client.exists(self.path)

    def status(self) -> dict[str, Any]:
        return dict(self.kubernetes.client.get(self.path).get("status", {}))

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason; for the present generation only."""
        app = self.kubernetes.client.get(self.path)
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

    def wait_ready(self, workers: int) -> None:
        self.wait_for(f"it is ready with {workers} workers", lambda: self.is_ready(workers))

    def wait_for(self, what: str, holds: Callable[[], bool], seconds: float = SECONDS) -> None:
        try:
            self.kubernetes.client.wait_for(what, holds, seconds)
        except KubernetesError as error:
            raise AssertionError(f"{error}\n{self.status()}\n{self._last_words()}") from None

    def _last_words(self) -> str:
        """The ends of the logs of all workers."""
        logs = {pod: self.nodes.log(self.namespace, pod)[-_LAST_WORDS:] for pod in self.pods()}
        return "\n".join(f"--- {pod}\n{text}" for pod, text in sorted(logs.items()))

    def pods(self) -> dict[str, str]:
        """Uid by name of the workers' pods, of those that are not going."""
        return {name: item["metadata"]["uid"] for name, item in self._present(paths.pods(self.namespace)).items()}

    def nodes_of_pods(self) -> dict[str, str]:
        """Node by name of the pod, of those that have one."""
        items = self._present(paths.pods(self.namespace))
        return {name: item["spec"]["nodeName"] for name, item in items.items() if "nodeName" in item["spec"]}

    def claims(self) -> dict[str, str]:
        return {name: item["metadata"]["uid"] for name, item in self._present(paths.claims(self.namespace)).items()}

    def events(self) -> list[str]:
        """Reasons, in no order."""
        return [event["reason"] for event in self.kubernetes.client.list(paths.events(self.namespace))]

    @property
    def path(self) -> str:
        return paths.app((self.namespace, self.name))

    def _present(self, path: str) -> dict[str, Any]:
        found = {item["metadata"]["name"]: item for item in self.kubernetes.client.list(path)}
        return {name: item for name, item in found.items() if _is_worker(item["metadata"])}


def _is_worker(meta: Mapping[str, Any]) -> bool:
    return WORKER_LABEL in meta.get("labels", {}) and "deletionTimestamp" not in meta
