"""One operator, many applications: what is broken delays nobody else, and asks the API for little."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from operator_process import Operator
from stand_in_log import said
from streams_app_flights import PARTITIONS, Flights
from tcp_forwarder import Forwarder

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import NodeAgent
from sluice_devkit.process_guard import ProcessGuard

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes]

NOBODY = "127.0.0.1:1"
BROKEN = 6
ANSWERS = 8
HEARTBEAT_SECONDS = 3.0
LATE_SECONDS = 1.5
"""Less than the 3 s that it takes to find out that a Kafka does not answer."""


@pytest.fixture
def operator(kubernetes: KubernetesCluster, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    with ProcessGuard() as guard:
        operator = Operator(kubernetes, guard, namespace, tmp_path / "operator.log", namespaces=(namespace,))
        operator.start()
        yield operator


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A Kafka that takes connections and never says anything."""
    with Forwarder([1]) as forwarder:
        forwarder.cut()
        yield f"127.0.0.1:{forwarder.port}"


@pytest.fixture
def flights(
    operator: Operator, kubernetes: KubernetesCluster, kafka: Any, nodes: NodeAgent, namespace: str, topics: Any,
    tmp_path: Path,
) -> Flights:  # fmt: skip
    return Flights(
        kubernetes, nodes, namespace, kafka.bootstrap_servers, topics.create("input", PARTITIONS), tmp_path,
        operator.log,
    )  # fmt: skip


def test_applications_whose_kafka_is_away_delay_no_other(operator: Operator, flights: Flights, black_hole: str):
    flights.apply(replicas=1)
    flights.wait_ready(1)
    broken = [
        dataclasses.replace(flights, name=f"broken-{number}", bootstrap_servers=servers)
        for number, servers in zip(range(BROKEN), itertools.cycle([NOBODY, black_hole]), strict=False)
    ]
    for each in broken:
        each.apply(replicas=1, applicationId=f"{flights.namespace}-{each.name}")
    for each in broken:
        each.wait_condition("KafkaReachable", "False", "KafkaUnreachable")

    heard = len(answers(flights))
    flights.wait_for("there are more answers", lambda: len(answers(flights)) >= heard + ANSWERS)
    gaps = [after - before for before, after in itertools.pairwise(answers(flights)[heard:])]
    looks, slow = looks_and_slow_ones(operator)
    flights.scale(2)
    flights.wait_ready(2)

    print(f"{BROKEN} broken applications: answers to the healthy one every {max(gaps):.1f} s at most; "
          f"{slow:.0f} of {looks:.0f} looks took more than 2.5 s")  # fmt: skip
    assert max(gaps) < HEARTBEAT_SECONDS + LATE_SECONDS
    assert slow <= looks / 20
    assert operator.probe("/readyz")[0] == 200
    assert operator.log.read_text().count("coordinated under leader epoch 1\n") == 1 + BROKEN


def answers(flights: Flights) -> list[float]:
    """When worker-0 was answered."""
    return [each.at for each in said(flights, "flights-worker-0") if each.what == "answered"]


def looks_and_slow_ones(operator: Operator) -> tuple[float, float]:
    name = "sluice_operator_reconcile_seconds"
    looks = operator.metric(f"{name}_count")
    return looks, looks - operator.metric(f'{name}_bucket{{le="2.5"}}')
