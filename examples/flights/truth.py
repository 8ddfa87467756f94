"""What must come out: the same aggregates by a plain PySpark batch over the same CSV, compared with the topics."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from data import write_csv
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice_pipeline.engine.session import start_engine

Row = tuple[Any, ...]
Table = dict[Row, Row]

OUTPUTS = {
    "delays-by-route": (("route",), ("flights", "arrived", "late", "delay", "worst")),
    "delays-by-carrier": (("carrier",), ("flights", "late", "delay", "miles")),
    "delays-by-aircraft": (("tailnum", "day"), ("legs", "delay", "worst")),
}
"""Key columns and aggregates of each output topic."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output topic against the batch."""

    topic: str
    keys: int
    differences: tuple[str, ...]


def batch() -> dict[str, Table]:
    """The aggregates by a plain PySpark batch."""
    with tempfile.TemporaryDirectory() as directory:
        engine = start_engine("local[2]", 2, {}, log=Path(directory, "spark.log"))
        try:
            path = Path(directory, "flights.csv")
            write_csv(path)
            flights = engine.spark.read.csv(str(path), header=True, nullValue="NA", inferSchema=True)
            return {topic: _table(topic, frame) for topic, frame in _aggregates(flights).items()}
        finally:
            engine.stop()


def _aggregates(flights: DataFrame) -> dict[str, DataFrame]:
    day = F.format_string("%04d-%02d-%02d", "year", "month", "day")
    flights = flights.select(
        F.concat_ws("-", "origin", "dest").alias("route"),
        "carrier",
        "tailnum",
        day.alias("day"),
        F.col("dep_delay").cast("int"),
        F.col("arr_delay").cast("int"),
        F.col("distance").cast("int"),
    ).withColumn("late", (F.col("arr_delay") > 15).cast("int"))
    every, delay = F.count("*"), F.sum("arr_delay")
    return {
        "delays-by-route": flights.groupBy("route").agg(
            every, F.count("arr_delay"), F.sum("late"), delay, F.max("arr_delay")
        ),
        "delays-by-carrier": flights.groupBy("carrier").agg(
            every, F.sum("late"), F.avg("arr_delay"), F.sum("distance")
        ),
        "delays-by-aircraft": flights.where("tailnum is not null")
        .groupBy("tailnum", "day")
        .agg(every, delay, F.max("dep_delay")),
    }


def _table(topic: str, frame: DataFrame) -> Table:
    keys = len(OUTPUTS[topic][0])
    columns = [column.to_pylist() for column in frame.toArrow().columns]
    return {row[:keys]: row[keys:] for row in zip(*columns, strict=True)}


def read_topic(bootstrap_servers: str, topic: str) -> tuple[Table, int]:
    """The last value of every key in an output topic, and how many records it holds; read committed."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "demo-reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    keys, aggregates = OUTPUTS[topic]
    latest: Table = {}
    records, open_partitions = 0, set(partitions)
    while open_partitions:
        for message in consumer.consume(10_000, 0.5):
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                continue
            value = json.loads(message.value())
            latest[_key(message.key(), keys)] = tuple(value[name] for name in aggregates)
            records += 1
    consumer.close()
    return latest, records


def _key(data: bytes, columns: tuple[str, ...]) -> Row:
    """One column is its text, several are a JSON object."""
    if len(columns) == 1:
        return (data.decode(),)
    fields = json.loads(data)
    return tuple(fields[column] for column in columns)


def compare(topic: str, found: Table, wanted: Table) -> Comparison:
    """Key by key; averages to twelve digits, everything else exactly."""
    differences = [
        f"{'/'.join(map(str, key))}: {found.get(key)} is not {wanted.get(key)}"
        for key in {*found, *wanted}
        if not _same(found.get(key), wanted.get(key))
    ]
    return Comparison(topic, len(wanted), tuple(sorted(differences)))


def _same(found: Row | None, wanted: Row | None) -> bool:
    if found is None or wanted is None:
        return False
    return all(
        abs(one - other) <= 1e-12 * max(1.0, abs(other)) if isinstance(other, float) else one == other
        for one, other in zip(found, wanted, strict=True)
    )
