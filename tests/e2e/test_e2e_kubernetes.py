"""A StreamsApp on a real API server, with real workers and a real Kafka, from its creation to its end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from e2e_application import SECONDS, Shop
from operator_process import Operator
from streams_app import StreamsApp

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import NodeAgent
from sluice_devkit.process_guard import ProcessGuard

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
USERS = 500
SLOW_ENOUGH_TO_BE_SEEN = 20_000
ACCEPTABLE_LAG = 100
LINES_OF_A_LOG = 60
FULL_RESTORE = "from the start of its changelogs"
"""What a worker says in its log."""


@pytest.fixture
def app(shop: Shop, kubernetes: KubernetesCluster, nodes: NodeAgent, namespace: str) -> Iterator[StreamsApp]:
    shop.create_topics("orders", "totals")
    spec = {
        "applicationId": shop.application_id,
        "kafka": {"bootstrapServers": shop.servers},
        "pipeline": {"module": "e2e_pipelines:counting"},
        "assignment": {"acceptableRecoveryLag": ACCEPTABLE_LAG},
        "workers": {"restoreBytesPerSecond": SLOW_ENOUGH_TO_BE_SEEN},
    }
    environment = {
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "E2E_PREFIX": shop.topics.prefix,
        "E2E_MENDED": str(shop.mended),
    }
    app = StreamsApp(kubernetes, nodes, namespace, "orders", spec, environment)
    yield app
    tell_the_end(app)


@pytest.fixture
def operator(kubernetes: KubernetesCluster, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    with ProcessGuard() as guard:
        operator = Operator(kubernetes, guard, namespace, tmp_path / "operator.log", namespaces=(namespace,))
        operator.start()
        yield operator


def test_an_application_scales_and_heals_and_ends(shop: Shop, app: StreamsApp, operator: Operator):
    app.apply(replicas=1)
    app.wait_ready(1)
    shop.order_many(20_000, USERS)

    with shop.steady_orders(rate=500, users=USERS):
        app.scale(2)
        app.wait_for("the status tells of a warm-up with its lag", lambda: warms_up(app))
        app.wait_ready(2)
    before, claims = app.pods(), app.claims()

    # Without new orders its copies are as good as they were, however long a busy machine takes to start it again.
    app.kubernetes.client.delete(f"/api/v1/namespaces/{app.namespace}/pods/orders-worker-1")
    wait_replaced(app, operator, {"orders-worker-1": before["orders-worker-1"]})
    assert app.claims() == claims
    assert FULL_RESTORE not in app.nodes.log(app.namespace, "orders-worker-1")

    with shop.steady_orders(rate=500, users=USERS):
        app.scale(1)
        operator.kill()
        operator.start()
        app.wait_ready(1)
        assert app.claims() == claims

    check(shop)
    app.delete()
    app.wait_for("it is gone", lambda: not app.exists())
    assert app.pods() == {}
    assert app.claims() == {}
    assert {"WorkerCreated", "DrainStarted", "WorkerDeleted", "AllTasksRunning"} <= set(app.events())


def test_a_worker_that_was_cut_off_with_its_node_is_replaced_and_then_fenced(
    shop: Shop, app: StreamsApp, operator: Operator
):
    """Frozen and cut off it says nothing to anybody, and hears nothing; it wakes up believing in its tasks."""
    app.apply(replicas=2)
    app.wait_ready(2)
    shop.order_many(5_000, USERS)
    claims, node = app.claims(), app.nodes_of_pods()["orders-worker-1"]

    with shop.steady_orders(rate=500, users=USERS):
        app.nodes.partition(node)
        app.nodes.pause(app.namespace, "orders-worker-1")
        app.wait_for("another worker stands in", lambda: owners(shop) == {"worker-0", "worker-2"})
        assert app.nodes_of_pods()["orders-worker-2"] != node

        app.nodes.resume(app.namespace, "orders-worker-1")
        app.nodes.heal(node)
        app.wait_for("it is as it was", lambda: app.is_ready(2) and "orders-worker-2" not in app.pods())
        app.wait_for("the first two share the work", lambda: owners(shop) == {"worker-0", "worker-1"})

    check(shop)
    assert claims.items() <= app.claims().items()


def test_a_rolling_update_hands_every_task_over_warm(shop: Shop, app: StreamsApp, operator: Operator):
    app.apply(replicas=2)
    app.wait_ready(2)
    shop.order_many(5_000, USERS)
    before, claims = app.pods(), app.claims()

    with shop.steady_orders(rate=500, users=USERS), shop.watch() as watch:
        assert watch.wait_for_advance(time.time(), SECONDS)
        began = time.time()
        app.patch(workers={"template": {"metadata": {"labels": {"release": "2"}}}})
        wait_replaced(app, operator, before)
        over = time.time()
        assert watch.wait_for_advance(over, SECONDS)
        stood_still = watch.stand_stills(began, over)

    check(shop)
    assert app.claims() == claims
    assert app.events().count("DrainStarted") == 2
    moves = [move for move in operator.group(app.namespace, app.name).moves if move.source is not None]
    assert moves
    assert [move for move in moves if not move.planned or move.lag > ACCEPTABLE_LAG] == []
    pauses, silences = sorted(still.seconds for still in stood_still.values()), shop.longest_silences(began, over)
    print(f"rolling update of {over - began:.0f} s, {len(moves)} hand-overs of at most "
          f"{max(move.pause_ms for move in moves)} ms: partitions stood still for {pauses[0]:.2f} to "
          f"{pauses[-1]:.2f} s, workers were silent for {min(silences.values()):.1f} s or more")  # fmt: skip
    assert pauses[-1] < min(silences.values()), "a task waited until its worker was replaced"


def wait_replaced(app: StreamsApp, operator: Operator, before: Mapping[str, str]) -> None:
    """Until other pods of these names share the tasks. Members are asked for: a status may be that of a moment ago."""

    def are_replaced() -> bool:
        pods = app.pods()
        members = {member.incarnation for member in operator.group(app.namespace, app.name).members}
        return all(pods.get(name, uid) != uid for name, uid in before.items()) and members == set(pods.values())

    app.wait_for(f"{', '.join(before)}: replaced by members", are_replaced)
    app.wait_ready(2)


def tell_the_end(app: StreamsApp) -> None:
    """What one wants to know of a test that has failed; pytest shows it then only."""
    if app.exists():
        print(json.dumps(app.status(), indent=1))
        for pod in app.pods():
            print(f"{pod}:", *app.nodes.log(app.namespace, pod).splitlines()[-LINES_OF_A_LOG:], sep="\n  ")


def warms_up(app: StreamsApp) -> bool:
    return any(warmup.get("lag", 0) > 0 for warmup in app.status().get("warmups", ()))


def owners(shop: Shop) -> set[str]:
    """The workers that committed last, over all partitions."""
    return {committed[-1] for committed in shop.owners().values()}


def check(shop: Shop) -> None:
    """Every order counts once, and no partition ever had two owners."""
    shop.wait_processed()
    assert shop.totals() == shop.expected
    shop.owners()
