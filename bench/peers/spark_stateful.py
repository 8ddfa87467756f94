"""Spark's own stateful query: groupBy over a stream from Kafka to Kafka, state in RocksDB with changelog checkpoints.

A program of its own: `python -m bench.peers.spark_stateful BOOTSTRAP SOURCE SINK PARTITIONS RECORDS DIRECTORY`. Prints
"EPOCH_MS RECORDS_SO_FAR" per batch and ends when all records are done. Its sink is at least once: Spark has no other.
"""

from __future__ import annotations

import json
import math
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ground import Job
from sluice_jvm.jars import SPARK_KAFKA, resolve
from sluice_jvm.launch import start_spark_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MOST_BATCH_RECORDS = 200_000
"""1.7 times as fast as with batches of 50,000."""
FEWEST_BATCHES = 8

_LOOK_SECONDS = 0.1

_STATE = "org.apache.spark.sql.execution.streaming.state"
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"
_CONF = {
    "spark.master": "local[2]",
    "spark.app.name": "spark-stateful",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.locality.wait": "0s",
    "spark.sql.streaming.stateStore.providerClass": f"{_STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


def start_query(spark: SparkSession, bootstrap: str, job: Job, batch_records: int, checkpoint: Path) -> StreamingQuery:
    """Count and sum by user, as bench/pipelines/counts.py does."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({job.source: list(range(job.partitions))}))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", "5")
        .option("maxOffsetsPerTrigger", batch_records)
        .load()
    )
    purchases = records.select(F.from_json(F.col("value").cast("string"), "user string, price bigint").alias("json"))
    counts = purchases.groupBy("json.user").agg(F.count("*").alias("count"), F.sum("json.price").alias("total"))
    return (
        counts.select(F.col("user").alias("key"), F.to_json(F.struct("count", "total")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.linger.ms", "5")
        .option("topic", job.sink)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .start()
    )


def batch_size(records: int, partitions: int) -> int:
    """As large as pays off, yet small enough to leave a rate after the warm-up.

    Spark rounds each partition's share down; what is added keeps that from leaving a few records to a last batch.
    """
    return min(MOST_BATCH_RECORDS, math.ceil(records / FEWEST_BATCHES) + partitions)


def follow(query: StreamingQuery, records: int) -> None:
    """Say each batch as it ends, until all records are done. Raises the query's own error."""
    told = done = 0
    while done < records:
        if query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]  # fractions of a second are taken
            raise RuntimeError(f"the query ended after {done} of {records} records")
        for progress in query.recentProgress[told:]:
            told += 1
            done += progress["numInputRows"]
            if progress["numInputRows"]:
                print(_ended_ms(progress["timestamp"], progress["batchDuration"]), done, flush=True)


def _ended_ms(began: str, duration_ms: int) -> int:
    return int(datetime.fromisoformat(began).timestamp() * 1000) + duration_ms


def main() -> None:
    """Run until the topic is drained."""
    bootstrap, source, sink, partitions, records, directory = sys.argv[1:]
    job = Job("spark-stateful", source, sink, int(partitions))
    jvm = start_spark_jvm(_CONF, resolve(SPARK_KAFKA), heap="2g")
    os.environ.update(jvm.environment)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    query = start_query(spark, bootstrap, job, batch_size(int(records), job.partitions), Path(directory, "checkpoint"))
    try:
        follow(query, int(records))
    finally:
        query.stop()
        spark.stop()
        jvm.stop()


if __name__ == "__main__":
    main()
