"""One run of a container: a process with all its descendants, wherever they hide.

They are known by a mark in their environment, as the guard knows them. When the first process ends, so do the others,
as in a container.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluice_devkit.process_guard import ProcessGuard, kill_marked, marked_processes, signal_marked

_MARK_PREFIX = "SLUICE_CONTAINER_"
_QUIET_SECONDS = 0.03


class ContainerProcess:
    """A running container. Its output is appended to the log."""

    def __init__(
        self, guard: ProcessGuard, command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path
    ) -> None:
        """Start it. Raises OSError when the command can't be run."""
        self._mark = _MARK_PREFIX + secrets.token_hex(8)
        with log.open("ab") as output:
            self._process: subprocess.Popen[bytes] = guard.start(
                command, environment={**environment, self._mark: "1"}, output=output, directory=directory
            )

    @property
    def container_id(self) -> str:
        return f"process://{self._mark.removeprefix(_MARK_PREFIX).lower()}"

    @property
    def pid(self) -> int:
        """The first process."""
        return self._process.pid

    def process_ids(self) -> list[int]:
        """Everything that runs in the container."""
        return marked_processes(self._mark)

    def terminate(self) -> None:
        """Ask the first process to end, as a kubelet does; one that was paused too."""
        self.signal(signal.SIGCONT)
        self._process.terminate()

    def kill(self) -> None:
        """End everything in it at once."""
        self._process.kill()
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        signal_marked(self._mark, number)

    async def exited(self) -> int:
        """Wait for the end of the first process and of all others; gives its status, negative for a signal."""
        await _readable(os.pidfd_open(self._process.pid))
        status = self._process.wait()
        await asyncio.to_thread(kill_marked, self._mark, _QUIET_SECONDS)
        return status


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
