"""Exactly once on Kubernetes, whatever breaks: seeded faults of pods, nodes, operator, API server and broker.

    make chaos FAULTS=300 SEED=7

The seed fixes what breaks, in which order and at what distance; the rest is the machine's.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chaos_cluster import ClusterStage, Kind, schedule
from chaos_feed import Feeder
from chaos_outcome import APPLICATION, INPUTS, Reader, Truth, check_counts, check_echo
from operator_process import Operator
from streams_app import StreamsApp

from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.node_agent import NodeAgent
from sluice_devkit.offsets import CommitWitness
from sluice_devkit.process_guard import ProcessGuard

HERE = Path(__file__).parent
FAULTS = int(os.environ.get("FAULTS") or 20)
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
RATE = 200
END_SECONDS = 300.0


@pytest.fixture
def app(own_kafka: KafkaCluster, kubernetes: KubernetesCluster, nodes: NodeAgent, namespace: str) -> StreamsApp:
    spec = {
        "applicationId": APPLICATION,
        "kafka": {"bootstrapServers": own_kafka.bootstrap_servers},
        "pipeline": {"module": "echo_pipeline:topology"},
        "assignment": {"acceptableRecoveryLag": 100},
    }
    return StreamsApp(kubernetes, nodes, namespace, APPLICATION, spec, {"PYTHONPATH": str(HERE)})


@pytest.fixture
def operator(kubernetes: KubernetesCluster, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    with ProcessGuard() as guard:
        yield Operator(kubernetes, guard, namespace, tmp_path / "operator.log", namespaces=(namespace,))


@pytest.mark.chaos
@pytest.mark.kafka
@pytest.mark.kubernetes
@pytest.mark.spark
@pytest.mark.timeout(900 + 40 * FAULTS)
def test_every_record_counts_exactly_once_on_kubernetes(
    own_kafka: KafkaCluster, app: StreamsApp, operator: Operator, say: Callable[[str], None]
) -> None:
    faults = schedule(SEED, max(FAULTS, 2 * len(Kind)))
    say(f"\n{len(faults)} faults, SEED={SEED}; operator: {operator.log}")
    operator.start()
    app.apply(replicas=2)
    app.wait_ready(2)
    feeder = Feeder(own_kafka.bootstrap_servers, RATE, SEED)
    feeder.start()
    stage = ClusterStage(app, operator, own_kafka, say)
    for fault in faults:
        stage.inflict(fault)
    broken = time.monotonic()
    sent = feeder.finish()
    reader = Reader(own_kafka.bootstrap_servers)
    app.scale(2)
    app.wait_for("two workers have settled", lambda: app.is_ready(2), END_SECONDS)
    app.wait_for("all is processed", lambda: not any(reader.count_behind(APPLICATION, topic) for topic in INPUTS),
                 END_SECONDS)  # fmt: skip
    say(f"{sent:,} records, {stage.done.total()} faults; all settled {time.monotonic() - broken:.0f} s after the last")

    truth = Truth.of(reader)
    with CommitWitness(own_kafka.bootstrap_servers, APPLICATION) as witness:
        violations = [str(violation) for violation in witness.check()]
    assert truth.ids.total() == len(truth.ids) == sent
    assert check_echo(reader.read("echo"), truth) == []
    assert check_counts("user-counts", reader.read("user-counts"), truth.users) == []
    assert check_counts("team-counts", reader.read("team-counts"), truth.teams) == []
    assert violations == []
