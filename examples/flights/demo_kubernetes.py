"""The main job on Kubernetes: kubectl apply, then scale out while records keep arriving, a death, scale in, delete.

Everything is real: etcd, API server and controller manager, the chart as Helm installs it, the operator under the
chart's ServiceAccount, a Kafka broker, Spark in every pod; only the nodes run pods as processes of this machine. Exit
code 0 means what it means for `demo.py`, and that nothing of the application is left after `kubectl delete`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from feed import Feeder
from report import conclude
from story import (
    APPLICATION,
    PHASE_SECONDS,
    DemoFailedError,
    Phase,
    await_processed,
    console,
    loaded,
    phase,
    say,
    settled,
    tell,
)
from watcher import Watcher

from sluice_cli.commands.dev import OPERATOR_COMMAND, OPERATOR_IMAGE
from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.errors import CommandError
from sluice_cli.http_call import Trust
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.cluster import NODE_AGENT, KubernetesCluster
from sluice_devkit.kubernetes.components import KUBECTL, programs
from sluice_devkit.kubernetes.errors import KubernetesError
from sluice_devkit.kubernetes.helm import Helm, HelmError
from sluice_devkit.kubernetes.https_service import https_service
from sluice_devkit.node_agent import Image, NodeAgent, of_this_machine
from sluice_devkit.offsets import CommitWitness
from sluice_protocol.view import GroupView

HERE = Path(__file__).parent
CHART = HERE.parents[1] / "charts" / "sluice"
MANIFEST = HERE / "streamsapp.yaml"
KAFKA_IN_MANIFEST = "localhost:9092"
OPERATORS_NAMESPACE = "sluice-system"
SERVICE = "sluice-coordinator"
NODES = {"node-a-0": "zone-a", "node-b-0": "zone-b", "node-c-0": "zone-c"}
IMAGES = {
    "flights": Image(environment={**of_this_machine(), "PYTHONPATH": str(HERE)}),
    OPERATOR_IMAGE: Image(OPERATOR_COMMAND),
}
"""What an image of this name would run."""

READY_SECONDS = 180
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl, as a person uses it."""

    program: Path
    kubeconfig: Path

    def shown(self, arguments: str, text: str | None = None) -> str:
        """Run it in sight. Raises DemoFailedError."""
        say(f"[bold]$ kubectl {arguments}[/]")
        answer = self(*shlex.split(arguments), text=text)
        console.print(answer, end="", style="dim")
        return answer

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """What it prints. Raises DemoFailedError."""
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]
        run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=READY_SECONDS, check=False)
        if run.returncode != 0:
            raise DemoFailedError(f"kubectl {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout


def run(directory: Path) -> None:
    """The whole demo. Raises DemoFailedError."""
    with KafkaCluster() as kafka:
        say(f"Kafka runs at {kafka.bootstrap_servers}")
        feeder = loaded(kafka)
        with playground(directory) as (kubernetes, nodes):
            kubectl = Kubectl(programs() / KUBECTL, kubernetes.kubeconfig)
            install(kubernetes, kubectl)
            with CommitWitness(kafka.bootstrap_servers, APPLICATION) as witness:
                story = Story(kubectl, nodes, coordinator(kubernetes), feeder, kafka.bootstrap_servers)
                phases = story.tell()
                further = {"warm-ups in the status": f"{len(story.warm_ups_in_status)} seen with a lag"}
                conclude(kafka.bootstrap_servers, feeder, story.watcher, phases, witness, further)
                if not story.warm_ups_in_status:
                    raise DemoFailedError("the status told of no warm-up")


@contextmanager
def playground(directory: Path) -> Iterator[tuple[KubernetesCluster, NodeAgent]]:
    """A control plane and three nodes."""
    with KubernetesCluster(directory / "kubernetes") as kubernetes:
        nodes = NodeAgent(kubernetes.client_of(NODE_AGENT), NODES, IMAGES, certificate=kubernetes.serving_certificate)
        with nodes:
            say(f"Kubernetes runs at {kubernetes.url}, with {len(NODES)} nodes")
            yield kubernetes, nodes


def install(kubernetes: KubernetesCluster, kubectl: Kubectl) -> None:
    """The chart, as a person installs it; nothing of it is left out."""
    kubectl("create", "namespace", OPERATORS_NAMESPACE)
    say(f"[bold]$ helm install sluice charts/sluice --namespace {OPERATORS_NAMESPACE}[/]")
    Helm.built().install(kubernetes.kubeconfig, CHART, "sluice", OPERATORS_NAMESPACE)
    kubectl("rollout", "status", "deployment/sluice", "--namespace", OPERATORS_NAMESPACE, "--timeout=60s")
    say("the operator runs, under the chart's ServiceAccount")


class Story:
    """One worker, three, a death, two, the end; then everything that is left."""

    def __init__(
        self,
        kubectl: Kubectl,
        nodes: NodeAgent,
        coordinator: CoordinatorClient,
        feeder: Feeder,
        bootstrap_servers: str,
    ) -> None:
        self._kubectl = kubectl
        self._nodes = nodes
        self._view = coordinator.view
        self._feeder = feeder
        self._bootstrap_servers = bootstrap_servers
        self.watcher = Watcher(self._view, say)
        self.warm_ups_in_status: set[tuple[str, str]] = set()
        """Task and worker of each that the status of the StreamsApp told of, with a lag."""

    def tell(self) -> list[Phase]:
        """Tell it, and return its phases. Raises DemoFailedError."""
        phases: list[Phase] = []
        with phase(phases, "one worker"):
            manifest = MANIFEST.read_text().replace(KAFKA_IN_MANIFEST, self._bootstrap_servers)
            self._kubectl.shown("apply -f -", manifest)
            self._kubectl.shown(f"wait --for=condition=Ready sapp/flights --timeout={READY_SECONDS}s")
            self._await(1)
            await_processed(self._bootstrap_servers, self._feeder)
        self.watcher.start()
        try:
            self._scale(phases)
        finally:
            self.watcher.stop()
        self._kubectl.shown("describe sapp flights")
        self._delete()
        return phases

    def _scale(self, phases: list[Phase]) -> None:
        self._feeder.start()
        with phase(phases, "scale out to three"):
            self._kubectl.shown("scale sapp flights --replicas=3")
            self._await(3)
            self._kubectl.shown("get sapp,pods,pvc")
        with phase(phases, "kill -9 of worker-1"):
            dead = {member.member_id for member in self._view().members if member.worker == "worker-1"}
            self._nodes.kill("default", "flights-worker-1")
            self._await(3, lambda view: not dead & {member.member_id for member in view.members})
        with phase(phases, "scale in to two, drained"):
            self._kubectl.shown("scale sapp flights --replicas=2")
            self._await(2)
        self._feeder.finish()
        with phase(phases, "the rest of the flights"):
            await_processed(self._bootstrap_servers, self._feeder)

    def _delete(self) -> None:
        console.rule("delete", align="left")
        self._kubectl.shown(f"delete sapp flights --timeout={READY_SECONDS}s")
        left = self._kubectl("get", "pods,pvc", "--selector=sluice.dev/app=flights", "--output=name")
        if left:
            raise DemoFailedError(f"after kubectl delete there are still {' '.join(left.split())}")
        say("no pod and no volume is left")

    def _await(self, workers: int, holds: Callable[[GroupView], bool] = lambda _: True) -> None:
        """Wait until the group has settled, and look at what the status says meanwhile."""
        deadline = time.monotonic() + PHASE_SECONDS
        while True:
            self._note_status()
            try:
                view = self._view()
                if settled(view, workers) and holds(view):
                    return
                seen = f"the group is {view.state}, {view.pending_moves} moves are left"
            except CommandError as error:
                seen = str(error)
            if time.monotonic() > deadline:
                raise DemoFailedError(f"not settled with {workers} workers after {PHASE_SECONDS:.0f} s: {seen}")
            time.sleep(_LOOK_SECONDS)

    def _note_status(self) -> None:
        told = json.loads(self._kubectl("get", "sapp", "flights", "--output=json")).get("status", {}).get("warmups", ())
        self.warm_ups_in_status |= {(each["task"], each["worker"]) for each in told if each.get("lag")}


def coordinator(kubernetes: KubernetesCluster) -> CoordinatorClient:
    """The coordinator's read API, behind the operator's Service, as the cluster's admin. Raises CommandError."""
    url, ca = https_service(kubernetes.client, OPERATORS_NAMESPACE, SERVICE, f"{SERVICE}-tls")
    return CoordinatorClient(url, kubernetes.client.token, APPLICATION, "default", trust=Trust(ca))


if __name__ == "__main__":
    sys.exit(tell(run, KubernetesError, HelmError, CommandError))
