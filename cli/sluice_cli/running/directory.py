"""The run directory: who runs here, the secret, the desired number of workers, logs and state.

lock           held (flock) while the supervisor or anything it started is alive
run.json       who runs: supervisor, its control address, application; written when the supervisor listens
secret         0600, new at every start
desired.json   how many workers are wanted; survives the supervisor
logs/          one file a process
state/worker-N the worker's state directory
coordinator/   what the coordinator keeps, and coordinator.json, its address
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sluice_cli.errors import CommandError, MistakeError, NothingRunsError
from sluice_protocol.wire import MalformedMessageError, decode, encode

T = TypeVar("T")

DEFAULT_ROOT = Path(".sluice")
_TAKEOVER_SECONDS = 15


@dataclass(frozen=True, slots=True)
class RunFile:
    """The content of run.json."""

    application_id: str
    namespace: str
    pipeline: str
    supervisor_pid: int
    guard_pid: int
    control: str


@dataclass(frozen=True, slots=True)
class DesiredFile:
    """The content of desired.json. `flag` is what `--workers` said when the number was last set by it."""

    flag: int
    count: int


@dataclass(frozen=True, slots=True)
class CoordinatorFile:
    """The content of coordinator.json, written by the coordinator once it listens."""

    url: str
    pid: int


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of one application's run directory, and its small files. Every write replaces the file whole."""

    path: Path

    @property
    def coordinator(self) -> Path:
        """Where the coordinator keeps its files."""
        return self.path / "coordinator"

    def log(self, process: str) -> Path:
        """The log file of a process."""
        return self.path / "logs" / f"{process}.log"

    def state(self, worker: str) -> Path:
        """The state directory of a worker."""
        return self.path / "state" / worker

    def create(self) -> None:
        """Make the directory, readable for its owner alone. Raises MistakeError."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for part in (self.path / "logs", self.path / "state", self.coordinator):
                part.mkdir(exist_ok=True)
        except OSError as error:
            raise MistakeError(
                f"run directory {self.path} can't be made ({error.strerror}); choose another with --run-directory"
            ) from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the directory; gives the lock's descriptor, to be shared with the guard. Raises MistakeError."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _try_lock(descriptor):
                self._await_takeover(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def write_run(self, run: RunFile) -> None:
        """Announce who runs here."""
        _replace(self.path / "run.json", encode(run))

    def clear_run(self) -> None:
        """Nobody runs here any more."""
        (self.path / "run.json").unlink(missing_ok=True)

    def read_run(self) -> RunFile:
        """Who runs here. Raises NothingRunsError."""
        try:
            return decode(RunFile, (self.path / "run.json").read_bytes())
        except (OSError, MalformedMessageError):
            raise NothingRunsError(f"nothing runs in {self.path}; start it with `sluice run`") from None

    def new_secret(self) -> str:
        """A new shared secret, written for the commands of the same user."""
        secret = secrets.token_hex(24)
        _replace(self.path / "secret", secret.encode())
        return secret

    def read_secret(self) -> str:
        """The secret of the application that runs here. Raises CommandError."""
        try:
            return (self.path / "secret").read_text().strip()
        except OSError as error:
            raise CommandError(f"the secret in {self.path / 'secret'} can't be read: {error.strerror}") from None

    def write_desired(self, desired: DesiredFile) -> None:
        """Keep the desired number of workers."""
        _replace(self.path / "desired.json", encode(desired))

    def read_desired(self) -> DesiredFile | None:
        """The desired number of an earlier run, if there was one."""
        return _read(DesiredFile, self.path / "desired.json")

    def read_coordinator(self) -> CoordinatorFile | None:
        """The address of the last coordinator that listened."""
        return _read(CoordinatorFile, self.coordinator / "coordinator.json")

    def _await_takeover(self, descriptor: int) -> None:
        """The lock is held: by a living supervisor, or for a moment by the guard of a dead one."""
        with contextlib.suppress(NothingRunsError):
            run = self.read_run()
            if not is_alive(run.supervisor_pid):
                _await_end(run.guard_pid)
                if _try_lock(descriptor):
                    return
            raise MistakeError(
                f"{run.application_id} already runs in {self.path} (supervisor {run.supervisor_pid}); "
                "use `sluice scale` to change its workers, or give another --run-directory"
            )
        raise MistakeError(f"another `sluice run` is starting or ending in {self.path}; try again in a moment")


def find_run_directory(path: Path | None, application_id: str | None) -> RunDirectory:
    """The directory that a command means: the given one, the application's, or the only one there is.

    Raises NothingRunsError and MistakeError.
    """
    if path is not None:
        return RunDirectory(path)
    if application_id is not None:
        return RunDirectory(DEFAULT_ROOT / application_id)
    found = sorted(file.parent for file in DEFAULT_ROOT.glob("*/run.json"))
    if not found:
        raise NothingRunsError(
            f"nothing runs under {DEFAULT_ROOT.resolve()}; start it with `sluice run`, or name its --run-directory"
        )
    if len(found) > 1:
        names = ", ".join(directory.name for directory in found)
        raise MistakeError(f"several applications have run here ({names}); say which with --application-id")
    return RunDirectory(found[0])


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs. One that has ended and waits to be collected doesn't."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b") ")[2][:1] not in (b"Z", b"X")


def _await_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            select.select([descriptor], [], [], _TAKEOVER_SECONDS)
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(kind: type[T], path: Path) -> T | None:
    try:
        return decode(kind, path.read_bytes())
    except (OSError, MalformedMessageError):
        return None


def _replace(path: Path, content: bytes) -> None:
    """Write a file that is whole, or the old one, whatever happens; readable for its owner alone."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
