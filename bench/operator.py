"""`make bench-operator`: the operator's pace, and what fifty applications cost it.

Control plane, nodes and Kafka are real, and the operator runs as the chart installs it. The pace is that of one
application with real workers; the crowd's workers keep their side of the protocol and process nothing, so that what is
measured is the operator. There is no peer: no other operator places tasks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from prometheus_client.parser import text_string_to_metric_families

from bench import ours
from bench.ground import Ground, prepared_ground
from bench.harness import Row, publish, tell
from bench.records import Feeder, load
from sluice_cli.commands.dev import OPERATOR_COMMAND, OPERATOR_IMAGE
from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.errors import CommandError
from sluice_cli.http_call import Trust
from sluice_devkit.kubernetes.cluster import NODE_AGENT, KubernetesCluster
from sluice_devkit.kubernetes.helm import Helm
from sluice_devkit.kubernetes.https_service import https_service
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_devkit.offsets import OffsetWatch
from sluice_operator.kube import paths
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId
from sluice_protocol.view import GroupView

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "sluice"
STAND_IN = ROOT / "tests" / "operator" / "stand_in_worker.py"
OPERATORS_NAMESPACE = "sluice-system"
OPERATOR = f"system:serviceaccount:{OPERATORS_NAMESPACE}:sluice"
CROWDS_TOPIC = "crowd"
SERVICE = "sluice-coordinator"
PROBE_PORT = 8081
RECONCILE_SECONDS = "sluice_operator_reconcile_seconds"
NODES = {"node-a-0": "zone-a", "node-b-0": "zone-b"}
PARTITIONS = 8
RECORDS = 400_000
KEYS = 50_000
RATE = 1_000
ACCEPTABLE_LAG = 100
SETTLING_SECONDS = 20.0
_SECONDS = 600.0
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Playground:
    """A cluster with the operator installed, and a Kafka."""

    ground: Ground
    kubernetes: KubernetesCluster
    nodes: NodeAgent

    @property
    def operator(self) -> psutil.Process:
        """The operator's process."""
        (pod,) = self.kubernetes.client.list(paths.pods(OPERATORS_NAMESPACE))
        (container,) = self.nodes.containers(OPERATORS_NAMESPACE, pod["metadata"]["name"])
        return psutil.Process(container.pid)

    def coordinator(self, app: str) -> CoordinatorClient:
        """The read API of a group, behind the operator's Service."""
        client = self.kubernetes.client
        url, ca = https_service(client, OPERATORS_NAMESPACE, SERVICE, f"{SERVICE}-tls")
        return CoordinatorClient(url, client.token, app, "default", trust=Trust(ca))

    def reconciles(self) -> dict[float, float]:
        """How many looks at an application took at most so many seconds (le), since the operator started."""
        (pod,) = self.kubernetes.client.list(paths.pods(OPERATORS_NAMESPACE))
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{PROBE_PORT}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return {float(each.labels["le"]): each.value for each in samples if each.name == f"{RECONCILE_SECONDS}_bucket"}

    def apply(self, name: str, replicas: int, image: str, module: str) -> None:
        """Create a StreamsApp in the namespace `default`."""
        spec = {
            "applicationId": name,
            "kafka": {"bootstrapServers": self.ground.bootstrap_servers},
            "pipeline": {"module": module, "image": image},
            "assignment": {"acceptableRecoveryLag": ACCEPTABLE_LAG},
            "workers": {"replicas": replicas, "stateVolume": {"size": "1Gi"}},
        }
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        self.kubernetes.client.create(paths.apps("default"), body)

    def scale(self, name: str, replicas: int) -> None:
        """What `kubectl scale` does."""
        self.kubernetes.client.patch(f"{paths.app(('default', name))}/scale", {"spec": {"replicas": replicas}})

    def ready_pods(self) -> list[bool]:
        """Of each worker's pod, whether it is Ready."""
        return [_is_ready(pod) for pod in self.kubernetes.client.list(paths.pods("default"))]

    def ready(self) -> int:
        """How many StreamsApps are Ready."""
        return sum(_is_ready(app) for app in self.kubernetes.client.list(paths.apps("default")))

    def requests(self, since: float, until: float) -> dict[str, int]:
        """How many requests the operator sent in this time (seconds since the epoch), by verb and resource."""
        counted: dict[str, int] = {}
        for event in self.kubernetes.audit_events():
            at = _epoch_seconds(event["requestReceivedTimestamp"])
            if (
                event["user"].get("username") == OPERATOR
                and event["stage"] == "ResponseComplete"
                and since <= at <= until
            ):
                what = f"{event['verb']} {event.get('objectRef', {}).get('resource', event['requestURI'])}"
                counted[what] = counted.get(what, 0) + 1
        return counted


@contextmanager
def playground(images: Mapping[str, Image]) -> Iterator[Playground]:
    """Everything that is needed, gone afterwards."""
    images = {**images, OPERATOR_IMAGE: Image(OPERATOR_COMMAND)}
    with prepared_ground() as ground, KubernetesCluster(audit=True) as kubernetes:
        agent = NodeAgent(kubernetes.client_of(NODE_AGENT), NODES, images, certificate=kubernetes.serving_certificate)
        with agent as nodes:
            kubernetes.namespace(OPERATORS_NAMESPACE)
            Helm.built().install(kubernetes.kubeconfig, CHART, "sluice", OPERATORS_NAMESPACE)
            yield Playground(ground, kubernetes, nodes)


