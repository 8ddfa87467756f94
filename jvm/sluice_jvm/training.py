"""Makes the class data archive of Spark's JVM: runs what a worker's first batch runs, and keeps the classes.

    python -m sluice_jvm.training

Done once per Java and PySpark, by the set-up; takes about as long as five starts and saves half of each that follows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sluice_jvm.archives import archive_path, base_path, recording_options
from sluice_jvm.cache import locked
from sluice_jvm.java import Java, JavaNotFoundError, find_java
from sluice_jvm.launch import JvmStartError, SparkJvm, spark_home, start_spark_jvm

_CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_DUMP_SECONDS = 300


def make_spark_archive(java: Java | None = None) -> Path | None:
    """Make the archive unless it is here; None when the Java writes none. PySpark stays attached to the JVM, ended.

    Older archives of the same Java and jars, which no JVM will use again, are removed.
    """
    java = java or find_java()
    archive = archive_path(java, spark_home() / "jars")
    with locked(archive.parent):
        if archive.exists():
            return archive
        with tempfile.TemporaryDirectory(prefix=".training-", dir=archive.parent) as temporary:
            _make_base(java, Path(temporary))
            made = Path(temporary, "spark.jsa")
            jvm = start_spark_jvm(
                _CONF, java=java, options=recording_options(java, made), log=Path(temporary, "spark.log")
            )
            _exercise(jvm)
            jvm.stop(_DUMP_SECONDS)
            if not made.exists():
                return None
            _remove_older(archive)
            made.replace(archive)
    return archive


def _make_base(java: Java, temporary: Path) -> None:
    base = base_path(java)
    if base is None or base.exists():
        return
    made = temporary / "base.jsa"
    command = [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={made}"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if made.exists():
        made.replace(base)


def _exercise(jvm: SparkJvm) -> None:
    """JSON from Arrow through a filter, an aggregation and back to JSON: the shape of a worker's batch."""
    os.environ.update(jvm.environment)
    import pyarrow  # noqa: PLC0415 - this package is importable without Spark's
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql import functions as sql  # noqa: PLC0415

    spark = SparkSession.builder.getOrCreate()
    values = [f'{{"name": "{number % 3}", "price": {number}.5, "count": {number}}}' for number in range(100)]
    table = pyarrow.table({"_partition": [0] * len(values), "value": values})
    parsed = sql.from_json("value", "name string, price double, count bigint").alias("parsed")
    for partitions in (1, 2):
        rows = spark.createDataFrame(table).repartition(partitions).select("_partition", parsed)
        wanted = rows.select("_partition", "parsed.*").where("price > 10 and name is not null")
        groups = wanted.groupBy("_partition", "name").agg(
            sql.sum("price"), sql.count("*"), sql.min("count"), sql.max("count"), sql.avg("price")
        )
        groups.select(sql.to_json(sql.struct("*"))).toArrow()
        wanted.withColumn("day", sql.current_timestamp()).coalesce(1).toArrow()


def _remove_older(archive: Path) -> None:
    prefix = archive.name.partition("-")[0]
    for older in archive.parent.glob(f"{prefix}-*.jsa"):
        older.unlink()


def main() -> int:
    """Make the archive and say so. Returns the exit status; a failure costs time later, nothing else."""
    started = time.monotonic()
    try:
        archive = make_spark_archive()
    except (JavaNotFoundError, JvmStartError) as error:
        sys.stderr.write(f"No class archive for Spark: {error}\n")
        return 1
    if archive is None:
        sys.stderr.write("No class archive for Spark: this Java writes none. Spark works, it starts more slowly.\n")
        return 1
    sys.stderr.write(f"Spark's class archive: ready, {time.monotonic() - started:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
