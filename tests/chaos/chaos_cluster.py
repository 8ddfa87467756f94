"""What will befall an application on Kubernetes, and how it is done: pods, nodes, operator, API server, broker."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from operator_process import Operator
from streams_app import StreamsApp

from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.errors import ApiError, KubernetesError

SIZES = (1, 2, 3)
_SCALING = 0.4
_FAULT_SECONDS = 180.0
_BEYOND_THE_SESSION = 13.0
"""Workers of a StreamsApp have 10 s to be heard of."""
_API_FROZEN = 5.0


class Kind(Enum):
    KILL_CONTAINER = "container killed"
    DELETE_POD = "pod deleted"
    PAUSE_POD = "pod frozen past its session, woken later"
    CUT_OFF_NODE = "node cut off past the session, healed later"
    FAIL_NODE = "node lost, booted later"
    KILL_OPERATOR = "operator killed and started again"
    FREEZE_API = "API server frozen"
    RESTART_API = "API server killed and restarted"
    RESTART_BROKER = "broker killed and restarted"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the `pause` before it in seconds, the workers wanted from then on, and which pod it hits."""

    number: int
    kind: Kind
    pause: float
    workers: int
    victim: int

    def __str__(self) -> str:
        return f"{self.number}. {self.kind.value}; {self.workers} workers wanted"


def schedule(seed: int, faults: int) -> tuple[Fault, ...]:
    """So many faults in random order, each kind at least twice."""
    fewest = 2 * len(Kind)
    if faults < fewest:
        raise ValueError(f"FAULTS is {faults}; it must be at least {fewest} to do everything twice")
    chance = random.Random(seed)
    kinds = [*Kind, *Kind, *(chance.choice(list(Kind)) for _ in range(faults - fewest))]
    chance.shuffle(kinds)
    planned, workers = [], SIZES[1]
    for number, kind in enumerate(kinds, 1):
        if chance.random() < _SCALING:
            workers = chance.choice([size for size in SIZES if size != workers])
        planned.append(Fault(number, kind, chance.uniform(0.0, 3.0), workers, chance.randrange(100)))
    return tuple(planned)


class ClusterStage:
    """Inflicts faults one after another; what follows from one is not waited for before the next."""

    def __init__(self, app: StreamsApp, operator: Operator, kafka: KafkaCluster, say: Callable[[str], None]) -> None:
        self._app = app
        self._operator = operator
        self._kafka = kafka
        self._say = say
        self._began = time.monotonic()
        self.done: Counter[Kind] = Counter()

    def inflict(self, fault: Fault) -> None:
        """Do it, and return when it has happened and is undone."""
        self._app.scale(fault.workers)
        time.sleep(fault.pause)  # the instant is a part of the schedule
        began = time.monotonic()
        self._do(fault)
        self.done[fault.kind] += 1
        now = time.monotonic()
        self._say(f"{now - self._began:6.1f} s: {fault}: {now - began:.1f} s")

    def _do(self, fault: Fault) -> None:
        kubernetes = self._app.kubernetes
        match fault.kind:
            case Kind.KILL_CONTAINER:
                self._on_a_pod(fault, lambda pod: self._app.nodes.kill(self._app.namespace, pod))
            case Kind.DELETE_POD:
                self._on_a_pod(fault, self._delete)
            case Kind.PAUSE_POD:
                self._on_a_pod(fault, self._pause)
            case Kind.CUT_OFF_NODE:
                self._on_a_pod(fault, lambda pod: self._cut_off(pod, self._app.nodes.partition))
            case Kind.FAIL_NODE:
                self._on_a_pod(fault, lambda pod: self._cut_off(pod, self._app.nodes.fail_node))
            case Kind.KILL_OPERATOR:
                self._operator.kill()
                self._operator.start()
            case Kind.FREEZE_API:
                kubernetes.freeze()
                time.sleep(_API_FROZEN)
                kubernetes.thaw()
            case Kind.RESTART_API:
                kubernetes.restart_apiserver()
            case Kind.RESTART_BROKER:
                self._kafka.kill(0)
                self._kafka.restart(0)

    def _on_a_pod(self, fault: Fault, harm: Callable[[str], None]) -> None:
        """A pod that ends in this moment is not harmed: then another one is."""
        deadline = time.monotonic() + _FAULT_SECONDS
        while True:
            running = sorted(pod for pod in self._app.pods() if self._app.nodes.containers(self._app.namespace, pod))
            if running:
                try:
                    return harm(running[fault.victim % len(running)])
                except KubernetesError:
                    continue
            assert time.monotonic() < deadline, f"{fault}: no worker runs; {self._app.status()}"
            time.sleep(0.1)

    def _delete(self, pod: str) -> None:
        self._app.kubernetes.client.delete(f"/api/v1/namespaces/{self._app.namespace}/pods/{pod}")

    def _pause(self, pod: str) -> None:
        self._app.nodes.pause(self._app.namespace, pod)
        time.sleep(_BEYOND_THE_SESSION)
        try:
            self._app.nodes.resume(self._app.namespace, pod)
        except ApiError:
            raise
        except KubernetesError:
            return  # it was to end anyway, and was ended by force

    def _cut_off(self, pod: str, cut: Callable[[str], None]) -> None:
        node = self._app.nodes_of_pods().get(pod)
        if node is None:
            raise KubernetesError(f"pod {pod} is gone")
        cut(node)
        time.sleep(_BEYOND_THE_SESSION)
        self._app.nodes.heal(node)
