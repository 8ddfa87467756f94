"""Two operators, and what can befall the one that leads: never do both act, and workers go on all the time.

Each operator has an account of its own, so that the API server's audit log tells who has written what, and when.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from operator_process import Operator
from stand_in_log import leaders, said
from streams_app_flights import PARTITIONS, SECONDS, Flights
from tcp_forwarder import Forwarder

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import NodeAgent
from sluice_devkit.ports import free_ports
from sluice_devkit.process_guard import ProcessGuard
from sluice_operator.kube import paths

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes]

LEASE = ("8s", "6s", "500ms")
LONG_LEASE = ("40s", "30s", "500ms")
EXIT_LOST = 70
ACTS = ("create", "update", "patch", "delete")
REVIEWS_AND_LEASE = ("leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews")
"""Questions, and the election itself."""


@dataclass
class Pair:
    """Two operators behind one Service; only the first one's way to the API can be cut."""

    kubernetes: KubernetesCluster
    namespace: str
    first: Operator
    second: Operator
    way_of_first: Forwarder

    def start(self) -> None:
        """The first one leads, the second one waits."""
        self.first.start()
        self.wait_for("the first one leads", self.first.leads)
        self.second.start()
        self.wait_for("the second one is ready", lambda: self.second.probe("/readyz")[0] == 200)
        assert not self.second.leads()

    def acts(self, operator: Operator) -> list[str]:
        """When the account of the operator asked to change something, oldest first."""
        account = f"system:serviceaccount:{self.namespace}:{operator.log.stem}"
        return sorted(
            event["requestReceivedTimestamp"]
            for event in self.kubernetes.audit_events()
            if event["user"].get("username") == account
            and event["verb"] in ACTS
            and event["objectRef"]["resource"] not in REVIEWS_AND_LEASE
        )

    def wait_for(self, what: str, holds: Any) -> None:
        self.kubernetes.client.wait_for(what, holds, SECONDS)


@pytest.fixture
def guard() -> Iterator[ProcessGuard]:
    with ProcessGuard() as guard:
        yield guard


@pytest.fixture
def pair(kubernetes: KubernetesCluster, namespace: str, guard: ProcessGuard, tmp_path: Path) -> Iterator[Pair]:
    client = kubernetes.client
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    names, ports = ("first", "second"), (free_ports(2), free_ports(2))
    accounts = [{"kind": "ServiceAccount", "name": name, "namespace": namespace} for name in names]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    client.create(bindings, {"metadata": {"name": namespace}, "roleRef": role, "subjects": accounts})
    with (
        Forwarder([int(kubernetes.url.rpartition(":")[2])]) as way_of_first,
        Forwarder([coordinator for coordinator, _ in ports]) as service,
    ):

        def operator(name: str, own_ports: list[int], server: str) -> Operator:
            kubeconfig = account(kubernetes, namespace, name, tmp_path)
            kubeconfig.write_text(kubeconfig.read_text().replace(kubernetes.url, server))
            return Operator(
                kubernetes, guard, namespace, tmp_path / f"{name}.log", kubeconfig,
                f"https://127.0.0.1:{service.port}", (namespace,), LEASE, own_ports,
            )  # fmt: skip

        first = operator("first", ports[0], f"https://127.0.0.1:{way_of_first.port}")
        second = operator("second", ports[1], kubernetes.url)
        yield Pair(kubernetes, namespace, first, second, way_of_first)
    client.delete(f"{bindings}/{namespace}")


def account(kubernetes: KubernetesCluster, namespace: str, name: str, directory: Path) -> Path:
    """The kubeconfig of a new service account."""
    kubernetes.client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    token = kubernetes.service_account_token(namespace, name)
    return kubernetes.write_kubeconfig(directory / f"{name}.kubeconfig", token)


@pytest.fixture
def operator(kubernetes: KubernetesCluster, namespace: str, guard: ProcessGuard, tmp_path: Path) -> Operator:
    """One alone."""
    return Operator(kubernetes, guard, namespace, tmp_path / "operator.log", namespaces=(namespace,), lease=LEASE)


@pytest.fixture
def flights(
    kubernetes: KubernetesCluster, kafka: Any, nodes: NodeAgent, namespace: str, topics: Any, tmp_path: Path
) -> Iterator[Flights]:
    app = Flights(
        kubernetes, nodes, namespace, kafka.bootstrap_servers, topics.create("input", PARTITIONS), tmp_path,
        tmp_path / "operator.log",
    )  # fmt: skip
    yield app
    app.clings.unlink(missing_ok=True)
    if kubernetes.client.exists(app.path):  # there may be no operator left that could let it go
        kubernetes.client.patch(app.path, {"metadata": {"finalizers": None}})
        kubernetes.client.delete(app.path)


