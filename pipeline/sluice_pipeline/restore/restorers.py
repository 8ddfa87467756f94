"""The restorer processes of a worker, seen from the worker: commands go out, events come in, dead ones are replaced."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from sluice_pipeline.restore.messages import Command, Event, Failed, Finish, Follow, Stop
from sluice_protocol.ids import TaskId
from sluice_protocol.launch import KAFKA_CONFIG_VARIABLE


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    connection: Connection
    socket: socket.socket
    lock: threading.Lock = field(default_factory=threading.Lock)


class Restorers:
    """A fixed number of restorer processes; a task goes to the one with the fewest tasks and stays there."""

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, str],
        count: int,
        bytes_per_second: int | None,
        on_event: Callable[[Event], None],
    ) -> None:
        """`on_event` is called from a thread of each process."""
        self._bootstrap_servers = bootstrap_servers
        self._kafka_config = kafka_config
        self._share = None if bytes_per_second is None else max(1, bytes_per_second // count)
        self._on_event = on_event
        self._closing = False
        self._homes: dict[TaskId, int] = {}
        self._processes = [self._start(index) for index in range(count)]

    def follow(self, command: Follow) -> None:
        """Open a task and follow its changelogs."""
        task = command.identity.task
        used = list(self._homes.values())
        self._homes[task] = min(range(len(self._processes)), key=used.count)
        self._send(task, command)

    def finish(self, task: TaskId, ends: Mapping[str, int]) -> None:
        """Read a task to these ends and close it; Finished follows."""
        self._send(task, Finish(task, ends))

    def stop(self, task: TaskId) -> None:
        """Close a task; Stopped follows."""
        self._send(task, Stop(task))

    def forget(self, task: TaskId) -> None:
        """The task was closed there (Finished, Stopped or Failed)."""
        self._homes.pop(task, None)

    def close(self) -> None:
        """End the processes; each closes its stores first."""
        self._closing = True
        for process in self._processes:
            process.socket.shutdown(socket.SHUT_RDWR)  # a close would not wake the thread that reads
        for process in self._processes:
            try:
                process.process.wait(10)
            except subprocess.TimeoutExpired:
                process.process.kill()
                process.process.wait()

    def _start(self, index: int) -> _Process:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "sluice_pipeline.restore.process"]
        command += ["--descriptor", str(theirs.fileno()), "--bootstrap", self._bootstrap_servers]
        if self._share is not None:
            command += ["--bytes-per-second", str(self._share)]
        environment = {**os.environ, KAFKA_CONFIG_VARIABLE: json.dumps(dict(self._kafka_config))}
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL)
        theirs.close()
        started = _Process(process, Connection(os.dup(ours.fileno())), ours)
        threading.Thread(target=self._listen, args=(index, started), name=f"restorer-{index}", daemon=True).start()
        return started

    def _send(self, task: TaskId, command: Command) -> None:
        process = self._processes[self._homes[task]]
        try:
            with process.lock:
                process.connection.send(command)
        except OSError:
            return  # its listener notices the death and says what was lost

    def _listen(self, index: int, process: _Process) -> None:
        try:
            while True:
                self._on_event(process.connection.recv())
        except (EOFError, OSError):
            pass
        if self._closing:
            return
        code = process.process.wait()
        lost = [task for task, home in self._homes.items() if home == index]
        self._processes[index] = self._start(index)
        for task in lost:
            self._on_event(Failed(task, f"its restorer process ended with code {code}"))
