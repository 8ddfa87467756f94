"""Watching the group while the demo runs: every warm-up with its lag and ETA, every hand-over, as they happen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

from facts import WarmUps

from sluice_cli.errors import CommandError
from sluice_cli.http_call import UnreachableError
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId
from sluice_protocol.view import GroupView, MoveView, TaskView

_LOOK_SECONDS = 0.2
_SAY_SECONDS = 1.0


class Watcher(threading.Thread):
    """Looks at the group a few times a second, remembers what the facts need, and tells `say` what changed."""

    def __init__(self, view: Callable[[], GroupView], say: Callable[[str], None]) -> None:
        super().__init__(name="watcher", daemon=True)
        self._view = view
        self._say = say
        self._ended = threading.Event()
        self._said: dict[tuple[TaskId, str], float] = {}
        self._moves_seen: set[tuple[TaskId, str, int]] = set()
        self._restored: dict[str, tuple[int, int]] = {}
        self.warm_ups = WarmUps({})
        self.moves: list[MoveView] = []

    def run(self) -> None:
        """Thread entry."""
        while not self._ended.wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> GroupView | None:
        """Look once."""
        try:
            view = self._view()
        except (UnreachableError, CommandError, CancelledError):
            return None
        for task in view.tasks:
            if task.role is Role.WARMUP and task.lag is not None:
                self._note_warm_up(task, task.lag)
        for move in view.moves:
            self._note_move(move)
        for member in view.members:
            self._restored[member.member_id] = (member.restored_records, member.restored_bytes)
        return view

    def stop(self) -> None:
        """Look for the last time."""
        self._ended.set()
        self.join()

    @property
    def restored(self) -> tuple[int, int]:
        """Records and bytes that all workers applied from changelogs."""
        return sum(records for records, _ in self._restored.values()), sum(size for _, size in self._restored.values())

    def _note_warm_up(self, task: TaskView, lag: int) -> None:
        where = (task.task, task.worker)
        lags = self.warm_ups.lags.setdefault(where, [])
        if lags and lags[-1] == lag:
            return
        lags.append(lag)
        now = time.monotonic()
        if now - self._said.get(where, 0.0) >= _SAY_SECONDS or lag == 0:
            self._said[where] = now
            eta = "" if task.eta_seconds is None else f", {task.eta_seconds} s left"
            end = f" of {task.end_offset_sum:,}" if task.end_offset_sum else ""
            self._say(f"{task.task} warming on {task.worker}: {lag:,}{end} records behind{eta}")

    def _note_move(self, move: MoveView) -> None:
        identity = (move.task, move.destination, move.at_ms)
        if identity in self._moves_seen:
            return
        self._moves_seen.add(identity)
        self.moves.append(move)
        if move.source is not None:
            how = f"{move.lag:,} records behind" if move.planned else "after its worker died"
            self._say(f"{move.task} handed over from {move.source} to {move.destination}, {how}")
