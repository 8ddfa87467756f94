"""How busy a worker's loops are, for its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Iterable

from sluice_pipeline.worker.task_loop import TaskLoop
from sluice_protocol.heartbeat import Load

_SHORTEST_SECONDS = 1.0


class LoadMeter:
    """Rates since the last reading."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._records = 0
        self._busy_seconds = 0.0

    def read(self, loops: Iterable[TaskLoop]) -> Load:
        """Records a second and the busy share in permille; nothing when it was read a moment ago."""
        now = time.monotonic()
        elapsed = now - self._at
        if elapsed < _SHORTEST_SECONDS:
            return Load()
        totals = [(loop.records, loop.busy_seconds) for loop in loops]
        records, busy = sum(count for count, _ in totals), sum(seconds for _, seconds in totals)
        load = Load(
            max(0, round((records - self._records) / elapsed)),
            max(0, min(1000, round(1000 * (busy - self._busy_seconds) / elapsed))),
        )
        self._at, self._records, self._busy_seconds = now, records, busy
        return load
