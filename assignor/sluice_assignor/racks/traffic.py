"""What a task costs on a worker: partitions read from another rack, and being away from home (KIP-925, "getCost")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice_assignor.draft import Numbering
from sluice_assignor.model import AssignmentConfig


@dataclass(frozen=True, slots=True)
class Weights:
    """The costs of one partition read from another rack, and of one task away from home."""

    traffic: int
    non_overlap: int

    @classmethod
    def with_state(cls, config: AssignmentConfig) -> Weights:
        """As configured; 10 and 1 where nothing is."""
        return cls(
            10 if config.traffic_cost is None else config.traffic_cost,
            1 if config.non_overlap_cost is None else config.non_overlap_cost,
        )

    @classmethod
    def without_state(cls) -> Weights:
        """Nothing keeps a task without state where it is, whatever is configured."""
        return cls(1, 0)


class Racks:
    """The racks of the workers that may receive tasks, numbered."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        named = {worker: numbering.workers[worker].rack or "" for worker in numbering.staying}
        self._names = sorted(set(named.values()))
        self.count = len(self._names)
        self.of_worker = {worker: self._names.index(rack) for worker, rack in named.items()}

    def reading(self, tasks: Iterable[int], cost: int) -> list[list[int]]:
        """What reading the sources of each task costs from each rack."""
        return [self._traffic(self._numbering.tasks[task].source_racks, cost) for task in tasks]

    def restoring(self, tasks: Iterable[int], cost: int) -> list[list[int]]:
        """What reading the changelogs of each task costs from each rack."""
        return [self._traffic(self._numbering.tasks[task].changelog_racks, cost) for task in tasks]

    def _traffic(self, partitions: Sequence[frozenset[str]], cost: int) -> list[int]:
        return [cost * sum(rack not in replicas for replicas in partitions) for rack in self._names]
