"""What would happen: a group rolled forward under a clock that is data (KIP-441, "Iterative Balancing Assignments").

A decision says what the next step is, and nothing of how long the way is. Here copies restore at a given rate, steps
come when a copy is hot or when the probing interval has passed, copies that nobody holds are cleaned up, and workers
join, drain and leave at given times. What comes out is the way from a group to its target, step by step: for a plan
that is shown before it is carried out, and to compare strategies on the same group.

Not modelled: changelogs that grow meanwhile, copies that slow each other down, the seconds of a hand-over itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from uuid import UUID

from sluice_assignor.decide import decide
from sluice_assignor.errors import InvalidConfigError, InvalidGroupError
from sluice_assignor.model import (
    MAX_LAG,
    RUNNING,
    Assignment,
    AssignmentConfig,
    Copy,
    Decision,
    GroupState,
    Task,
    Worker,
)
from sluice_protocol.ids import TaskId

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How time passes. Raises InvalidConfigError naming the field and the value.

    `restore_rate`: offsets that one copy restores in a second, however many restore. `step_when_warm`: a step comes as
    soon as a copy that is waited for is hot; else only when the probing interval has passed, as in Kafka.
    `cleanup_delay_ms`: for so long a worker keeps a copy that it no longer holds. `horizon_ms`: the end of the
    simulation, converged or not.
    """

    restore_rate: int
    step_when_warm: bool = True
    probing_interval_ms: int = 10 * _MINUTE_MS
    cleanup_delay_ms: int = 10 * _MINUTE_MS
    horizon_ms: int = 30 * 24 * 60 * _MINUTE_MS

    def __post_init__(self) -> None:
        for name, value, least in (
            ("restoreRate", self.restore_rate, 1),
            ("probingRebalanceInterval", self.probing_interval_ms, 1),
            ("stateCleanupDelay", self.cleanup_delay_ms, 0),
            ("horizon", self.horizon_ms, 0),
        ):
            if value < least:
                raise InvalidConfigError(f"{name} is {value}; it must be at least {least}")


@dataclass(frozen=True, slots=True)
class Join:
    """A worker joins; what it holds and has on its disk is as given. One that is there already is replaced."""

    at_ms: int
    worker: Worker


@dataclass(frozen=True, slots=True)
class Drain:
    """A worker begins to drain: it keeps what it holds until that is hot elsewhere."""

    at_ms: int
    process_id: UUID


@dataclass(frozen=True, slots=True)
class Leave:
    """A worker is gone, with its copies."""

    at_ms: int
    process_id: UUID


Event = Join | Drain | Leave


class Cause(Enum):
    """Why a step was taken."""

    MEMBERSHIP = "the group changed"
    WARM = "a copy is hot"
    PROBE = "the probing interval has passed"


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One decision. `hand_overs` are the tasks that it takes from one worker and gives to another."""

    at_ms: int
    cause: Cause
    decision: Decision
    hand_overs: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole way from a group to its target.

    `converged_at_ms`: the first time from which on nothing is left to do: every task is where the target wants it, and
    every active and standby has caught up; None when that was not before the horizon. `moved`: tasks that end on
    another worker than they began on. `stood_still_ms`: for each task that had no caught-up active for some time, how
    long; planned changes leave it empty. `restored_bytes` is None unless the size of every task's state is known.
    """

    steps: tuple[TimelineStep, ...]
    converged_at_ms: int | None
    moved: frozenset[TaskId]
    restored_offsets: int
    restored_bytes: int | None
    stood_still_ms: Mapping[TaskId, int]
    final: GroupState

    @property
    def hand_overs(self) -> int:
        """How often an active changed its worker; a task that moves over a stand-in counts twice."""
        return sum(len(step.hand_overs) for step in self.steps)

    @property
    def follow_ups(self) -> int:
        """Steps that no change of the group asked for (Kafka's probing rebalances)."""
        return sum(step.cause is not Cause.MEMBERSHIP for step in self.steps)


def simulate(group: GroupState, config: AssignmentConfig, pace: Pace, events: Sequence[Event] = ()) -> Timeline:
    """Roll a group forward from time 0 until nothing is left to do, or until the horizon.

    The first step is taken at time 0, after the events of that time. Raises InvalidGroupError for an event before 0 or
    one that names a worker that is not there, and whatever `decide` raises.
    """
    return _Simulation(group, config, pace, events).run()