def crowd(apps: int, workers: int, seconds: float) -> list[Row]:
    """So many applications at once, and then a steady time."""
    with tempfile.TemporaryDirectory() as directory, playground({"stand-in": stand_in(Path(directory))}) as place:
        names = [f"app-{number}" for number in range(apps)]
        place.ground.create_topic(CROWDS_TOPIC, workers)
        tell(f"{apps} applications of {workers} workers each")
        began = time.monotonic()
        for name in names:
            place.apply(name, workers, "stand-in", "crowd:topology")
        until(lambda: place.ready() == apps, "all are ready")
        settled = time.monotonic() - began
        time.sleep(SETTLING_SECONDS)  # what follows from the last joins is not steady yet
        looks, before, since = place.reconciles(), place.operator.cpu_times(), time.time()
        time.sleep(seconds)  # the time over which is measured
        after, end = place.operator.cpu_times(), time.time()
        busy = after.user + after.system - before.user - before.system
        requests = place.requests(since, end)
        p99 = quantile(0.99, {le: count - looks[le] for le, count in place.reconciles().items()})
        for what, count in sorted(requests.items(), key=lambda item: -item[1]):
            tell(f"  {what}: {count * 60 / seconds:.0f} a minute")
        return [
            Row(f"{apps} apps: created to all ready", round(settled, 1), None, "s"),
            Row(f"{apps} apps, steady: reconcile p99, at most", round(1000 * p99), None, "ms"),
            Row(f"{apps} apps, steady: CPU", round(100 * busy / seconds, 1), None, "% of a core"),
            Row(f"{apps} apps, steady: memory", round(place.operator.memory_info().rss / 1e6), None, "MB"),
            Row(f"{apps} apps, steady: API requests", round(sum(requests.values()) * 60 / seconds), None, "a minute"),
        ]


def pace() -> list[Row]:
    """One application with state and real workers: created, scaled out."""
    app, sink = "pace", "pace-out"
    environment = {
        **of_this_machine(),
        "BENCH_APPLICATION": app,
        "BENCH_SOURCE": app,
        "BENCH_SINK": sink,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }
    with playground({"counts": Image(environment=environment)}) as place:
        load(place.ground, app, RECORDS, KEYS, PARTITIONS)
        place.ground.create_topic(sink, PARTITIONS)
        partitions = [(app, partition) for partition in range(PARTITIONS)]
        with OffsetWatch(place.ground.bootstrap_servers, app, partitions) as watch:
            began = time.monotonic()
            place.apply(app, 1, "counts", ours.PIPELINE)
            created = until(lambda: len(place.ready_pods()) == 1, "the pod is there")
            running = until(lambda: place.ready_pods() == [True], "the pod is Ready")
            committed = until(lambda: watch.total() > 0, "something is committed")
            until(lambda: watch.total() >= RECORDS and place.ready() == 1, "everything is processed")
        with Feeder(place.ground, app, RATE, KEYS):
            asked = time.monotonic()
            place.scale(app, 2)
            warm, handed_over = watch_scale_out(place.coordinator(app))
    return [
        Row("created to its pod", round(1000 * (created - began)), None, "ms"),
        Row("pod Ready to first commit", round(1000 * (committed - running)), None, "ms"),
        Row("scale request to first warm-up", round(1000 * (warm - asked)), None, "ms"),
        Row("hot to handed over p50", round(statistics.median(handed_over)), None, "ms"),
        Row("hot to handed over max", round(max(handed_over)), None, "ms"),
    ]


def watch_scale_out(coordinator: CoordinatorClient) -> tuple[float, list[float]]:
    """When the first warm-up was seen, and of each hot copy the ms from its first sight to the grant of the task."""
    first_warm_up = 0.0
    hot: dict[tuple[TaskId, str], float] = {}
    before = {move.at_ms for move in coordinator.view().moves}

    def is_done() -> bool:
        nonlocal first_warm_up
        view = _seen(coordinator)
        if view is None:
            return False
        for task in view.tasks:
            if task.role is Role.WARMUP:
                first_warm_up = first_warm_up or time.monotonic()
                if task.lag is not None and task.lag <= ACCEPTABLE_LAG:
                    hot.setdefault((task.task, task.worker), time.time() * 1000)
        return bool(first_warm_up) and len(view.members) == 2 and view.state == "stable" and view.pending_moves == 0

    until(is_done, "the second worker has its share")
    moves = [move for move in coordinator.view().moves if move.at_ms not in before]
    at = [(move.at_ms, hot.get((move.task, move.destination))) for move in moves]
    return first_warm_up, [max(0.0, granted - since) for granted, since in at if since is not None]


def _seen(coordinator: CoordinatorClient) -> GroupView | None:
    try:
        return coordinator.view()
    except CommandError:
        return None


def stand_in(directory: Path) -> Image:
    """A worker that processes nothing."""
    program = directory / "sluice"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    environment = {**of_this_machine(), "STAND_IN_TOPIC": CROWDS_TOPIC, "STAND_IN_CLINGS": str(directory / "never")}
    environment["PATH"] = f"{directory}:{environment['PATH']}"
    environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    return Image(environment=environment)


def quantile(part: float, buckets: Mapping[float, float]) -> float:
    """The upper end of the bucket of a histogram in which the quantile lies."""
    every = max(buckets.values())
    return min(le for le, count in buckets.items() if count >= part * every)


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
    rows = [*pace(), *crowd(options.apps, options.workers, options.seconds)]
    publish(rows, options.json)


if __name__ == "__main__":
    main()