# What workers have said.


def gains(flights: Flights) -> Counter[tuple[str, str]]:
    """How often each worker of those that are there now has got each task."""
    counted: Counter[tuple[str, str]] = Counter()
    for pod in flights.pods():
        held: set[str] = set()
        for each in said(flights, pod):
            if each.what == "holds":
                counted.update((pod, task) for task in set(each.words) - held)
                held = set(each.words)
    return counted


def assert_one_leader_after_the_other(pair: Pair, flights: Flights) -> None:
    first, second = pair.acts(pair.first), pair.acts(pair.second)
    assert first
    assert second
    assert first[-1] < second[0], "the first one wrote after the second one had begun to"
    for pod in flights.pods():
        heard = leaders(flights, pod)
        assert heard == sorted(heard), f"{pod} was answered by an older leader after a newer one"


# A leader that is lost.


def test_a_frozen_leader_is_replaced_and_never_acts_again(pair: Pair, flights: Flights):
    pair.start()
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, old = flights.pods(), leaders(flights, "flights-worker-0")[-1]

    frozen = time.monotonic()
    pair.first.freeze()
    flights.scale(3)
    pair.wait_for("the second one leads", pair.second.leads)
    led = time.monotonic() - frozen
    pair.wait_for("workers hear the new leader", lambda: leaders(flights, "flights-worker-0")[-1] > old)
    heard = time.monotonic() - frozen
    flights.wait_ready(3)

    pair.first.thaw()
    thawed = time.monotonic()
    assert pair.first.process.wait(SECONDS) == EXIT_LOST
    ended = time.monotonic() - thawed
    flights.scale(2)
    flights.wait_ready(2)

    print(f"frozen: another leads after {led:.1f} s, workers hear it after {heard:.1f} s; "
          f"the frozen one ended {ended:.2f} s after it was thawed")  # fmt: skip
    assert flights.pods() == pods
    assert_one_leader_after_the_other(pair, flights)


def test_a_leader_that_is_cut_off_from_the_api_ends_before_the_next_one_begins(pair: Pair, flights: Flights):
    pair.start()
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, old = flights.pods(), leaders(flights, "flights-worker-0")[-1]

    cut = time.monotonic()
    pair.way_of_first.cut()
    flights.scale(3)
    assert pair.first.process.wait(SECONDS) == EXIT_LOST
    ended = time.monotonic() - cut
    assert not pair.second.leads()
    pair.wait_for("the second one leads", pair.second.leads)
    led = time.monotonic() - cut
    pair.wait_for("workers hear the new leader", lambda: leaders(flights, "flights-worker-0")[-1] > old)
    heard = time.monotonic() - cut
    flights.wait_ready(3)

    print(
        f"cut off: it ended after {ended:.1f} s, another leads after {led:.1f} s, workers hear it after {heard:.1f} s"
    )
    assert flights.pods().items() >= pods.items()
    assert_one_leader_after_the_other(pair, flights)


def test_a_leader_that_is_told_to_end_hands_over_at_once(pair: Pair, flights: Flights):
    pair.start()
    flights.apply(replicas=1)
    flights.wait_ready(1)

    told = time.monotonic()
    pair.first.process.terminate()
    pair.wait_for("the second one leads", pair.second.leads)
    print(f"SIGTERM: another leads after {time.monotonic() - told:.1f} s")
    assert pair.first.process.wait(SECONDS) == 0
    flights.scale(2)
    flights.wait_ready(2)
    assert_one_leader_after_the_other(pair, flights)


def test_a_follower_is_ready_and_serves_probes_and_metrics(pair: Pair, flights: Flights):
    pair.start()
    flights.apply(replicas=1)
    flights.wait_ready(1)

    for operator in (pair.first, pair.second):
        assert operator.probe("/healthz") == (200, "alive\n")
        assert operator.probe("/readyz") == (200, "ready\n")
    name = f'application="flights",namespace="{pair.namespace}"'
    assert pair.first.metric(f'sluice_group_state{{{name},state="stable"}}') == 1.0
    assert pair.first.metric('sluice_heartbeats_total{code="OK"}') > 0
    assert pair.second.metric('sluice_heartbeats_total{code="OK"}') == 0
    assert pair.second.metric('sluice_operator_api_calls_total{code="200",resource="leases",verb="get"}') > 0


