"""The worker's Spark session: its settings, and a warm-up so that the first real batch isn't the slow one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from sluice_jvm.launch import JvmStartError, SparkJvm, start_spark_jvm

_WARM_UP_ROUNDS = 3
_JIT = "-XX:TieredStopAtLevel=1"
"""Only the quick compiler: the optimising one takes half of a worker's processor time for its first minutes, exactly
when a new worker should take tasks over (docs/decisions/jit.md). spark.driver.extraJavaOptions may say otherwise."""

_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def settings(master: str, threads: int, further: Mapping[str, str]) -> dict[str, str]:
    """Spark's configuration; each value was measured to matter for small batches (65 ms -> 30 ms each)."""
    return {
        "spark.master": master,
        "spark.app.name": "sluice-worker",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(_LOOPBACK if is_on_this_machine(master) else {}),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ui.explainMode": "simple",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.localRelationThreshold": "0",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
        "spark.sql.session.timeZone": "UTC",
        "spark.locality.wait": "0s",
        "spark.scheduler.mode": "FAIR",
        **further,
    }


def is_local(master: str) -> bool:
    """Whether the driver's JVM does all the work, so that data may come from the driver."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Whether nobody beyond this machine has to reach the driver: local, or a cluster made of local processes."""
    return is_local(master) or master.startswith("local-cluster[")


@dataclass(frozen=True, slots=True)
class Engine:
    """A running session and the JVM below it."""

    spark: SparkSession
    jvm: SparkJvm

    def is_alive(self) -> bool:
        """Whether the JVM still runs."""
        return self.jvm.process.poll() is None

    def stop(self) -> None:
        """End session and JVM."""
        self.spark.stop()
        self.jvm.stop()


def start_engine(
    master: str, threads: int, further: Mapping[str, str], *, jars: Sequence[Path] = (), log: Path | None = None
) -> Engine:
    """Start the JVM and the session, and run dummy batches through it. Raises sluice_jvm's errors."""
    conf = settings(master, threads, further)
    options = [_JIT, *_java_options(conf.get("spark.driver.extraJavaOptions", ""))]
    jvm = start_spark_jvm(conf, jars, options=options, log=log)
    os.environ.update(jvm.environment)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _warm_up(spark)
    return Engine(spark, jvm)


def _java_options(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise JvmStartError(f"spark.driver.extraJavaOptions is {text!r}, which can't be split: {error}") from None


def _warm_up(spark: SparkSession) -> None:
    table = pa.table({"_partition": pa.array([0, 1] * 50, pa.int32()), "key": [b"k"] * 100, "value": list(range(100))})
    for _ in range(_WARM_UP_ROUNDS):
        spark.createDataFrame(table).coalesce(1).groupBy("_partition", "key").agg({"value": "sum"}).toArrow()
