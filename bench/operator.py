"""`make bench-operator`: the operator's pace, and what fifty applications cost it.

Control plane, nodes and Kafka are real, and the operator runs as the chart installs it. The pace is that of one
application with real workers; the crowd's workers keep their side of the protocol and process nothing, so that what is
measured is the operator. There is no peer: no other operator places tasks.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from bench.harness import Row, publish, tell
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.cluster import NODE_AGENT, KubernetesCluster
from sluice_devkit.kubernetes.helm import Helm
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_operator.kube import paths
from sluice_operator.spec.model import API_VERSION, KIND

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "sluice"
STAND_IN = ROOT / "tests" / "operator" / "stand_in_worker.py"
OPERATORS_NAMESPACE = "sluice-system"
OPERATOR = f"system:serviceaccount:{OPERATORS_NAMESPACE}:sluice"
CROWDS_TOPIC = "crowd"
IN_A_POD = (sys.executable, "-m", "sluice_devkit.node_agent.service_account", "sluice")
NODES = {"node-a-0": "zone-a", "node-b-0": "zone-b"}
_SECONDS = 600.0
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Playground:
    """A cluster with the operator installed, and a Kafka."""

    kubernetes: KubernetesCluster
    nodes: NodeAgent
    bootstrap_servers: str

    @property
    def operator(self) -> psutil.Process:
        """The operator's process."""
        (pod,) = self.kubernetes.client.list(paths.pods(OPERATORS_NAMESPACE))
        (container,) = self.nodes.containers(OPERATORS_NAMESPACE, pod["metadata"]["name"])
        return psutil.Process(container.pid)

    def create_topic(self, name: str, partitions: int) -> None:
        """On the one broker."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def apply(self, name: str, replicas: int, image: str, module: str) -> None:
        """Create a StreamsApp in the namespace `default`."""
        spec = {
            "applicationId": name,
            "kafka": {"bootstrapServers": self.bootstrap_servers},
            "pipeline": {"module": module, "image": image},
            "assignment": {"acceptableRecoveryLag": 100},
            "workers": {"replicas": replicas, "stateVolume": {"size": "1Gi"}},
        }
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        self.kubernetes.client.create(paths.apps("default"), body)

    def ready(self) -> int:
        """How many StreamsApps are Ready."""
        return sum(_is_ready(app) for app in self.kubernetes.client.list(paths.apps("default")))

    def requests(self, since: float, until: float) -> dict[str, int]:
        """How many requests the operator sent in this time (seconds since the epoch), by verb and resource."""
        counted: dict[str, int] = {}
        for event in self.kubernetes.audit_events():
            at = _epoch_seconds(event["requestReceivedTimestamp"])
            if event["user"]["username"] == OPERATOR and event["stage"] == "ResponseComplete" and since <= at <= until:
                what = f"{event['verb']} {event.get('objectRef', {}).get('resource', event['requestURI'])}"
                counted[what] = counted.get(what, 0) + 1
        return counted


@contextmanager
def playground(images: Mapping[str, Image]) -> Iterator[Playground]:
    """Everything that is needed, gone afterwards."""
    images = {**images, "sluice-operator": Image(entrypoint=IN_A_POD)}
    with KafkaCluster() as kafka, KubernetesCluster(audit=True) as kubernetes:
        agent = NodeAgent(kubernetes.client_of(NODE_AGENT), NODES, images, certificate=kubernetes.serving_certificate)
        with agent as nodes:
            kubernetes.namespace(OPERATORS_NAMESPACE)
            Helm.built().install(kubernetes.kubeconfig, CHART, "sluice", OPERATORS_NAMESPACE)
            yield Playground(kubernetes, nodes, kafka.bootstrap_servers)


def crowd(apps: int, workers: int, seconds: float) -> list[Row]:
    """So many applications at once, and then a steady time."""
    with tempfile.TemporaryDirectory() as directory, playground({"stand-in": stand_in(Path(directory))}) as ground:
        names = [f"app-{number}" for number in range(apps)]
        ground.create_topic(CROWDS_TOPIC, workers)
        tell(f"{apps} applications of {workers} workers each")
        began = time.monotonic()
        for name in names:
            ground.apply(name, workers, "stand-in", "crowd:topology")
        until(lambda: ground.ready() == apps, "all are ready")
        settled = time.monotonic() - began
        before, since = ground.operator.cpu_times(), time.time()
        time.sleep(seconds)  # the time over which is measured
        after, end = ground.operator.cpu_times(), time.time()
        busy = after.user + after.system - before.user - before.system
        requests = ground.requests(since, end)
        for what, count in sorted(requests.items(), key=lambda item: -item[1]):
            tell(f"  {what}: {count * 60 / seconds:.0f} a minute")
        return [
            Row(f"{apps} apps: created to all ready", round(settled, 1), None, "s"),
            Row(f"{apps} apps, steady: CPU", round(100 * busy / seconds, 1), None, "% of a core"),
            Row(f"{apps} apps, steady: memory", round(ground.operator.memory_info().rss / 1e6), None, "MB"),
            Row(f"{apps} apps, steady: API requests", round(sum(requests.values()) * 60 / seconds), None, "a minute"),
        ]


def stand_in(directory: Path) -> Image:
    """A worker that processes nothing."""
    program = directory / "sluice"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    environment = {**of_this_machine(), "STAND_IN_TOPIC": CROWDS_TOPIC, "STAND_IN_CLINGS": str(directory / "never")}
    environment["PATH"] = f"{directory}:{environment['PATH']}"
    environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    return Image(environment=environment)


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait for it; the moment in which it was first seen to hold. Raises TimeoutError."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_SECONDS:.0f} s: {what}")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic()


def _is_ready(app: Mapping[str, Any]) -> bool:
    conditions = app.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _epoch_seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the bench."""
    parser = argparse.ArgumentParser(prog="bench.operator", description=__doc__)
    parser.add_argument("--apps", type=int, default=50, help="applications of the crowd")
    parser.add_argument("--workers", type=int, default=3, help="workers of each")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the crowd is watched")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the bench."""
    options = parse()
    publish(crowd(options.apps, options.workers, options.seconds), options.json)


if __name__ == "__main__":
    main()
