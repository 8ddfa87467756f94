"""A real Kafka: one broker or three, in KRaft mode, as plain processes started from the published jars.

Every broker is a controller too. All listen on loopback only, keep their ports for life, and are set up to start and
to come back fast: a small heap, the quick compiler only, and a short registration, because a broker that was killed
must wait for its old registration to end before it may serve again.
"""

from __future__ import annotations

import base64
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self, TextIO

from sluice_devkit.ports import NoFreePortError, free_ports, is_free
from sluice_devkit.process_guard import ProcessGuard
from sluice_jvm.jars import BROKER, JarsNotResolvedError, resolve
from sluice_jvm.java import Java, JavaNotFoundError, find_java
from sluice_jvm.launch import java_command, log_tail

START_SECONDS = 90
STOP_SECONDS = 20

FAST_START = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Starts in half the time, serves about as fast as long as nobody measures throughput."""

FULL_SPEED = ("-Xms256m", "-Xmx1g", "-XX:+UseSerialGC")
"""For benches."""

_STARTED = b"Kafka Server started"
_PORT_TAKEN = "Address already in use"
_ATTEMPTS = 3
_MAJORITY_OF = {1: 1, 3: 2}

_LOGGING = """\
status = warn
appender.file.type = Console
appender.file.name = console
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
logger.network.name = org.apache.kafka.clients.NetworkClient
logger.network.level = error
"""


class KafkaError(RuntimeError):
    """A broker did not start, or is not in the state that was asked for."""


@dataclass(frozen=True, slots=True)
class _Broker:
    node: int
    port: int
    controller_port: int
    rack: str | None
    directory: Path

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def logging_file(self) -> Path:
        return self.directory / "log4j2.properties"

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def data(self) -> Path:
        return self.directory / "data"


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """What brokers show to clients: a certificate for 127.0.0.1, its key, and the authority that signed it (PEM)."""

    ca: str
    certificate: str
    key: str = field(repr=False)


class KafkaCluster:
    """One broker or three. Use it as a context manager, or call start and stop.

    `racks` are given to the brokers in turn, `properties` are added to every broker's own. Without a directory the
    data lies in a temporary one, which goes with the cluster; with one, data and logs stay, and a later cluster on the
    same directory finds them. `port` is the first of consecutive ports; without it free ones are chosen.

    With `users` (passwords by name) clients have to log in (SASL/PLAIN, `login`), and an authorizer is on. The first
    user is the brokers' own, and may do everything; the others may do what ACLs allow them. With a `certificate` they
    have to speak TLS.
    """

    def __init__(
        self,
        brokers: int = 1,
        directory: Path | None = None,
        racks: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        *,
        users: Mapping[str, str] | None = None,
        certificate: ServerCertificate | None = None,
        port: int | None = None,
        jvm_options: Sequence[str] = FAST_START,
        java: Java | None = None,
    ) -> None:
        if brokers not in _MAJORITY_OF:
            raise KafkaError(f"A cluster of {brokers} brokers was asked for; it may have 1 or 3.")
        self._count = brokers
        self._own_directory = directory is None
        self._directory = directory or Path(tempfile.gettempdir(), f"sluice-kafka-{uuid.uuid4().hex[:12]}")
        self._racks = racks
        self._users = dict(users or {})
        self._certificate = certificate
        self._protocol = f"{'SASL_' if users else ''}{'SSL' if certificate else 'PLAINTEXT'}"
        self._properties = {
            "listener.security.protocol.map": f"PLAINTEXT:{self._protocol},CONTROLLER:PLAINTEXT",
            **_authorization(self._users),
            **_encryption(certificate),
            **(properties or {}),
        }
        self._port = port
        self._jvm_options = tuple(jvm_options)
        self._java = java
        self._guard: ProcessGuard | None = None
        self._brokers: tuple[_Broker, ...] = ()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self._brokers)

    @property
    def directory(self) -> Path:
        return self._directory

    def login(self, user: str) -> dict[str, str]:
        """What a client of that user adds to its settings, in librdkafka's words."""
        return {
            "security.protocol": self._protocol,
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._users[user],
            **({"ssl.ca.pem": self._certificate.ca} if self._certificate is not None else {}),
        }

    def process(self, node: int) -> subprocess.Popen[bytes]:
        """The process of a broker; nodes are numbered from 0."""
        if node not in self._processes:
            raise KafkaError(f"Broker {node} was never started.")
        return self._processes[node]

    def log(self, node: int) -> Path:
        return self._brokers[node].log

    def start(self) -> Self:
        """Start all brokers and wait until they serve. Raises KafkaError with the end of a broker's log."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=not self._own_directory)
        self._guard = ProcessGuard(remove=[self._directory] if self._own_directory else [])
        try:
            self._start_on_free_ports()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers: in good order when their data stays, at once when it goes with its temporary directory."""
        if not self._own_directory:
            for process in self._running():
                process.send_signal(signal.SIGCONT)
                process.terminate()
            for process in self._running():
                _end(process)
        if self._guard is not None:
            self._guard.close()
        for process in self._processes.values():
            process.wait()

    def kill(self, node: int) -> None:
        """End a broker as a lost machine would."""
        self.process(node).kill()
        self.process(node).wait()

    def pause(self, node: int) -> None:
        """Freeze a broker: it answers nothing and closes nothing."""
        self.process(node).send_signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self.process(node).send_signal(signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Stop a broker in good order, unless it is dead already, and wait until it serves again on its port."""
        process = self.process(node)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        _end(process)
        self._launch([self._brokers[node]])

    def wait(self) -> int:
        """Block until a broker ends, and say which."""
        by_descriptor = {os.pidfd_open(process.pid): node for node, process in self._processes.items()}
        try:
            ended, _, _ = select.select(list(by_descriptor), [], [])
            return by_descriptor[ended[0]]
        finally:
            for descriptor in by_descriptor:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._processes.values() if process.poll() is None]

    def _start_on_free_ports(self) -> None:
        """A free port may be lost to somebody else before the broker binds it: then choose others."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._brokers = self._describe()
            try:
                self._prepare()
                self._launch(self._brokers)
            except KafkaError as error:
                if _PORT_TAKEN not in str(error) or self._port is not None or attempt == _ATTEMPTS:
                    raise
                for process in self._running():
                    process.kill()
                    process.wait()
            else:
                return

    def _describe(self) -> tuple[_Broker, ...]:
        chosen = free_ports(2 * self._count)
        clients, controllers = chosen[: self._count], chosen[self._count :]
        if self._port is not None:
            clients = list(range(self._port, self._port + self._count))
            for port in clients:
                if not is_free(port):
                    raise KafkaError(f"Port {port} is taken; choose another, or leave it to us.")
        return tuple(
            _Broker(
                node,
                clients[node],
                controllers[node],
                self._racks[node % len(self._racks)] if self._racks else None,
                self._directory / f"broker-{node}",
            )
            for node in range(self._count)
        )

    def _prepare(self) -> None:
        """Write the brokers' files and format their storage, all at once."""
        for broker in self._brokers:
            broker.directory.mkdir(parents=True, exist_ok=True)
            broker.logging_file.write_text(_LOGGING)
            properties = broker_properties(broker, self._brokers) | self._properties
            broker.properties_file.write_text("".join(_property(*each) for each in properties.items()))
        unformatted = [broker for broker in self._brokers if not (broker.data / "meta.properties").exists()]
        cluster_id = self._cluster_id()
        arguments = ("format", "--cluster-id", cluster_id, "--ignore-formatted", "--config")
        formats = [
            (broker, self._run(broker, "kafka.tools.StorageTool", *arguments, str(broker.properties_file)))
            for broker in unformatted
        ]
        for broker, process in formats:
            if process.wait(START_SECONDS) != 0:
                raise KafkaError(f"The storage of broker {broker.node} could not be formatted.{log_tail(broker.log)}")

    def _cluster_id(self) -> str:
        """The one that an earlier cluster left in the directory, or a new one."""
        for broker in self._brokers:
            marker = broker.data / "meta.properties"
            if marker.exists() and (found := re.search(r"^cluster\.id=(\S+)", marker.read_text(), re.MULTILINE)):
                return found.group(1)
        return _new_cluster_id()

    def _launch(self, brokers: Iterable[_Broker]) -> None:
        launched = []
        for broker in brokers:
            log_start = broker.log.stat().st_size if broker.log.exists() else 0
            self._processes[broker.node] = self._run(broker, "kafka.Kafka", str(broker.properties_file))
            launched.append((broker, log_start))
        deadline = time.monotonic() + START_SECONDS
        for broker, log_start in launched:
            _await_started(broker, self._processes[broker.node], log_start, deadline)

    def _run(self, broker: _Broker, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise KafkaError("The cluster was not started.")
        self._java = self._java or find_java()
        options = [*self._jvm_options, f"-Dlog4j2.configurationFile=file:{broker.logging_file}"]
        command = java_command(main, arguments, class_path=resolve(BROKER), options=options, java=self._java)
        with broker.log.open("ab") as log:
            return self._guard.start(command, output=log)


def broker_properties(broker: _Broker, cluster: Sequence[_Broker]) -> dict[str, str]:
    """A broker's own properties, before those that the caller adds."""
    replicas, majority = str(len(cluster)), str(_MAJORITY_OF[len(cluster)])
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(broker.node),
        "controller.quorum.voters": ",".join(f"{each.node}@127.0.0.1:{each.controller_port}" for each in cluster),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "log.dirs": str(broker.data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": majority,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": majority,
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "200",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        "log.index.size.max.bytes": str(1024 * 1024),
        "num.network.threads": "2",
        "num.io.threads": "2",
        "num.replica.fetchers": "1",
        "background.threads": "2",
    }
    return properties | ({"broker.rack": broker.rack} if broker.rack else {})


def _authorization(users: Mapping[str, str]) -> dict[str, str]:
    """What brokers need, so that clients log in and ACLs hold. Controllers talk among themselves, without a login."""
    if not users:
        return {}
    own = next(iter(users))
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{module} required username="{own}" password="{users[own]}" {known};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{own};User:ANONYMOUS",
    }


def _encryption(certificate: ServerCertificate | None) -> dict[str, str]:
    """What brokers need, so that clients and other brokers reach them by TLS."""
    if certificate is None:
        return {}
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.certificate,
        "ssl.keystore.key": certificate.key,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificate.ca,
    }


