"""Kafka Streams from its published jar, running CountApp.java in a process of its own.

Compiled by the JDK's compiler where there is one, by Eclipse's on a bare runtime; once per machine and source.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.ground import Ground, Job
from sluice_jvm.cache import cache_directory
from sluice_jvm.jars import ECJ, KAFKA_STREAMS, resolve
from sluice_jvm.java import Java, find_java
from sluice_jvm.launch import java_command, log_tail

SOURCE = Path(__file__).with_name("CountApp.java")
STORE = "totals"

DEFAULT: Mapping[str, str] = {"num.stream.threads": "2"}
"""Everything else as Kafka Streams ships it, exactly-once: commits every 100 ms, 10 MB of cache."""

TUNED: Mapping[str, str] = {
    **DEFAULT,
    "commit.interval.ms": "500",
    "statestore.cache.max.bytes": str(64 << 20),
    "consumer.max.poll.records": "5000",
    "consumer.fetch.max.bytes": str(64 << 20),
    "consumer.max.partition.fetch.bytes": str(8 << 20),
    "producer.linger.ms": "20",
    "producer.batch.size": "200000",
}

_STOP_SECONDS = 30.0


class PeerError(RuntimeError):
    """A peer could not be built, ended, or was silent."""


def class_path(java: Java) -> list[Path]:
    """Kafka Streams' jars and the compiled CountApp. Raises PeerError with the compiler's words."""
    jars = resolve(KAFKA_STREAMS)
    digest = hashlib.sha256(SOURCE.read_bytes() + f"{java.is_jdk}".encode()).hexdigest()[:12]
    classes = cache_directory() / f"bench-count-app-{digest}"
    if not (classes / "CountApp.class").exists():
        _compile(java, jars, classes)
    return [classes, *jars]


def _compile(java: Java, jars: tuple[Path, ...], classes: Path) -> None:
    options = ["-d", str(classes), "-cp", os.pathsep.join(map(str, jars)), str(SOURCE)]
    if java.is_jdk:
        command = [str(java.home / "bin" / "javac"), "--release", "17", *options]
    else:
        main = "org.eclipse.jdt.internal.compiler.batch.Main"
        command = java_command(main, ["-17", "-nowarn", *options], class_path=resolve(ECJ), java=java)
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        raise PeerError(f"{SOURCE.name} can't be compiled: {compiled.stdout}{compiled.stderr}")


@dataclass(frozen=True, slots=True)
class Event:
    """A line of CountApp: when (seconds since the epoch) and its words."""

    at: float
    words: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Its first word."""
        return self.words[0]


class KafkaStreams:
    """One instance of the application, started."""

    def __init__(self, ground: Ground, job: Job, config: Mapping[str, str], instance: str = "i1") -> None:
        self.name = instance
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self._log = ground.directory / f"{job.name}-{instance}.log"
        self.started_at = time.time()
        self._process = self._start(ground, job, config)
        self._reader = threading.Thread(target=self._read, name=f"events-{instance}", daemon=True)
        self._reader.start()

    def _start(self, ground: Ground, job: Job, config: Mapping[str, str]) -> subprocess.Popen[bytes]:
        settings = {
            "bootstrap.servers": ground.bootstrap_servers,
            "application.id": job.name,
            "client.id": f"{job.name}-{self.name}",
            "state.dir": str(ground.directory / f"{job.name}-{self.name}"),
            **config,
        }
        java = find_java()
        command = java_command(
            "CountApp",
            [job.source, job.sink, *(f"{key}={value}" for key, value in settings.items())],
            class_path=class_path(java),
            options=["-Xmx1g", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
            java=java,
        )
        reading, writing = os.pipe()
        self._output = os.fdopen(reading)
        with os.fdopen(writing, "wb") as output:
            return ground.guard.start(command, output=output)

    def _read(self) -> None:
        with self._log.open("a") as log:
            for line in self._output:
                at, _, words = line.strip().partition(" ")
                if at.isdigit() and words:
                    self._note(Event(int(at) / 1000, tuple(words.split())))
                else:
                    log.write(line)
        with self._changed:
            self._changed.notify_all()

    def _note(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of_kind(self, kind: str) -> list[Event]:
        """Every event so far that begins with this word."""
        with self._changed:
            return [event for event in self.events if event.kind == kind]

    def active_partitions(self) -> frozenset[int]:
        """The tasks that run here now."""
        said = self.of_kind("active")
        words = said[-1].words[1:] if said and self._process.poll() is None else ()
        return frozenset(int(partition) for partition in words[0].split(",")) if words else frozenset()

    def wait_for(self, holds: Callable[[KafkaStreams], bool], timeout: float, what: str) -> None:
        """Wait for an effect of an event. Raises PeerError when it doesn't come, or the process ends."""
        with self._changed:
            self._changed.wait_for(lambda: holds(self) or not self._reader.is_alive(), timeout)
            if not holds(self):
                raise PeerError(f"Kafka Streams {self.name}: no {what} within {timeout:.0f} s.{log_tail(self._log)}")

    @property
    def failure(self) -> str | None:
        """Why the process ended, if it did."""
        return None if self._process.poll() is None else f"ended with {self._process.returncode}.{log_tail(self._log)}"

    def kill(self) -> None:
        """As the kernel would."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Ask it to close, and go on at once."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Close it, by force if that takes too long."""
        self.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
