"""A StreamsApp on a real API server, with real workers and a real Kafka, from its creation to its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from e2e_application import Shop
from e2e_kubernetes import OnKubernetes

from sluice_devkit.process_guard import ProcessGuard

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]

USERS = 500


@pytest.fixture
def guard() -> Iterator[ProcessGuard]:
    with ProcessGuard() as guard:
        yield guard


@pytest.fixture
def playground(shop: Shop, kubernetes: Any, nodes: Any, namespace: str) -> OnKubernetes:
    shop.create_topics("orders", "totals")
    return OnKubernetes(shop, kubernetes, nodes, namespace)


def test_an_application_scales_and_heals_and_ends_on_kubernetes(playground: OnKubernetes, guard: ProcessGuard):
    shop = playground.shop
    operator = playground.start_operator(guard)

    playground.apply(replicas=1)
    playground.wait_for("it is ready with one worker", lambda: playground.is_ready(1))
    shop.order_many(20_000, USERS)

    with shop.steady_orders(rate=500, users=USERS):
        playground.scale(2)
        playground.wait_for("it is ready with two workers", lambda: playground.is_ready(2))
        before, claims = playground.pods(), playground.claims()

        playground.kubernetes.client.delete(f"/api/v1/namespaces/{playground.namespace}/pods/orders-worker-1")
        playground.wait_for("the pod is another one", lambda: playground.pods().keys() == before.keys()
                            and playground.pods()["orders-worker-1"] != before["orders-worker-1"])  # fmt: skip
        playground.wait_for("it has healed", lambda: playground.is_ready(2))
        assert playground.claims() == claims

        playground.scale(1)
        operator.send_signal(signal.SIGKILL)
        operator.wait()
        playground.start_operator(guard)
        playground.wait_for("one worker is left", lambda: playground.is_ready(1))
        assert playground.claims() == claims

    shop.wait_processed()
    assert shop.totals() == shop.expected
    shop.owners()

    playground.delete()
    playground.wait_for("it is gone", lambda: not playground.exists())
    assert playground.pods() == {}
    assert playground.claims() == {}
    assert {"WorkerCreated", "DrainStarted", "WorkerDeleted", "AllTasksRunning"} <= set(playground.events())
