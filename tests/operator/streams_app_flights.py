"""The StreamsApp of the operator's tests, whose workers have no data plane (stand_in_worker.py)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_operator.kube import paths
from sluice_operator.observed import Part
from sluice_operator.spec.model import API_VERSION, KIND, PLURAL

HERE = Path(__file__).parent
SECONDS = 90.0
PARTITIONS = 4


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

    def since(self, kind: str) -> str:
        """When the condition turned to what it is."""
        app = self.kubernetes.client.get(self.path)
        (time,) = (each["lastTransitionTime"] for each in app["status"]["conditions"] if each["type"] == kind)
        return str(time)

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

    def are_others(self, before: Mapping[str, str]) -> bool:
        """Has each of these pods been replaced, and is nobody else there?"""
        pods = self.pods()
        return pods.keys() == before.keys() and not set(pods.values()) & set(before.values())

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