def _property(key: str, value: str) -> str:
    """A line of a properties file; a value of several lines is written on one."""
    lines = "\\n".join(value.splitlines())
    return f"{key}={lines}\n"


def _await_started(broker: _Broker, process: subprocess.Popen[bytes], log_start: int, deadline: float) -> None:
    """Wait until the broker says that it serves: it then is registered, unfenced and up to date."""
    while True:
        with broker.log.open("rb") as log:
            log.seek(log_start)
            if _STARTED in log.read():
                return
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                message = f"Broker {broker.node} does not serve after {START_SECONDS} s.{log_tail(broker.log)}"
                raise KafkaError(message) from None
            continue
        raise KafkaError(f"Broker {broker.node} ended with {process.returncode} at its start.{log_tail(broker.log)}")


def _new_cluster_id() -> str:
    """A random id as Kafka makes them: never with a dash in front, which a command line takes for an option."""
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return identity if not identity.startswith("-") else _new_cluster_id()


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kafka_up(brokers: int = 1, port: int | None = None, directory: Path | None = None) -> int:
    """Run a cluster until Ctrl-C or SIGTERM; its address goes to standard output. Returns the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with KafkaCluster(brokers, directory, port=port) as cluster:
            _say(cluster.bootstrap_servers, sys.stdout)
            _say(f"Kafka is up, its data and logs are in {cluster.directory}. Ctrl-C ends it.", sys.stderr)
            node = cluster.wait()
            _say(f"Broker {node} ended by itself.{log_tail(cluster.log(node))}", sys.stderr)
    except KeyboardInterrupt:
        return 0
    except (KafkaError, JavaNotFoundError, JarsNotResolvedError, NoFreePortError) as error:
        _say(str(error), sys.stderr)
    return 1


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str, stream: TextIO) -> None:
    stream.write(f"{line}\n")
    stream.flush()
