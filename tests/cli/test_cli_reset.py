"""`sluice reset` against a real Kafka: what is said, what goes, what stays, and where it begins again."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice_cli.commands import reset
from sluice_cli.errors import MistakeError
from sluice_cli.main import main
from sluice_cli.reset import positions
from sluice_cli.reset.positions import Aim, Log
from sluice_cli.running.directory import RunDirectory, RunFile
from sluice_coordinator.group import Recorded
from sluice_coordinator.records import Records
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator.kube import paths
from sluice_operator.names import claim_name, labels
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_protocol.ids import changelog_topic, dead_letter_topic, transactional_id

PIPELINE = """
import sluice

topology = sluice.Topology("{application}")
orders = topology.stream("{source}", key="customer string", value="amount double, country string")
orders.group_by("country").aggregate("spent", total=sluice.sum_("amount")).to("{sink}")
"""

LOG = Log(start=10, end=100, committed=50, at_time=70)


@pytest.mark.parametrize(
    ("aim", "log", "offset"),
    [
        (positions.earliest(), LOG, 10),
        (positions.latest(), LOG, 100),
        (positions.since(0), LOG, 70),
        (positions.since(0), Log(10, 100), 100),
        (positions.shifted(-20), LOG, 30),
        (positions.shifted(-60), LOG, 10),
        (positions.shifted(60), LOG, 100),
        (positions.at(42), LOG, 42),
        (positions.at(7), LOG, 10),
    ],
)
def test_it_begins_again_where_it_is_told_within_the_log(aim: Aim, log: Log, offset: int):
    assert positions.positions(aim, {("orders", 0): log}) == {("orders", 0): offset}


def test_there_is_nothing_to_shift_without_a_committed_offset():
    with pytest.raises(MistakeError, match="no committed offset of orders-1; choose --to-earliest or --to-latest"):
        positions.positions(positions.shifted(1), {("orders", 0): LOG, ("orders", 1): Log(0, 5)})


@dataclass
class Shop:
    """An application that has run: offsets, internal topics, state."""

    servers: str
    topics: Any
    directory: Path
    module: str

    @property
    def application(self) -> str:
        return str(self.topics.name("app"))

    @property
    def source(self) -> str:
        return str(self.topics.name("orders"))

    @property
    def run_directory(self) -> RunDirectory:
        return RunDirectory(self.directory / "run")

    @property
    def internal(self) -> set[str]:
        """As the pipeline has them."""
        repartition = f"{self.application}-spent-repartition"
        return {changelog_topic(self.application, "spent"), repartition}

    def reset(self, *flags: str) -> int:
        return main([
            "reset", f"{self.module}:topology", f"--bootstrap={self.servers}",
            f"--run-directory={self.run_directory.path}", *flags,
        ])  # fmt: skip

    def produce(self, records: int, hours_ago: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        moment = int((time.time() - 3_600 * hours_ago) * 1000)
        for number in range(records):
            producer.produce(self.source, b"{}", partition=number % 2, timestamp=moment)
        assert producer.flush(30) == 0

    def commit(self, offsets: dict[int, int]) -> None:
        consumer = self._consumer()
        wanted = [TopicPartition(self.source, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()

    def committed(self) -> dict[int, int]:
        consumer = self._consumer()
        found = consumer.committed([TopicPartition(self.source, partition) for partition in range(2)], timeout=30)
        consumer.close()
        return {position.partition: position.offset for position in found if position.offset >= 0}

    def present(self) -> set[str]:
        return {
            name for name in self.topics.admin.list_topics(timeout=30).topics if name.startswith(self.topics.prefix)
        }

    def state(self) -> list[str]:
        return sorted(path.name for path in (self.run_directory.path / "state").iterdir())

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.servers, "group.id": self.application, "log_level": 0})


@pytest.fixture
def shop(kafka: Any, topics: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    module = f"shop_{topics.prefix[-9:-1]}"
    found = Shop(kafka.bootstrap_servers, topics, tmp_path, module)
    (tmp_path / f"{module}.py").write_text(
        PIPELINE.format(application=found.application, source=found.source, sink=topics.name("spent"))
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(reset, "_WATCH_SECONDS", 1.0)
    for name in ("orders", "spent"):
        topics.create(name, 2)
    for name in (*found.internal, dead_letter_topic(found.application)):
        topics.create(name.removeprefix(topics.prefix), 2)
    found.produce(12, hours_ago=2)
    found.produce(8, hours_ago=0)
    found.commit({0: 7, 1: 9})
    found.run_directory.create()
    for worker in ("worker-0", "worker-1"):
        store = found.run_directory.state(worker) / "0_0"
        store.mkdir(parents=True)
        (store / "CURRENT").write_text("state")
    yield found
    sys.modules.pop(module, None)


@pytest.mark.kafka
def test_a_dry_run_says_everything_and_does_nothing(shop: Shop, capsys: pytest.CaptureFixture[str]):
    before = (shop.committed(), shop.present(), shop.state())

    assert shop.reset("--dry-run") == 0

    said = capsys.readouterr().out
    assert f"{shop.source}-0: 7 → 0" in said
    assert f"topics to delete: {', '.join(sorted(shop.internal))}" in said
    assert str(shop.run_directory.state("worker-1")) in said
    assert "nothing was done (--dry-run)" in said
    assert (shop.committed(), shop.present(), shop.state()) == before


@pytest.mark.kafka
def test_what_is_its_own_goes_and_what_is_not_stays(shop: Shop):
    with contextlib.closing(Records(shop.run_directory.coordinator)) as records:
        records.record_footprint(Recorded(2, 1, "another-kafka"))

    assert shop.reset("--yes") == 0

    with contextlib.closing(Records(shop.run_directory.coordinator)) as records:
        assert records.footprint() == Recorded(2, 1)
    assert shop.committed() == {0: 0, 1: 0}
    assert shop.state() == []
    assert not shop.internal & shop.present()
    assert {shop.source, shop.topics.name("spent"), dead_letter_topic(shop.application)} <= shop.present()

    assert shop.reset("--yes") == 0  # again: there is nothing left to go


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (["--to-latest"], {0: 10, 1: 10}),
        (["--to-offset=4"], {0: 4, 1: 4}),
        (["--shift-by=-3"], {0: 4, 1: 6}),
        (["--shift-by=2"], {0: 9, 1: 10}),
        (["--by-duration=3h"], {0: 0, 1: 0}),
        (["--by-duration=1h"], {0: 6, 1: 6}),
        (["--to-datetime=2199-01-01"], {0: 10, 1: 10}),
        (["--to-datetime=2001-01-01T00:00:00+02:00"], {0: 0, 1: 0}),
    ],
)
def test_offsets_are_set_where_they_are_asked_to(shop: Shop, flags: list[str], offsets: dict[int, int]):
    assert shop.reset(*flags, "--yes") == 0

    assert shop.committed() == offsets


@pytest.mark.kafka
def test_nobody_can_be_asked_without_a_terminal(shop: Shop, capsys: pytest.CaptureFixture[str]):
    assert shop.reset() == 2

    assert "say --yes, or look first with --dry-run" in capsys.readouterr().err
    assert shop.committed() == {0: 7, 1: 9}


@pytest.mark.kafka
def test_a_running_application_is_left_alone_unless_forced(shop: Shop, capsys: pytest.CaptureFixture[str]):
    producer = Producer({
        "bootstrap.servers": shop.servers, "log_level": 0,
        "transactional.id": transactional_id(shop.application, "worker-1", 0),
    })  # fmt: skip
    producer.init_transactions(30)
    with shop.run_directory.locked():
        shop.run_directory.write_run(RunFile(shop.application, "local", "m:t", os.getpid(), os.getpid(), "http://x"))

        assert shop.reset("--yes") == 2
        assert "already runs" in (said := capsys.readouterr().err)
        assert "Stop it first, or take --force" in said
        assert shop.committed() == {0: 7, 1: 9}

        assert shop.reset("--yes", "--force") == 0
        assert shop.committed() == {0: 0, 1: 0}

    producer.begin_transaction()
    producer.produce(shop.source, b"late", partition=0)
    with pytest.raises(Exception, match="fenced"):
        producer.commit_transaction(30)


@pytest.mark.kafka
def test_an_application_that_commits_elsewhere_is_left_alone_unless_forced(
    shop: Shop, capsys: pytest.CaptureFixture[str]
):
    is_over = threading.Event()

    def work() -> None:
        for offset in itertools.count(8):
            shop.commit({0: offset})
            if is_over.wait(0.2):
                return

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert shop.reset("--yes") == 2
    finally:
        is_over.set()
        worker.join()

    said = capsys.readouterr().err
    assert f"{shop.application} runs somewhere: the committed offset of {shop.source}-0 was " in said
    assert "Stop it first, or take --force" in said
    assert shop.internal <= shop.present()
    assert len(shop.state()) == 2
    assert shop.reset("--yes") == 0


@pytest.mark.kafka
def test_a_missing_source_is_named(shop: Shop, capsys: pytest.CaptureFixture[str]):
    shop.topics.admin.delete_topics([shop.source])[shop.source].result(30)

    assert shop.reset("--yes") == 2
    assert f"source topics {shop.source} don't exist" in capsys.readouterr().err


@pytest.mark.kafka
@pytest.mark.kubernetes
def test_the_volumes_of_a_streams_app_go_once_it_has_no_workers(
    shop: Shop, kubernetes: KubernetesCluster, namespace: str, capsys: pytest.CaptureFixture[str]
):
    client, app = kubernetes.client, paths.app((namespace, "flights"))
    spec = {
        "applicationId": shop.application,
        "kafka": {"bootstrapServers": shop.servers},
        "pipeline": {"module": "flights:topology", "image": "flights:1"},
        "workers": {"replicas": 2},
    }
    client.create(paths.apps(namespace), {
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flights"}, "spec": spec,
    })  # fmt: skip
    for name in ("flights", "other"):
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": claim_name(name, 0), "labels": labels(name, 0)}
        client.create(paths.claims(namespace), {"metadata": metadata, "spec": claim})
    place = ["--streamsapp=flights", f"--namespace={namespace}", f"--kubeconfig={kubernetes.kubeconfig}", "--yes"]

    assert shop.reset(*place) == 2
    assert "has 2 workers; first `sluice scale 0 flights --wait`, or take --force" in capsys.readouterr().err
    assert shop.committed() == {0: 7, 1: 9}

    client.patch(app, {"spec": {"workers": {"replicas": 0}}})
    assert shop.reset(*place) == 0
    assert claim_name("flights", 0) in capsys.readouterr().out
    client.wait_for(
        "the volume is gone", lambda: not client.exists(f"{paths.claims(namespace)}/{claim_name('flights', 0)}")
    )
    assert client.exists(f"{paths.claims(namespace)}/{claim_name('other', 0)}")
