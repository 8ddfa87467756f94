"""What all tests share: one broker and one control plane a session, names that are nobody else's, each layer's time.

Layers: unit (no services), kafka (a real broker), kubernetes (a real control plane), spark (Spark's JVM), chaos (seeded
faults). A test that carries several markers belongs to the last of these. They run in this order, so that the quick
answers come first.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings

from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.kubernetes.cluster import NODE_AGENT, KubernetesCluster
from sluice_devkit.kubernetes.components import programs
from sluice_devkit.kubernetes.go_programs import ComponentsNotBuiltError
from sluice_devkit.kubernetes.helm import Helm
from sluice_devkit.kubernetes.toolchain import GoNotFoundError
from sluice_devkit.node_agent import Image, NodeAgent
from sluice_operator.spec.crd import crd

# Examples on a busy machine take what they take: a deadline would be a timing assertion.
settings.register_profile("sluice", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sluice")

LAYERS = ("unit", "kafka", "kubernetes", "spark", "chaos")
_SECONDS: Counter[str] = Counter()
_TESTS: Counter[str] = Counter()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One broker for the whole session, started when the first test asks. Don't kill it: start your own for that."""
    started = time.perf_counter()
    with KafkaCluster() as cluster:
        _SECONDS["start of Kafka"] = time.perf_counter() - started
        yield cluster


@pytest.fixture(scope="session")
def admin(kafka: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[KubernetesCluster]:
    """One control plane for the whole session, started when the first test asks; a fresh machine builds it first.

    It may be frozen and restarted, if the test waits until it serves again.
    """
    started = time.perf_counter()
    with KubernetesCluster(definitions=(crd(),), audit=True) as cluster:
        _SECONDS["start of Kubernetes"] = time.perf_counter() - started
        yield cluster


@pytest.fixture(scope="session")
def nodes(kubernetes: KubernetesCluster) -> Iterator[NodeAgent]:
    """Four nodes in two zones; the image `shell` has this machine's programs. Heal a node that you have cut off."""
    nodes = {"node-a-0": "zone-a", "node-a-1": "zone-a", "node-b-0": "zone-b", "node-b-1": "zone-b"}
    client, certificate = kubernetes.client_of(NODE_AGENT), kubernetes.serving_certificate
    with NodeAgent(client, nodes, {"shell": Image()}, certificate=certificate) as agent:
        yield agent


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm itself; a fresh machine builds it first."""
    return Helm.built()


@pytest.fixture
def namespace(kubernetes: KubernetesCluster) -> Iterator[str]:
    """A namespace of the test's own; it goes afterwards, and nobody waits for that."""
    name = kubernetes.namespace(f"test-{uuid.uuid4().hex[:8]}")
    yield name
    kubernetes.client.delete(f"/api/v1/namespaces/{name}")


@dataclass(frozen=True)
class Topics:
    """Names of one test: everything that it creates or calls by a name starts with `prefix`."""

    prefix: str
    admin: AdminClient

    def name(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def create(self, name: str, partitions: int = 1, replication_factor: int = 1, **config: str | int) -> str:
        """Create a topic and return its full name; config keys are Kafka's with _ for the dot (retention_ms)."""
        topic = self.name(name)
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        future = self.admin.create_topics([NewTopic(topic, partitions, replication_factor, config=settings)])[topic]
        future.result(30)
        return topic


@pytest.fixture
def topics(admin: AdminClient, request: pytest.FixtureRequest) -> Topics:
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:40].strip("-")
    return Topics(f"{readable}-{uuid.uuid4().hex[:8]}-", admin)


def layer_of(item: pytest.Item) -> str:
    return next((layer for layer in reversed(LAYERS[1:]) if item.get_closest_marker(layer)), LAYERS[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LAYERS.index(layer_of(item)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("kubernetes"):
        build(item.config, programs)
    if "helm" in getattr(item, "fixturenames", ()):
        build(item.config, Helm.built)
    started = time.perf_counter()
    outcome = yield
    _SECONDS[layer_of(item)] += time.perf_counter() - started
    _TESTS[layer_of(item)] += 1
    return outcome


@functools.cache
def build(config: pytest.Config, program: Callable[[], object]) -> None:
    """Build what a fresh machine lacks, in sight, and before the clock of any test runs.

    A failure is told by the fixture that needs the same.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), contextlib.suppress(ComponentsNotBuiltError, GoNotFoundError):
        program()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("time of each layer")
    for layer in LAYERS:
        if _TESTS[layer]:
            terminalreporter.write_line(f"{layer:<10} {_TESTS[layer]:>4} tests {_SECONDS[layer]:8.1f} s")
    for service in ("Kafka", "Kubernetes"):
        if started := _SECONDS[f"start of {service}"]:
            terminalreporter.write_line(f"of which the start of {service} {started:.1f} s")
