"""What it costs to have a task on a worker: state to restore, traffic between racks, being away from where it is now.

One unit is a thousandth of what it costs to restore a task of mean size from scratch, so that sizes may be bytes or
offsets, of any magnitude. Every state that is not complete costs at least one unit. On KIP-925's costs: `traffic_cost`
is for one partition read from another rack, `non_overlap_cost` for a task away from where it is *now*, not from where
it would be without racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sluice_assignor.draft import Numbering
from sluice_assignor.lags import Lags
from sluice_assignor.model import UNKNOWN_OFFSET_SUM, AssignmentConfig, RackAwareStrategy, Task
from sluice_assignor.optimum.network import Ints

WHOLE_STATE = 1000
"""Restoring a task of mean size."""

TRAFFIC = 100
"""What a partition read from another rack costs unless configured: ten of them are worth restoring a task."""

NON_OVERLAP = 1
"""What it costs to move a task unless configured: less than any restoring."""

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of tasks on workers that may receive tasks, one a row."""

    task: Ints
    worker: Ints
    restore: Ints
    is_active: Ints
    """1 where the worker runs the task now."""
    is_held: Ints
    """1 where the worker holds the task now, in whatever role."""

    def of(self, chosen: Ints) -> Copies:
        """The rows that are chosen, by mask or number."""
        columns = (self.task, self.worker, self.restore, self.is_active, self.is_held)
        return Copies(*(column[chosen] for column in columns))


class Costs:
    """All costs of a group. Tasks have the group's numbers; workers are counted among those that may receive tasks."""

    def __init__(self, numbering: Numbering, lags: Lags, config: AssignmentConfig, *, racks: bool) -> None:
        self._numbering = numbering
        self._lags = lags
        self._traffic_cost = TRAFFIC if config.traffic_cost is None else config.traffic_cost
        self.non_overlap = NON_OVERLAP if config.non_overlap_cost is None else config.non_overlap_cost
        self._subtopology_spread = config.optimal.subtopology_spread
        self._balances_subtopologies = racks and config.rack_aware_strategy is RackAwareStrategy.BALANCE_SUBTOPOLOGY
        self._workers = [numbering.workers[number] for number in numbering.staying]
        self._place = {number: place for place, number in enumerate(numbering.staying)}
        self._racks = sorted({worker.rack or "" for worker in self._workers}) if racks else [""]
        self.capacity = np.array([worker.capacity for worker in self._workers], dtype=np.int64)
        rack_number = {rack: number for number, rack in enumerate(self._racks)}
        self.rack = np.array([rack_number[(worker.rack or "") if racks else ""] for worker in self._workers], np.int64)
        self.subtopology = np.array([task.id.subtopology for task in numbering.tasks], dtype=np.int64)

    @property
    def rack_count(self) -> int:
        return len(self._racks)

    @cached_property
    def spread(self) -> int:
        """One task of a subtopology above a worker's even share. Where subtopologies are to be balanced it is more than
        the traffic of two tasks that change places can save; not more than restoring, unless configured so."""
        if not self._balances_subtopologies:
            return self._subtopology_spread
        return max(self._subtopology_spread, 1 + 2 * int(self.source_traffic.max(initial=0)))

    @cached_property
    def source_traffic(self) -> Ints:
        """By task and rack: reading the sources, which the active does."""
        return self._traffic([task.source_racks for task in self._numbering.tasks])

    @cached_property
    def changelog_traffic(self) -> Ints:
        """By task and rack: reading the changelogs, which a standby does."""
        return self._traffic([task.changelog_racks for task in self._numbering.tasks])

    @cached_property
    def from_scratch(self) -> Ints:
        """By task: restoring all of its state."""
        return self._restore(self._ends, np.arange(len(self._numbering.tasks)))

    @cached_property
    def holder(self) -> Ints:
        """By task: who runs it now; NOWHERE if that is nobody who may receive tasks."""
        holder = np.full(len(self._numbering.tasks), NOWHERE, dtype=np.int64)
        for task, number in self._numbering.holders.items():
            holder[task] = self._place.get(number, NOWHERE)
        return holder

    @cached_property
    def copies(self) -> Copies:
        """The copies of tasks with state; what a worker holds is one, though it may not have reported it yet."""
        rows = np.array([*self._reported(), *self._not_reported()], dtype=np.int64).reshape(-1, 5)
        task, worker, left, is_active, is_held = np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))].T)
        return Copies(task, worker, self._restore(left, task), is_active, is_held)

    def _reported(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        holders = self._numbering.holders
        for task in self._numbering.stateful:
            end = self._numbering.tasks[task].end_offset_sum
            for number, lag in self._lags.reported(task).items():
                if number in self._place:
                    left = end if lag == UNKNOWN_OFFSET_SUM else max(0, lag)
                    is_active = holders.get(task) == number
                    is_held = is_active or self._numbering.holds_now(number, task)
                    yield task, self._place[number], left, is_active, is_held

    def _not_reported(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        for place, worker in enumerate(self._workers):
            for task_id in (worker.active | worker.standby | worker.warmup) - worker.copies.keys():
                task = self._numbering.task_numbers.get(task_id)
                if task is not None and self._numbering.tasks[task].stateful:
                    yield task, place, self._numbering.tasks[task].end_offset_sum, task_id in worker.active, True

    @cached_property
    def _ends(self) -> Ints:
        return np.array([task.end_offset_sum for task in self._numbering.tasks], dtype=np.int64)

    @cached_property
    def _size_of_offset(self) -> npt.NDArray[np.float64]:
        """By task: what one offset is worth; all the same unless every task with state says how big it is."""
        stateful = [self._numbering.tasks[task] for task in self._numbering.stateful]
        if not all(task.state_bytes for task in stateful):
            return np.ones(len(self._numbering.tasks))
        return np.array([_bytes_of_offset(task) for task in self._numbering.tasks])

    def _restore(self, left: Ints, task: Ints) -> Ints:
        stateful = np.array(self._numbering.stateful, dtype=np.int64)
        if not len(stateful):
            return np.zeros_like(left)
        mean = (self._ends * self._size_of_offset)[stateful].mean()
        if not mean:
            return np.zeros_like(left)
        thousandths: Ints = np.ceil(WHOLE_STATE * (left * self._size_of_offset[task] / mean)).astype(np.int64)
        return thousandths

    def _traffic(self, partitions: Sequence[tuple[frozenset[str], ...]]) -> Ints:
        known: dict[tuple[frozenset[str], ...], list[int]] = {}
        if self.rack_count == 1 and self._racks == [""]:
            return np.zeros((len(partitions), 1), dtype=np.int64)
        for racks in partitions:
            if racks not in known:
                known[racks] = [sum(rack not in replicas for replicas in racks) for rack in self._racks]
        counts = np.array([known[racks] for racks in partitions], dtype=np.int64)
        return counts.reshape(-1, self.rack_count) * self._traffic_cost


def _bytes_of_offset(task: Task) -> float:
    return (task.state_bytes or 0) / max(1, task.end_offset_sum)
