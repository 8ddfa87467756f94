"""The record of hand-overs: where each active replica came from, and what the new holder had to catch up."""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass

from sluice_protocol.ids import Epoch, TaskId
from sluice_protocol.view import MoveView

_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class LastHolder:
    """Who ran a task before, and how that ended: `ending` is None after a planned release."""

    worker: str
    at_ms: int
    ending: str | None = None


class MoveRecord:
    """Hand-overs that have been granted, and those that have completed: the new holder has said that it holds."""

    def __init__(self) -> None:
        self.completed: deque[MoveView] = deque(maxlen=_KEPT)
        self.count = 0
        self._last: dict[TaskId, LastHolder] = {}
        self._granted: dict[TaskId, MoveView] = {}

    def ended(self, task: TaskId, worker: str, now_ms: int, ending: str | None = None) -> None:
        """The worker holds the task no more. If it never said that it did, its predecessor stays the last holder."""
        if self._granted.pop(task, None) is None:
            self._last[task] = LastHolder(worker, now_ms, ending)

    def granted(self, task: TaskId, worker: str, reason: str, lag: int, epoch: Epoch) -> None:
        """The task was given to a worker that did not hold it."""
        last = self._last.get(task)
        self._granted[task] = MoveView(
            task=task,
            source=None if last is None else last.worker,
            destination=worker,
            reason=reason if last is None or last.ending is None else last.ending,
            lag=lag,
            planned=last is not None and last.ending is None,
            epoch=epoch,
            at_ms=0,
        )

    def confirmed(self, task: TaskId, now_ms: int) -> MoveView | None:
        """The new holder holds it. The move, if the task has come from another worker."""
        granted = self._granted.pop(task, None)
        if granted is None or granted.source in (None, granted.destination):
            return None
        move = dataclasses.replace(granted, at_ms=now_ms, pause_ms=now_ms - self._last[task].at_ms)
        self.completed.append(move)
        self.count += 1
        return move
