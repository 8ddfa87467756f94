"""An assignment while it is being made: who holds what in which role, by number.

Inside the assignor workers and tasks are numbers in Kafka's order, so that comparing two is cheap and every tie falls
as in Kafka: workers by process id, tasks by subtopology and partition.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from uuid import UUID

from sluice_assignor.java_order import process_order
from sluice_assignor.model import Assignment, GroupState, Task, Worker
from sluice_protocol.ids import TaskId

Role = list[set[int]]
"""The tasks that each worker holds in one role."""


@dataclass(frozen=True)
class Numbering:
    """The numbers of a group's workers and tasks."""

    workers: tuple[Worker, ...]
    tasks: tuple[Task, ...]

    @classmethod
    def of(cls, group: GroupState) -> Numbering:
        workers = sorted(group.workers.values(), key=lambda worker: process_order(worker.process_id))
        tasks = sorted(group.tasks.values(), key=attrgetter("id"))
        return cls(tuple(workers), tuple(tasks))

    @cached_property
    def staying(self) -> tuple[int, ...]:
        """The workers that may receive tasks."""
        return tuple(number for number, worker in enumerate(self.workers) if not worker.draining)

    @cached_property
    def draining(self) -> tuple[int, ...]:
        return tuple(number for number, worker in enumerate(self.workers) if worker.draining)

    @cached_property
    def stateful(self) -> tuple[int, ...]:
        return tuple(number for number, task in enumerate(self.tasks) if task.stateful)

    @cached_property
    def stateless(self) -> tuple[int, ...]:
        return tuple(number for number, task in enumerate(self.tasks) if not task.stateful)

    @cached_property
    def task_ids(self) -> list[TaskId]:
        return [task.id for task in self.tasks]

    @cached_property
    def process_ids(self) -> list[UUID]:
        return [worker.process_id for worker in self.workers]

    @cached_property
    def task_numbers(self) -> dict[TaskId, int]:
        return {task.id: number for number, task in enumerate(self.tasks)}

    @cached_property
    def holders(self) -> dict[int, int]:
        """Who runs each task now."""
        numbers = self.task_numbers
        return {
            task: number
            for number, worker in enumerate(self.workers)
            for task in map(numbers.get, worker.active)
            if task is not None
        }

    def held_now(self, worker: int) -> frozenset[TaskId]:
        """All that the worker has been given, in whatever role."""
        held = self.workers[worker]
        return held.active | held.standby | held.warmup

    def holds_now(self, worker: int, task: int) -> bool:
        """Has the worker been given the task, in whatever role?"""
        held, task_id = self.workers[worker], self.tasks[task].id
        return task_id in held.active or task_id in held.standby or task_id in held.warmup


class Draft:
    """Who holds which task so far. Warm-ups are kept apart from standbys, but weigh the same."""

    def __init__(self, numbering: Numbering) -> None:
        count = len(numbering.workers)
        self.capacity = [worker.capacity for worker in numbering.workers]
        self.active: Role = [set() for _ in range(count)]
        self.standby: Role = [set() for _ in range(count)]
        self.warmup: Role = [set() for _ in range(count)]

    def copy(self) -> Draft:
        twin = object.__new__(Draft)
        twin.capacity = self.capacity
        twin.active = [set(tasks) for tasks in self.active]
        twin.standby = [set(tasks) for tasks in self.standby]
        twin.warmup = [set(tasks) for tasks in self.warmup]
        return twin

    def holds(self, worker: int, task: int) -> bool:
        return task in self.active[worker] or task in self.standby[worker] or task in self.warmup[worker]

    def count(self, worker: int) -> int:
        """How many tasks the worker holds, whatever their roles."""
        return len(self.active[worker]) + len(self.standby[worker]) + len(self.warmup[worker])

    def load(self, worker: int) -> float:
        """Tasks a thread (Kafka's assignedTaskLoad)."""
        held = len(self.active[worker]) + len(self.standby[worker]) + len(self.warmup[worker])  # asked all the time
        return held / self.capacity[worker]

    def active_load(self, worker: int) -> float:
        """Active tasks a thread (Kafka's activeTaskLoad)."""
        return len(self.active[worker]) / self.capacity[worker]

    def by_load(self, worker: int) -> tuple[float, int]:
        """The sort key of the least loaded worker; of equals the first."""
        return self.load(worker), worker

    def active_holders(self) -> dict[int, int]:
        """Each task that runs somewhere, and where."""
        return {task: worker for worker, tasks in enumerate(self.active) for task in tasks}

    def assignment(self, numbering: Numbering) -> Assignment:
        """The draft as the caller knows workers and tasks."""
        return Assignment(
            active=_named(self.active, numbering),
            standby=_named(self.standby, numbering),
            warmup=_named(self.warmup, numbering),
        )


def holders_of(tasks: Set[int], *roles: Role) -> dict[int, set[int]]:
    """The workers that hold each of the tasks in any of these roles."""
    holders: dict[int, set[int]] = {task: set() for task in tasks}
    for role in roles:
        for worker, held in enumerate(role):
            for task in held & tasks:
                holders[task].add(worker)
    return holders


def _named(role: Role, numbering: Numbering) -> dict[UUID, frozenset[TaskId]]:
    id_of = numbering.task_ids.__getitem__
    return {
        worker.process_id: frozenset(map(id_of, tasks)) for worker, tasks in zip(numbering.workers, role, strict=True)
    }
