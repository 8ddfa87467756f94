"""The state directory of a worker: who it is, which task directories are there, and whether each may be trusted.

    <state dir>/process.json            processId of this volume, and the application that it belongs to
    <state dir>/.lock                   one worker process at a time
    <state dir>/<task>/task.json        what the copy belongs to; a copy that differs is restored from scratch
    <state dir>/<task>/.lock            held by whichever process (worker or restorer) has the stores open
    <state dir>/<task>/<store>/         RocksDB

The plan of what to do with a directory is pure (`judge`); the rest moves files.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice_pipeline.state.store import Store, StoreError
from sluice_protocol.ids import TaskId

ENCODING_VERSION = 1

_PROCESS_FILE = "process.json"
_TASK_FILE = "task.json"
_LOCK_FILE = ".lock"


class StateDirectoryError(Exception):
    """The state directory can't be used by this worker; the message says whose it is and what to do."""


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """What a store's files belong to: the changelog's own id, so that a re-created topic is noticed."""

    name: str
    changelog: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """What a task directory belongs to."""

    application_id: str
    task: TaskId
    stores: tuple[StoreIdentity, ...]
    encoding: int = ENCODING_VERSION

    def to_json(self) -> dict[str, object]:
        """The content of task.json (without the time of its last use)."""
        return {
            "applicationId": self.application_id,
            "task": str(self.task),
            "encoding": self.encoding,
            "stores": [asdict(store) for store in self.stores],
        }


@dataclass(frozen=True, slots=True)
class CopyOnDisk:
    """A task directory: where its stores have come to, and its size."""

    task: TaskId
    boundaries: Mapping[str, int]
    size_bytes: int


def judge(found: Mapping[str, object] | None, wanted: TaskIdentity, age_seconds: float, max_age_seconds: float) -> str:
    """Why a copy can't be used, or "" when it can.

    Older than `max_age_seconds` (half of the changelog's delete.retention.ms) means that tombstones may be gone.
    """
    if found is None:
        return "nothing says what it belongs to"
    expected = wanted.to_json()
    for field, value in expected.items():
        if found.get(field) != value:
            return f"its {field} is {found.get(field)!r} and not {value!r}"
    if age_seconds > max_age_seconds:
        return f"it was last used {age_seconds:.0f} s ago, and deletions older than {max_age_seconds:.0f} s may be gone"
    return ""