def test_a_leader_that_may_not_see_its_applications_is_alive_and_not_ready(
    operator: Operator, kubernetes: KubernetesCluster, namespace: str, tmp_path: Path
):
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": ["", "coordination.k8s.io"], "resources": ["secrets", "leases"], "verbs": ["*"]}]
    kubernetes.client.create(f"{roles}/roles", {"metadata": {"name": "elector"}, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "elector", "namespace": namespace}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "elector"}
    binding = {"metadata": {"name": "elector"}, "roleRef": role, "subjects": subjects}
    kubernetes.client.create(f"{roles}/rolebindings", binding)

    operator.kubeconfig = account(kubernetes, namespace, "elector", tmp_path)
    operator.start()
    kubernetes.client.wait_for("it leads", operator.leads, SECONDS)

    assert operator.probe("/healthz") == (200, "alive\n")
    assert operator.probe("/readyz") == (503, "the applications have not been listed yet\n")


def test_an_operator_of_the_whole_cluster_is_ready_once_it_watches_it(operator: Operator):
    operator.namespaces = ()
    operator.start()
    operator.kubernetes.client.wait_for("it leads", operator.leads, SECONDS)

    operator.kubernetes.client.wait_for("it is ready", lambda: operator.probe("/readyz") == (200, "ready\n"), SECONDS)


# An API server that is away.


def test_no_worker_dies_while_the_api_server_stands_still_and_restarts(
    operator: Operator, flights: Flights, kubernetes: KubernetesCluster
):
    operator.lease = LONG_LEASE
    operator.start()
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, processes = flights.pods(), pids(flights)

    kubernetes.freeze()
    time.sleep(10)
    kubernetes.thaw()
    kubernetes.restart_apiserver()
    flights.scale(3)
    flights.wait_ready(3)

    assert operator.process.poll() is None
    assert flights.pods().items() >= pods.items()
    assert pids(flights).items() >= processes.items()


def pids(flights: Flights) -> dict[str, int]:
    return {
        pod: container.pid for pod in flights.pods() for container in flights.nodes.containers(flights.namespace, pod)
    }


# An operator that dies in the middle.


