"""Unused state is deleted in two steps: first it is no longer reported, then, when that was heard, it goes.

Otherwise the coordinator could grant a task for the sake of a copy that is being deleted (KIP-441, "race").
"""

from __future__ import annotations

import logging
import time
from collections.abc import Container

from sluice_pipeline.state.directory import StateDirectory
from sluice_pipeline.worker.copies import Copies
from sluice_protocol.ids import TaskId

log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 10.0


class Cleaner:
    """Deletes what has lain unused for `delay_seconds`."""

    def __init__(self, state: StateDirectory, copies: Copies, delay_seconds: float) -> None:
        self._state = state
        self._copies = copies
        self._delay_seconds = delay_seconds
        self._looked_at = time.monotonic()

    def condemn_unused(self, used: Container[TaskId]) -> bool:
        """Now and then: report old, ungranted directories as gone. Whether there were any."""
        now = time.monotonic()
        if now - self._looked_at < _INTERVAL_SECONDS:
            return False
        self._looked_at = now
        condemned = [
            task
            for task in self._state.tasks()
            if task not in used
            and task not in self._copies.condemned
            and self._state.idle_seconds(task) > self._delay_seconds
        ]
        for task in condemned:
            self._copies.condemn(task)
        return bool(condemned)

    def delete_condemned(self, used: Container[TaskId]) -> None:
        """The coordinator has heard that they are gone; one that it has granted meanwhile is kept."""
        for task in self._copies.condemned:
            if task in used:
                self._copies.spare(task)
                continue
            log.info("deleting the unused state of task %s", task)
            self._state.remove(task)
            self._copies.lost(task)
