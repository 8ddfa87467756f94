"""The share of the tasks that a worker's threads are worth, and how far ahead of it the worker is.

KIP-441's oldest version weighs instances by capacity: with threads of 5, 10, 10 and 15, 80 tasks are 10, 20, 20 and 30.
A share may be a fraction of a task. So that two workers with as many threads never differ by a rounding error, all is
counted in whole parts: one task is as many parts as there are threads in the group.
"""

from __future__ import annotations

from collections.abc import Sequence


class Shares:
    """How `tasks` tasks divide over workers."""

    def __init__(self, tasks: int, capacity: Sequence[int], workers: Sequence[int]) -> None:
        self._tasks = tasks
        self._capacity = capacity
        self.parts = sum(capacity[worker] for worker in workers)
        """The parts of one task."""

    def surplus(self, worker: int, held: int) -> int:
        """How many parts the worker is ahead of its share with so many tasks; below zero when it is behind."""
        return held * self.parts - self._tasks * self._capacity[worker]

    def band(self, worker: int, percentage: int) -> tuple[int, int]:
        """The fewest and the most tasks that are within so many percent of the share.

        The whole numbers around the share always are.
        """
        share = self._tasks * self._capacity[worker]
        fewest = min(share // self.parts, _ceil(share * (100 - percentage), 100 * self.parts))
        most = max(_ceil(share, self.parts), share * (100 + percentage) // (100 * self.parts))
        return fewest, most


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