def test_a_scale_out_is_finished_and_nothing_moves_twice(operator: Operator, flights: Flights):
    operator.start()
    flights.apply(replicas=1)
    flights.wait_ready(1)
    before = gains(flights)
    flights.clings.touch()
    flights.scale(2)
    flights.wait_for("the second worker has been told", lambda: len(leaders(flights, "flights-worker-1")) > 1)

    restart_while_away(operator, flights.clings.unlink)
    flights.wait_for("half of the tasks have moved", lambda: sum((gains(flights) - before).values()) >= PARTITIONS // 2)
    flights.wait_ready(2)

    moved = gains(flights) - before
    assert set(moved.values()) == {1}
    assert [pod for pod, _ in moved] == ["flights-worker-1"] * (PARTITIONS // 2)


def test_a_scale_in_is_finished_and_nothing_moves_twice(operator: Operator, flights: Flights):
    operator.start()
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, before = flights.pods(), gains(flights)
    flights.clings.touch()
    flights.scale(1)
    flights.wait_condition("Draining", "True", "HandingOver")

    restart_while_away(operator, flights.clings.unlink)
    flights.wait_ready(1)

    assert flights.pods() == {"flights-worker-0": pods["flights-worker-0"]}
    moved = gains(flights) - before
    assert set(moved.values()) == {1}
    assert [pod for pod, _ in moved] == ["flights-worker-0"] * (PARTITIONS // 2)


def test_a_drain_that_is_taken_back_while_no_operator_is_there_moves_nothing(operator: Operator, flights: Flights):
    operator.start()
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, before, ready = flights.pods(), gains(flights), flights.since("Ready")
    flights.clings.touch()
    flights.scale(1)
    flights.wait_condition("Draining", "True", "HandingOver")

    restart_while_away(operator, lambda: flights.scale(2))
    flights.wait_condition("Draining", "False", "NobodyLeaves")
    flights.clings.unlink()
    flights.wait_ready(2)

    assert flights.pods() == pods
    assert gains(flights) == before
    assert flights.since("Ready") == ready


def test_a_pod_that_is_deleted_is_replaced_and_nothing_moves_twice(
    operator: Operator, flights: Flights, nodes: NodeAgent
):
    operator.start()
    flights.apply(replicas=2)
    flights.wait_ready(2)
    pods, claims = flights.pods(), flights.claims()
    before = Counter({(pod, task): times for (pod, task), times in gains(flights).items() if pod == "flights-worker-0"})
    nodes.pause(flights.namespace, "flights-worker-1")  # so that it is still going when the operator dies
    flights.kubernetes.client.delete(f"{paths.pods(flights.namespace)}/flights-worker-1")

    def end() -> None:
        nodes.resume(flights.namespace, "flights-worker-1")
        flights.wait_for("the pod is gone", lambda: "flights-worker-1" not in flights.pods())

    restart_while_away(operator, end)
    flights.wait_for("its slot is filled again", lambda: flights.pods().keys() == pods.keys())
    flights.wait_ready(2)

    assert flights.pods()["flights-worker-0"] == pods["flights-worker-0"]
    assert flights.claims() == claims
    assert created_pods(flights) == {"flights-worker-0": 1, "flights-worker-1": 2}
    assert set((gains(flights) - before).values()) == {1}


def test_a_lost_node_and_its_return_are_seen_through_and_nothing_moves_twice(
    operator: Operator, flights: Flights, nodes: NodeAgent
):
    """The operator dies twice: when the stand-in holds nothing yet, and when it is about to leave again."""
    operator.start()
    flights.apply(replicas=1)
    flights.wait_ready(1)
    node, pods = flights.node_of("flights-worker-0"), flights.pods()
    nodes.pause(flights.namespace, "flights-worker-0")
    nodes.partition(node)
    try:
        flights.wait_for("there is another worker", lambda: "flights-worker-1" in flights.pods())
        restart_while_away(operator, lambda: None)
        flights.wait_for("it has every task", lambda: len(tasks_of(flights, "flights-worker-1")) == PARTITIONS)
        flights.clings.touch()
    finally:
        nodes.resume(flights.namespace, "flights-worker-0")
        nodes.heal(node)
    flights.wait_condition("Draining", "True", "HandingOver")
    stood_in = gains(flights)

    restart_while_away(operator, flights.clings.unlink)
    flights.wait_for("the stand-in has left", lambda: flights.pods() == pods)
    flights.wait_ready(1)

    assert created_pods(flights) == {"flights-worker-0": 1, "flights-worker-1": 1}
    assert {count for (pod, _), count in stood_in.items() if pod == "flights-worker-1"} == {1}
    assert set(gains(flights).values()) == {2}  # at first, and when it was back


@pytest.mark.parametrize("rollout", ["Drain", "Restart"])
def test_a_rolling_update_is_finished_and_nothing_moves_twice(
    operator: Operator, flights: Flights, nodes: NodeAgent, rollout: str
):
    operator.start()
    flights.apply(replicas=2, rollout=rollout)
    flights.wait_ready(2)
    pods, claims = flights.pods(), flights.claims()
    if rollout == "Drain":
        flights.clings.touch()
    else:
        nodes.pause(flights.namespace, "flights-worker-1")

    flights.patch(workers={"template": {"metadata": {"labels": {"release": "2"}}}})
    flights.wait_for("the first worker is going", lambda: {"DrainStarted", "WorkerRestarting"} & set(flights.events()))

    def go_on() -> None:
        flights.clings.unlink(missing_ok=True)
        nodes.resume(flights.namespace, "flights-worker-1")

    restart_while_away(operator, go_on)
    flights.wait_for("every pod is another one", lambda: flights.are_others(pods))
    flights.wait_ready(2)

    assert flights.claims() == claims
    assert created_pods(flights) == {"flights-worker-0": 2, "flights-worker-1": 2}
    said_when_going = "DrainStarted" if rollout == "Drain" else "WorkerRestarting"
    assert flights.events().count(said_when_going) == 2
    assert set(gains(flights).values()) == {1}
    moves = operator.group(flights.namespace, flights.name).moves
    assert len(moves) <= 2 * PARTITIONS  # the half of each worker goes, and comes back


def tasks_of(flights: Flights, pod: str) -> list[str]:
    """What the worker holds, as it has said last."""
    held = [each.words for each in said(flights, pod) if each.what == "holds"]
    return held[-1] if held else []


def created_pods(flights: Flights) -> Counter[str]:
    """How often a pod of each name was created."""
    created = {"resource": "pods", "namespace": flights.namespace}
    return Counter(
        event["requestObject"]["metadata"]["name"]
        for event in flights.kubernetes.audit_events()
        if event["verb"] == "create" and event["responseStatus"]["code"] == 201
        and event["objectRef"].items() >= created.items() and "subresource" not in event["objectRef"]
    )  # fmt: skip


def restart_while_away(operator: Operator, meanwhile: Any) -> None:
    """SIGKILL, and another one. It need not wait for the Lease of the dead one to run out: nobody renews it."""
    client = operator.kubernetes.client
    operator.kill()
    client.patch(f"{paths.leases(operator.lease_namespace)}/sluice-operator", {"spec": {"holderIdentity": ""}})
    meanwhile()
    operator.start()
    client.wait_for("it leads again", operator.leads, SECONDS)
