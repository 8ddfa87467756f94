"""What the worker knows of every task directory on its disk, granted or not: the copies that a heartbeat reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice_pipeline.restore.messages import Progress
from sluice_pipeline.state.directory import CopyOnDisk
from sluice_protocol.heartbeat import RUNNING, UNKNOWN, TaskCopy
from sluice_protocol.ids import TaskId


@dataclass(slots=True)
class _Copy:
    offset_sum: int
    end_offset_sum: int = UNKNOWN
    size_bytes: int = 0
    rate: int = 0
    restored_records: int = 0
    restored_bytes: int = 0
    """Of earlier sessions of this process with the task; the present session's come on top."""
    session_records: int = 0
    session_bytes: int = 0


@dataclass(slots=True)
class Copies:
    """The copies of one worker. Not more than bookkeeping: it opens nothing."""

    _copies: dict[TaskId, _Copy] = field(default_factory=dict)
    _condemned: set[TaskId] = field(default_factory=set)

    def found(self, copy: CopyOnDisk) -> None:
        """A directory was there when the process started."""
        self._copies[copy.task] = _Copy(sum(copy.boundaries.values()), size_bytes=copy.size_bytes)

    def opened(self, task: TaskId) -> None:
        """A restorer has opened it; what it holds is told by its progress."""
        copy = self._copies.setdefault(task, _Copy(0))
        copy.restored_records += copy.session_records
        copy.restored_bytes += copy.session_bytes
        copy.session_records = copy.session_bytes = 0

    def progressed(self, progress: Progress) -> int:
        """A restorer applied a part of the changelogs; returns how many records that were."""
        copy = self._copies.setdefault(progress.task, _Copy(0))
        fresh = progress.restored_records - copy.session_records
        copy.offset_sum, copy.end_offset_sum = progress.offset_sum, progress.end_offset_sum
        copy.rate, copy.size_bytes = progress.rate, progress.size_bytes
        copy.session_records, copy.session_bytes = progress.restored_records, progress.restored_bytes
        return fresh

    def closed(self, task: TaskId, boundaries: Mapping[str, int]) -> None:
        """Its stores were closed at these boundaries."""
        copy = self._copies.setdefault(task, _Copy(0))
        copy.offset_sum, copy.rate = sum(boundaries.values()), 0

    def running(self, task: TaskId) -> None:
        """It runs here: nobody has more of it."""
        self._copies.setdefault(task, _Copy(0)).offset_sum = RUNNING

    def lost(self, task: TaskId) -> None:
        """Nothing of it is left, or may be trusted."""
        self._copies.pop(task, None)
        self._condemned.discard(task)

    def condemn(self, task: TaskId) -> None:
        """It is to be deleted: from now on it is reported gone."""
        self._condemned.add(task)

    def spare(self, task: TaskId) -> None:
        """It is wanted after all."""
        self._condemned.discard(task)

    @property
    def condemned(self) -> frozenset[TaskId]:
        """Copies that are reported gone and not deleted yet."""
        return frozenset(self._condemned)

    def lag(self, task: TaskId) -> int | None:
        """How far a copy is behind, if it is known."""
        copy = self._copies.get(task)
        if copy is None or copy.end_offset_sum == UNKNOWN or copy.offset_sum == RUNNING:
            return None
        return max(0, copy.end_offset_sum - copy.offset_sum)

    def report(self) -> tuple[TaskCopy, ...]:
        """The copies as a heartbeat says them."""
        return tuple(
            TaskCopy(
                task,
                copy.offset_sum,
                copy.end_offset_sum,
                copy.size_bytes,
                copy.rate,
                copy.restored_records + copy.session_records,
                copy.restored_bytes + copy.session_bytes,
            )
            for task, copy in sorted(self._copies.items())
            if task not in self._condemned
        )
