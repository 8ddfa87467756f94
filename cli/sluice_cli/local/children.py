"""A child process: its own process group, its log file, and a word at the moment it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluice_devkit.process_guard import ProcessGuard

MISTAKE = 2
"""The exit code of a process that no restart can help: the person's mistake."""

_LOGGED_ERROR = re.compile(r" (?:ERROR|CRITICAL) [\w.-]+: (.+)")


class Child:
    """A running or ended process. To be made and used in the event loop that watches it.

    Its end is an event of the kernel (pidfd), so that it is known within milliseconds. Whatever the process leaves in
    its group is killed before its number is given back: a restarted worker must not meet its own restorers.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, guard: ProcessGuard) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        with log.open("ab") as output:
            self._log_start = output.tell()
            variables = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
            self._process = guard.start(command, environment=variables, output=output)
        self._descriptor = os.pidfd_open(self.pid)
        self._loop.add_reader(self._descriptor, self._on_end)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    @property
    def lived_ms(self) -> int:
        """How long ago it was started."""
        return int((time.monotonic() - self.started) * 1000)

    async def wait(self) -> int:
        """Its exit code, negative for a signal, when it has ended."""
        return await asyncio.shield(self._ended)

    async def wait_for(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        await asyncio.wait([self._ended], timeout=seconds)
        return self.has_ended

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def stop(self, timeout: float) -> int:
        """SIGTERM, and after so many seconds SIGKILL. A frozen process is woken to hear it."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not await self.wait_for(timeout):
            self.signal(signal.SIGKILL)
        return await self.wait()

    def last_words(self) -> str:
        """The last error that this process has logged, or else the last line that it has written."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        errors = [found.group(1) for line in lines if (found := _LOGGED_ERROR.search(line))]
        return (errors or lines or ["it wrote nothing"])[-1]

    def _on_end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self._ended.set_result(code)


def describe_exit(code: int) -> str:
    """An exit code for people."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
