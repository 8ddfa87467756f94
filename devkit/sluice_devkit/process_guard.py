"""Nothing that we start outlives us, not even after a SIGKILL.

A guard is a small process that holds the reading end of a pipe. When its parent ends, however that happens, the pipe
comes to its end, and the guard kills every process that was started through it, and all that these have started.
It knows them by a mark in their environment, which is inherited over any number of generations, process groups and
sessions and needs no registration that could come too late.

Rejected: PR_SET_PDEATHSIG is sent when the *thread* that forked ends, and not to grandchildren; process groups are left
by Spark's JVM and others; an atexit handler doesn't run on SIGKILL. Linux only, as it reads /proc.

A process that is forked without exec (multiprocessing's "fork") would inherit the pipe and keep it open: use "spawn".
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_MARK_PREFIX = "SLUICE_GUARD_"
_QUIET_SECONDS = 0.2
_GIVE_UP_SECONDS = 10.0


class ProcessGuard:
    """Starts processes that end at the latest when this process does. Close it to end them now."""

    def __init__(self, hold: Sequence[int] = (), remove: Sequence[Path] = ()) -> None:
        """Start the guard. It keeps the descriptors `hold` open (locks, say) until everything is gone.

        The directories `remove` go last: data that is of no use to anybody else.
        """
        self._mark = _MARK_PREFIX + secrets.token_hex(8)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), self._mark, *map(str, remove)],
            stdin=subprocess.PIPE,
            pass_fds=hold,
            start_new_session=True,  # a Ctrl-C or a killed group must not take the guard first
        )

    @property
    def pid(self) -> int:
        """The guard's own process: when it has ended, so has everything else."""
        return self._process.pid

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] = os.environ,
        output: IO[bytes] | None = None,
        directory: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own (a Ctrl-C is for us, who then stop it in good order)."""
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**environment, self._mark: "1"},
            cwd=directory,
            process_group=0,
        )

    def close(self) -> None:
        """Kill whatever still runs of what was started, and wait until it is gone."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def kill_marked(mark: str, quiet_seconds: float = _QUIET_SECONDS) -> None:
    """Kill every process with the mark, until none has been seen for a moment.

    The moment covers a process that was being started when its parent died: it gets the mark with its exec.
    """
    started = last_seen = time.monotonic()
    while time.monotonic() - last_seen < quiet_seconds and time.monotonic() - started < _GIVE_UP_SECONDS:
        if signal_marked(mark, signal.SIGKILL):
            last_seen = time.monotonic()
        time.sleep(0.02)


def signal_marked(mark: str, number: signal.Signals) -> int:
    """Send a signal to every process whose environment has the mark as a variable of value 1; says to how many."""
    processes = marked_processes(mark)
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
    return len(processes)


def marked_processes(mark: str) -> list[int]:
    needle = f"\0{mark}=1\0".encode()
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and needle in b"\0" + _environment_of(entry)
    ]


def _environment_of(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:  # another user's, or gone
        return b""


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_marked(sys.argv[1])
    for directory in sys.argv[2:]:
        shutil.rmtree(directory, ignore_errors=True)
