"""Groups and decisions that can be read: `a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").decide()`.

Workers are named by the test; their process ids follow the order of the names given. Tasks are written as in Kafka,
several in one string.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sluice_assignor import (
    Assignment,
    AssignmentConfig,
    Copy,
    Decision,
    GroupState,
    RackAwareStrategy,
    Task,
    Worker,
    decide,
)
from sluice_assignor.model import RUNNING
from sluice_protocol.ids import TaskId

Actives = Mapping[UUID, Set[TaskId]]

END = 100_000
"""How long the changelogs of a task with state are."""


def a_group(stateful: str = "", *, stateless: str = "", workers: str) -> Group:
    """A group of these tasks and workers, in which nobody has anything yet."""
    names = tuple(workers.split())
    tasks = {
        **{task: Task(task, stateful=True, end_offset_sum=END) for task in parse(stateful)},
        **{task: Task(task, stateful=False) for task in parse(stateless)},
    }
    ids = {name: UUID(int=number + 1) for number, name in enumerate(names)}
    return Group(GroupState(tasks, {ids[name]: Worker(ids[name], capacity=1) for name in names}), ids)


@dataclass(frozen=True)
class Group:
    """A group under construction; every call returns a new one."""

    state: GroupState
    ids: dict[str, UUID]
    racks: RackAwareStrategy = RackAwareStrategy.NONE

    def in_racks(self, strategy: RackAwareStrategy) -> Group:
        """Every worker in a rack of its own, every partition in all of them: the strategy has no traffic to save."""
        workers = {id_: replace(worker, rack=str(id_)) for id_, worker in self.state.workers.items()}
        everywhere = (frozenset(map(str, workers)),)
        tasks = {
            id_: replace(task, source_racks=everywhere, changelog_racks=everywhere if task.stateful else ())
            for id_, task in self.state.tasks.items()
        }
        return replace(self, state=GroupState(tasks, workers), racks=strategy)

    def running(self, **tasks: str) -> Group:
        """Active and running: as caught up as can be."""
        return self._hold("active", RUNNING, tasks)

    def restoring(self, lag: int, **tasks: str) -> Group:
        """Active, but still so far behind."""
        return self._hold("active", END - lag, tasks)

    def standing_by(self, lag: int = 0, **tasks: str) -> Group:
        return self._hold("standby", END - lag, tasks)

    def warming(self, lag: int, **tasks: str) -> Group:
        return self._hold("warmup", END - lag, tasks)

    def on_disk(self, lag: int = 0, **tasks: str) -> Group:
        """A copy that the worker does not hold, but still has."""
        return self._hold(None, END - lag, tasks)

    def threads(self, **capacities: int) -> Group:
        return self._change({name: replace(self._worker(name), capacity=count) for name, count in capacities.items()})

    def draining(self, *names: str) -> Group:
        return self._change({name: replace(self._worker(name), draining=True) for name in names})

    def joined_by(self, *names: str) -> Group:
        ids = self.ids | {name: UUID(int=len(self.ids) + number + 1) for number, name in enumerate(names)}
        newcomers = {ids[name]: Worker(ids[name], capacity=1) for name in names}
        return Group(replace(self.state, workers={**self.state.workers, **newcomers}), ids)

    def without(self, *names: str) -> Group:
        gone = {self.ids[name] for name in names}
        return self._with({id_: worker for id_, worker in self.state.workers.items() if id_ not in gone})

    def with_unknown_ends(self) -> Group:
        return replace(self, state=replace(self.state, end_offsets_known=False))

    def decide(
        self,
        *,
        lag: int = 10_000,
        warmups: int = 2,
        standbys: int = 0,
        strategy: str = "HighAvailability",
        **others: Any,
    ) -> Outcome:
        """What the assignor decides, with Kafka's defaults for what is not given; `others` are fields of the config."""
        config = AssignmentConfig(strategy, lag, warmups, standbys, **{"rack_aware_strategy": self.racks} | others)
        return Outcome(decide(self.state, config), {id_: name for name, id_ in self.ids.items()})

    def once_hot(self, outcome: Outcome) -> Group:
        """The group when everything that the decision wants has come true, and no other copy is left."""
        return replace(self, state=once_hot(self.state, outcome.decision.next))

    def _hold(self, role: str | None, offset_sum: int, tasks: dict[str, str]) -> Group:
        changed = {}
        for name, text in tasks.items():
            worker, held = self._worker(name), frozenset(parse(text))
            worker = replace(worker, copies={**worker.copies, **{task: Copy(offset_sum) for task in held}})
            changed[name] = replace(worker, **{role: getattr(worker, role) | held}) if role else worker
        return self._change(changed)

    def _worker(self, name: str) -> Worker:
        return self.state.workers[self.ids[name]]

    def _change(self, changed: dict[str, Worker]) -> Group:
        return self._with({**self.state.workers, **{self.ids[name]: worker for name, worker in changed.items()}})

    def _with(self, workers: dict[UUID, Worker]) -> Group:
        return replace(self, state=replace(self.state, workers=workers))