class StateDirectory:
    """The state directory of one worker process, locked for as long as it lives."""

    def __init__(self, root: Path, application_id: str) -> None:
        """Claim the directory. Raises StateDirectoryError when another process or application has it."""
        self.root = root
        self.application_id = application_id
        root.mkdir(parents=True, exist_ok=True)
        self._lock = _try_lock(root / _LOCK_FILE)
        if self._lock is None:
            raise StateDirectoryError(
                f"state directory {root} is in use by another worker process; stop it, or give each worker its own"
            )
        self.process_id = self._claim()

    def _claim(self) -> str:
        path = self.root / _PROCESS_FILE
        if path.exists():
            try:
                found = json.loads(path.read_text())
                owner, process_id = found["applicationId"], str(uuid.UUID(found["processId"]))
            except (ValueError, KeyError, TypeError) as error:
                raise StateDirectoryError(
                    f"state directory {self.root}: {_PROCESS_FILE} can't be read ({error}); "
                    "delete the directory to restore from the changelogs"
                ) from None
            if owner != self.application_id:
                raise StateDirectoryError(
                    f"state directory {self.root} belongs to application {owner!r}, and this worker runs "
                    f"{self.application_id!r}; give it another one, or delete this if that application is gone"
                )
            return process_id
        process_id = str(uuid.uuid4())
        write_json(path, {"applicationId": self.application_id, "processId": process_id})
        return process_id

    def path(self, task: TaskId) -> Path:
        """The directory of a task, there or not."""
        return self.root / str(task)

    def tasks(self) -> list[TaskId]:
        """Every task that has a directory here."""
        return sorted(task for task in map(_task_of, self.root.iterdir()) if task is not None)

    def inspect(self, task: TaskId) -> CopyOnDisk | None:
        """Read where an unopened copy stands, or None if it can't be read (it is restored from scratch then)."""
        directory = self.path(task)
        found = _read_json(directory / _TASK_FILE)
        if found is None or found.get("applicationId") != self.application_id:
            return None
        boundaries: dict[str, int] = {}
        try:
            for path in sorted(part for part in directory.iterdir() if part.is_dir()):
                store = Store(path)
                boundaries[path.name] = store.boundary
                store.close()
        except StoreError:
            return None
        return CopyOnDisk(task, boundaries, directory_size(directory))

    def remove(self, task: TaskId) -> None:
        """Delete a task's directory, unless a process has it open."""
        directory = self.path(task)
        with locked(directory):
            shutil.rmtree(directory, ignore_errors=True)

    def idle_seconds(self, task: TaskId) -> float:
        """How long ago the copy was last opened or closed."""
        path = self.path(task) / _TASK_FILE
        return time.time() - path.stat().st_mtime if path.exists() else float("inf")

    def close(self) -> None:
        """Let another process have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class TaskDirectory:
    """One task's directory, open: its lock is held and its stores may be opened. Used by worker and restorer."""

    def __init__(self, path: Path, identity: TaskIdentity, max_age_seconds: float) -> None:
        """Lock it, and wipe it first when what is there can't be trusted. Raises StateDirectoryError when locked."""
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        lock = _try_lock(path / _LOCK_FILE)
        if lock is None:
            raise StateDirectoryError(f"task directory {path} is open in another process")
        self._lock: int | None = lock
        self.stores: dict[str, Store] = {}
        try:
            self._open(identity, max_age_seconds)
        except BaseException:
            self.close()
            raise

    def _open(self, identity: TaskIdentity, max_age_seconds: float) -> None:
        path = self.path / _TASK_FILE
        age = time.time() - path.stat().st_mtime if path.exists() else 0.0
        self.wiped_because = judge(_read_json(path), identity, age, max_age_seconds)
        if self.wiped_because:
            self._wipe()
        write_json(path, identity.to_json())
        try:
            self._open_stores(identity)
        except StoreError:
            self._wipe()
            self.wiped_because = "a store could not be opened"
            self._open_stores(identity)

    def _open_stores(self, identity: TaskIdentity) -> None:
        self.stores = {store.name: Store(self.path / store.name) for store in identity.stores}

    def _wipe(self) -> None:
        for part in self.path.iterdir():
            if part.name == _LOCK_FILE:
                continue
            if part.is_dir():
                shutil.rmtree(part)
            else:
                part.unlink()

    def restart_store(self, name: str) -> Store:
        """Replace a store by an empty one (its boundary lies outside the changelog)."""
        self.stores[name].close()
        shutil.rmtree(self.path / name, ignore_errors=True)
        self.stores[name] = Store(self.path / name)
        return self.stores[name]

    def boundaries(self) -> dict[str, int]:
        """Where each store has come to."""
        return {name: store.boundary for name, store in self.stores.items()}

    def close(self) -> None:
        """Close the stores and let another process open them."""
        for store in self.stores.values():
            store.close()
        if self._lock is not None:
            if (self.path / _TASK_FILE).exists():
                (self.path / _TASK_FILE).touch()
            os.close(self._lock)
            self._lock = None


def directory_size(directory: Path) -> int:
    """Bytes of all files below, as far as they can be seen."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue  # RocksDB deletes files while we look
    return total


def write_json(path: Path, content: object) -> None:
    """Write a small file so that a reader sees the old or the new content and nothing in between."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.write_text(json.dumps(content, indent=1))
    temporary.replace(path)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a task's lock for a while. Raises StateDirectoryError when a process has it open."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = _try_lock(directory / _LOCK_FILE)
    if lock is None:
        raise StateDirectoryError(f"task directory {directory} is open in another process")
    try:
        yield
    finally:
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _read_json(path: Path) -> dict[str, object] | None:
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _task_of(path: Path) -> TaskId | None:
    try:
        return TaskId.parse(path.name) if path.is_dir() else None
    except ValueError:
        return None
