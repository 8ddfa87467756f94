"""What outlives a coordinator process, in its run directory: the leader epoch and the footprint of the application.

Each is a small file, written beside, fsynced, then renamed, so that a crash leaves the old one or the new one. A lock
keeps a second coordinator out of the directory: two of them would count up the same epoch.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice_coordinator.group import Recorded


class DirectoryInUseError(Exception):
    """Another coordinator runs in this directory."""


class RecordsDamagedError(Exception):
    """A file does not hold what was written; nothing safe can be concluded from it."""


class Records:
    """The records of one run directory, locked until the process ends."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._lock = os.open(directory / "coordinator.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise DirectoryInUseError(f"another coordinator runs in {directory}; stop it first") from None

    def close(self) -> None:
        """Let others in."""
        os.close(self._lock)

    def raise_leader(self, above: int = 0) -> int:
        """A leader epoch that nobody had before, and above this one."""
        leader: int = max(self._read("leader", {"epoch": 0})["epoch"], above) + 1
        self._write("leader", {"epoch": leader})
        return leader

    def footprint(self) -> Recorded:
        """Whatever may still be held by processes of the application."""
        fields = self._read("footprint", {"slots": 0, "subtopologies": 0})
        return Recorded(fields["slots"], fields["subtopologies"], fields.get("clusterId"))

    def record_footprint(self, footprint: Recorded) -> None:
        """Durable when this returns."""
        fields = {"slots": footprint.slots, "subtopologies": footprint.subtopologies, "clusterId": footprint.cluster_id}
        self._write("footprint", fields)

    def forget_cluster(self) -> None:
        """Let the application run on another Kafka next time."""
        self.record_footprint(replace(self.footprint(), cluster_id=None))

    def write_address(self, url: str) -> None:
        """Tell where this process listens."""
        self._write("coordinator", {"url": url, "pid": os.getpid()})

    def _read(self, name: str, default: dict[str, int]) -> dict[str, Any]:
        """All fields; those of the default are there, and numbers."""
        path = self._directory / f"{name}.json"
        try:
            fields = json.loads(path.read_text())
        except FileNotFoundError:
            return default
        except ValueError:
            fields = None
        if not isinstance(fields, dict) or not _is_sound(fields, default):
            raise RecordsDamagedError(
                f"{path} is damaged; stop every worker of the application, then delete it and start again"
            )
        return fields

    def _write(self, name: str, fields: Mapping[str, object]) -> None:
        path = self._directory / f"{name}.json"
        beside = path.with_suffix(".json.new")
        with beside.open("w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _is_sound(fields: Mapping[str, Any], default: Mapping[str, int]) -> bool:
    return all(type(fields.get(key)) is int for key in default) and isinstance(fields.get("clusterId"), str | None)