@dataclass(frozen=True)
class Outcome:
    """A decision in the words of the test; workers that hold nothing in a role are left out."""

    decision: Decision
    names: dict[UUID, str]

    @property
    def active(self) -> dict[str, str]:
        return self._readable(self.decision.next, "active")

    @property
    def standby(self) -> dict[str, str]:
        return self._readable(self.decision.next, "standby")

    @property
    def warmup(self) -> dict[str, str]:
        return self._readable(self.decision.next, "warmup")

    @property
    def target(self) -> dict[str, str]:
        return self._readable(self.decision.target, "active")

    @property
    def follow_up(self) -> bool:
        return self.decision.follow_up

    @property
    def moves(self) -> list[str]:
        """As in `0_1 a to b WARMING`; a source that does not exist is a dash."""
        return [
            f"{move.task} {self.names.get(move.source, '-')} to {self.names[move.destination]} {move.reason.name}"
            for move in self.decision.moves
        ]

    def _readable(self, assignment: Assignment, role: str) -> dict[str, str]:
        held = {self.names[id_]: tasks for id_, tasks in getattr(assignment, role).items()}
        return {name: " ".join(str(task) for task in sorted(tasks)) for name, tasks in held.items() if tasks}


def parse(tasks: str) -> list[TaskId]:
    return [TaskId.parse(task) for task in tasks.split()]


def once_hot(state: GroupState, reached: Assignment) -> GroupState:
    """Every active of the assignment runs, every other copy has caught up, and no other copy is left."""
    return replace(state, workers={id_: _at_rest(worker, state, reached) for id_, worker in state.workers.items()})


def _at_rest(worker: Worker, state: GroupState, reached: Assignment) -> Worker:
    id_ = worker.process_id
    copies = {task: Copy(state.tasks[task].end_offset_sum) for task in reached.standby[id_] | reached.warmup[id_]}
    running = {task: Copy(RUNNING) for task in reached.active[id_] if state.tasks[task].stateful}
    return replace(
        worker,
        active=reached.active[id_],
        standby=reached.standby[id_],
        warmup=reached.warmup[id_],
        copies={**copies, **running},
    )


def is_balanced(group: GroupState, active: Actives) -> bool:
    """A thread to every task; with more tasks than threads, nobody is a whole task ahead of anybody."""
    workers = [worker for worker in group.workers.values() if not worker.draining]
    if len(group.tasks) < sum(worker.capacity for worker in workers):
        return all(len(active[worker.process_id]) <= worker.capacity for worker in workers)
    counts = [(len(active[worker.process_id]), worker.capacity) for worker in workers]
    return all((count - 1) * other <= held * capacity for count, capacity in counts for held, other in counts)
