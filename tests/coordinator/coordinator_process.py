"""A real coordinator process and a client of its HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from sluice_protocol import heartbeat, view
from sluice_protocol.heartbeat import Grant, HeartbeatAnswer, HeartbeatRequest, TaskCopy
from sluice_protocol.ids import JOIN, Epoch
from sluice_protocol.topology import TopologyDescription
from sluice_protocol.view import GroupView
from sluice_protocol.wire import decode, encode

SECRET = "a-secret"  # noqa: S105 - of the tests
_PROGRAM = f"""
import sys
from pathlib import Path
from sluice_assignor import AssignmentConfig
from sluice_coordinator.main import CoordinatorSettings, run_coordinator
directory, application, bootstrap, lag = sys.argv[1:]
settings = CoordinatorSettings(
    application, bootstrap, Path(directory), heartbeat_interval_ms=500, session_timeout_ms=3000,
    assignment=AssignmentConfig(acceptable_recovery_lag=int(lag)),
)
sys.exit(run_coordinator(settings, {SECRET!r}))
"""


@dataclass
class CoordinatorProcess:
    """Its process and address."""

    application: str
    url: str
    process: subprocess.Popen[str]

    def call(self, method: str, path: str, body: bytes | None = None, secret: str | None = SECRET) -> tuple[int, bytes]:
        """Status and body of any answer."""
        request = urllib.request.Request(self.url + path, data=body, method=method)  # noqa: S310 - loopback
        if secret is not None:
            request.add_header("Authorization", f"Bearer {secret}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def path(self, template: str, worker: str = "") -> str:
        return template.format(namespace="local", name=self.application, worker=worker)

    def view(self) -> GroupView:
        status, body = self.call("GET", self.path(view.PATH))
        assert status == 200, body
        return decode(GroupView, body)

    def beat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        status, body = self.call("POST", self.path(heartbeat.PATH), encode(request))
        assert status == 200, body
        return decode(HeartbeatAnswer, body)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


class Worker:
    """A worker's side of the protocol, by hand: grants are taken over as they are given."""

    def __init__(self, coordinator: CoordinatorProcess, name: str, topology: TopologyDescription) -> None:
        self.coordinator = coordinator
        self.name = name
        self.topology = topology
        self.member_id = str(uuid4())
        self.process_id = str(uuid4())
        self.sequence = 0
        self.epoch = JOIN
        self.grants: tuple[Grant, ...] = ()
        self.copies: tuple[TaskCopy, ...] = ()

    def request(self, epoch: Epoch | None = None) -> HeartbeatRequest:
        self.sequence += 1
        return HeartbeatRequest(
            self.member_id, self.name, self.process_id, "1", self.epoch if epoch is None else epoch, self.sequence,
            self.topology.hash(), 2, self.topology, grants=self.grants, copies=self.copies,
        )  # fmt: skip

    def beat(self, epoch: Epoch | None = None) -> HeartbeatAnswer:
        answer = self.coordinator.beat(self.request(epoch))
        self.epoch, self.grants = answer.epoch, answer.grants
        return answer


@contextmanager
def running_coordinator(
    directory: Path, bootstrap_servers: str, application: str = "orders", acceptable_recovery_lag: int = 10_000
) -> Iterator[CoordinatorProcess]:
    """Started and listening; killed at the end if it still runs."""
    address = directory / "coordinator.json"
    address.unlink(missing_ok=True)
    command = [sys.executable, "-c", _PROGRAM, str(directory), application, bootstrap_servers]
    with subprocess.Popen([*command, str(acceptable_recovery_lag)], text=True) as process:
        try:
            wait_for(lambda: address.exists() or process.poll() is not None)
            assert process.poll() is None, f"the coordinator ended with {process.returncode}"
            written = json.loads(address.read_text())
            assert written["pid"] == process.pid
            yield CoordinatorProcess(application, written["url"], process)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)


def wait_for(holds: Callable[[], object], seconds: float = 20) -> None:
    """Wait for an effect of another process."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)