@dataclass(slots=True)
class _Replica:
    """A copy of a task on one worker: where it stood at a time. Only one that is held goes on restoring."""

    offset: int
    as_of_ms: int
    is_held: bool

    def offset_at(self, now_ms: int, task: Task, rate: int) -> int:
        if not self.is_held or self.offset >= task.end_offset_sum:
            return self.offset
        return min(task.end_offset_sum, self.offset + (now_ms - self.as_of_ms) * rate // 1000)

    def reaches_at_ms(self, offset: int, rate: int) -> int:
        """When it will have read so far; the past, if it already has."""
        return self.as_of_ms - (self.offset - offset) * 1000 // rate


@dataclass(slots=True)
class _Simulation:
    group: GroupState
    config: AssignmentConfig
    pace: Pace
    events: Sequence[Event]
    now_ms: int = 0
    replicas: dict[tuple[UUID, TaskId], _Replica] = field(default_factory=dict)
    steps: list[TimelineStep] = field(default_factory=list)
    awaited_until: dict[tuple[UUID, TaskId], int] = field(default_factory=dict)
    stood_still_ms: dict[TaskId, int] = field(default_factory=dict)
    restored: dict[TaskId, int] = field(default_factory=dict)

    def run(self) -> Timeline:
        pending = self._in_order()
        began = _holders(self.group.workers)
        for worker in self.group.workers.values():
            self._take_in(worker)
        cause: Cause | None = Cause.MEMBERSHIP
        while True:
            self._clean_up()
            while pending and pending[0].at_ms <= self.now_ms:
                self._happen(pending.pop(0))
                cause = Cause.MEMBERSHIP
            if cause is not None:
                self._step(cause)
            if not pending and self._is_at_rest():
                return self._timeline(began, self.now_ms)
            next_ms, cause = self._next(pending)
            if next_ms > self.pace.horizon_ms:
                self._pass_time(self.pace.horizon_ms)
                return self._timeline(began, None)
            self._pass_time(next_ms)

    def _in_order(self) -> list[Event]:
        for event in self.events:
            if event.at_ms < 0:
                raise InvalidGroupError(f"{event} is at {event.at_ms} ms; the simulation begins at 0")
        return sorted(self.events, key=lambda event: event.at_ms)

    # --- what happens to the group

    def _happen(self, event: Event) -> None:
        workers = dict(self.group.workers)
        if isinstance(event, Join):
            workers[event.worker.process_id] = event.worker
            self._forget(event.worker.process_id)
            self._take_in(event.worker)
        elif event.process_id not in workers:
            raise InvalidGroupError(f"{event} names a worker that is not in the group at {event.at_ms} ms")
        elif isinstance(event, Drain):
            workers[event.process_id] = replace(workers[event.process_id], draining=True)
        else:
            del workers[event.process_id]
            self._forget(event.process_id)
        self.group = replace(self.group, workers=workers)

    def _take_in(self, worker: Worker) -> None:
        """Note the copies of a worker, as far as they are of any use."""
        held = _held(worker)
        for task in self.group.tasks.values():
            if task.stateful and (task.id in held or task.id in worker.copies):
                copy = worker.copies.get(task.id, Copy(0))
                offset = task.end_offset_sum if copy.offset_sum == RUNNING else copy.offset_sum
                usable = offset if 0 <= offset <= task.end_offset_sum else 0
                self.replicas[worker.process_id, task.id] = _Replica(usable, self.now_ms, task.id in held)

    def _forget(self, process_id: UUID) -> None:
        for key in [key for key in self.replicas if key[0] == process_id]:
            self._settle(*key)
            del self.replicas[key]

    def _clean_up(self) -> None:
        for key, replica in list(self.replicas.items()):
            if not replica.is_held and self.now_ms >= replica.as_of_ms + self.pace.cleanup_delay_ms:
                del self.replicas[key]

    # --- a step

    def _step(self, cause: Cause) -> None:
        self._observe()
        before = _holders(self.group.workers)
        decision = decide(self.group, self.config)
        after = {task: process_id for process_id, tasks in decision.next.active.items() for task in tasks}
        given = tuple(sorted(task for task in before if after.get(task, before[task]) != before[task]))
        self.steps.append(TimelineStep(self.now_ms, cause, decision, given))
        self._apply(decision.next)
        self.awaited_until = self._awaited(decision)

    def _observe(self) -> None:
        """Write into the group what its workers would report now."""
        copies: dict[UUID, dict[TaskId, Copy]] = {process_id: {} for process_id in self.group.workers}
        for process_id, task in self.replicas:
            copies[process_id][task] = Copy(self._reported_offset(process_id, task))
        workers = {id_: replace(worker, copies=copies[id_]) for id_, worker in self.group.workers.items()}
        self.group = replace(self.group, workers=workers)

    def _reported_offset(self, process_id: UUID, task: TaskId) -> int:
        offset = self._offset(process_id, task)
        is_complete = offset == self.group.tasks[task].end_offset_sum
        return RUNNING if is_complete and task in self.group.workers[process_id].active else offset

    def _apply(self, assignment: Assignment) -> None:
        workers = {
            id_: replace(
                worker,
                active=assignment.active[id_],
                standby=assignment.standby[id_],
                warmup=assignment.warmup[id_],
            )
            for id_, worker in self.group.workers.items()
        }
        self.group = replace(self.group, workers=workers)
        self._hold({(id_, task) for id_, worker in workers.items() for task in _held(worker)})

    def _hold(self, held: set[tuple[UUID, TaskId]]) -> None:
        """Let go of copies that are no longer held, begin those that are new, go on with those that lay idle."""
        for key, replica in self.replicas.items():
            if replica.is_held and key not in held:
                self._settle(*key)
                replica.is_held = False
        for key in held:
            idle = self.replicas.get(key)
            if self.group.tasks[key[1]].stateful and (idle is None or not idle.is_held):
                offset = 0 if idle is None else idle.offset
                self.replicas[key] = _Replica(offset, self.now_ms, is_held=True)

    def _awaited(self, decision: Decision) -> dict[tuple[UUID, TaskId], int]:
        """The copies that are to become something better once they are hot, and when that is."""
        waiting = [
            *((id_, task) for id_, tasks in decision.next.warmup.items() for task in tasks),
            *(
                (id_, task)
                for id_, tasks in decision.next.standby.items()
                for task in tasks & decision.target.active[id_]
            ),
        ]
        hot_at = {key: self._hot_at_ms(*key) for key in waiting}
        return {key: at_ms for key, at_ms in hot_at.items() if at_ms > self.now_ms}

    # --- time

    def _next(self, pending: Sequence[Event]) -> tuple[int, Cause | None]:
        """When something happens next, and the step that it asks for."""
        moments: list[tuple[int, Cause | None]] = [(event.at_ms, Cause.MEMBERSHIP) for event in pending[:1]]
        if self.steps[-1].decision.follow_up:
            moments.append((self.steps[-1].at_ms + self.pace.probing_interval_ms, Cause.PROBE))
            if self.pace.step_when_warm:
                moments.extend((at_ms, Cause.WARM) for at_ms in self.awaited_until.values())
        else:
            moments.extend((at_ms, None) for at_ms in self._restoring_until())
        return min(moments, key=lambda moment: moment[0], default=(self.pace.horizon_ms + 1, None))

    def _restoring_until(self) -> Iterator[int]:
        for process_id, task in self.replicas:
            at_ms = self._hot_at_ms(process_id, task)
            if at_ms > self.now_ms and self.replicas[process_id, task].is_held:
                yield at_ms

    def _pass_time(self, until_ms: int) -> None:
        for task_id, process_id in _holders(self.group.workers).items():
            task = self.group.tasks.get(task_id)
            if task is not None and task.stateful:
                still_ms = min(until_ms, self._hot_at_ms(process_id, task_id)) - self.now_ms
                if still_ms > 0:
                    self.stood_still_ms[task_id] = self.stood_still_ms.get(task_id, 0) + still_ms
        for task_id in self.group.tasks.keys() - _holders(self.group.workers).keys():
            self.stood_still_ms[task_id] = self.stood_still_ms.get(task_id, 0) + until_ms - self.now_ms
        self.now_ms = until_ms

    def _is_at_rest(self) -> bool:
        return not self.steps[-1].decision.follow_up and not any(self._restoring_until())

    def _hot_at_ms(self, process_id: UUID, task: TaskId) -> int:
        """When the copy is, or was, caught up."""
        if self.config.acceptable_recovery_lag == MAX_LAG:
            return self.now_ms
        enough = max(0, self.group.tasks[task].end_offset_sum - self.config.acceptable_recovery_lag)
        return self.replicas[process_id, task].reaches_at_ms(enough, self.pace.restore_rate)

    def _offset(self, process_id: UUID, task: TaskId) -> int:
        replica = self.replicas[process_id, task]
        return replica.offset_at(self.now_ms, self.group.tasks[task], self.pace.restore_rate)

    def _settle(self, process_id: UUID, task: TaskId) -> None:
        """Fix what a copy has restored so far."""
        replica, offset = self.replicas[process_id, task], self._offset(process_id, task)
        if replica.is_held:
            self.restored[task] = self.restored.get(task, 0) + offset - replica.offset
            replica.offset, replica.as_of_ms = offset, self.now_ms

    # --- what comes out

    def _timeline(self, began: Mapping[TaskId, UUID], converged_at_ms: int | None) -> Timeline:
        for key in self.replicas:
            self._settle(*key)
        self._observe()
        ended = _holders(self.group.workers)
        return Timeline(
            steps=tuple(self.steps),
            converged_at_ms=converged_at_ms,
            moved=frozenset(task for task, owner in ended.items() if began.get(task, owner) != owner),
            restored_offsets=sum(self.restored.values()),
            restored_bytes=self._restored_bytes(),
            stood_still_ms=self.stood_still_ms,
            final=self.group,
        )

    def _restored_bytes(self) -> int | None:
        total = 0
        for task_id, offsets in self.restored.items():
            task = self.group.tasks[task_id]
            if task.state_bytes is None:
                return None
            total += task.state_bytes * offsets // max(1, task.end_offset_sum)
        return total


def _holders(workers: Mapping[UUID, Worker]) -> dict[TaskId, UUID]:
    return {task: process_id for process_id, worker in workers.items() for task in worker.active}


def _held(worker: Worker) -> frozenset[TaskId]:
    return worker.active | worker.standby | worker.warmup
