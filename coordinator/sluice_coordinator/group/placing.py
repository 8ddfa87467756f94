"""From members to a question for the assignor, and from its decision back to what each worker should hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sluice_assignor import Assignment, Copy, Decision, GroupState, Move, MoveReason, Task, Worker
from sluice_coordinator.group.config import Racks
from sluice_coordinator.group.members import Member
from sluice_protocol.heartbeat import RUNNING, Role, TaskCopy
from sluice_protocol.ids import TaskId
from sluice_protocol.topology import Subtopology, TopologyDescription

_NOT_OF_THE_ACTIVE = (MoveReason.WARMING, MoveReason.WAITING_FOR_SLOT, MoveReason.STANDBY)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The tasks of a topology on the topics that there are."""

    topology: TopologyDescription
    partitions: tuple[int, ...]

    def tasks(self) -> dict[TaskId, tuple[str, ...]]:
        """Every task with its changelog topics; stateful = has one."""
        return self._of_each_task(lambda subtopology: subtopology.changelog_topics)

    def sources(self) -> dict[TaskId, tuple[str, ...]]:
        """Every task with the topics that it reads."""
        return self._of_each_task(lambda subtopology: subtopology.sources)

    def topics(self) -> tuple[str, ...]:
        """Every topic that some task reads or restores from."""
        return tuple(
            sorted({topic for part in self.topology.subtopologies for topic in (*part.sources, *part.changelog_topics)})
        )

    def _of_each_task(self, topics: Callable[[Subtopology], tuple[str, ...]]) -> dict[TaskId, tuple[str, ...]]:
        return {
            TaskId(subtopology.id, partition): topics(subtopology)
            for subtopology, count in zip(self.topology.subtopologies, self.partitions, strict=True)
            for partition in range(count)
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One decision as the group uses it.

    `wanted`: what each worker should hold. `targets`: where each active replica should end up. `awaited`: copies that
    are to become something better once they are hot. `reasons`: why an active replica changes its worker. `moves`: all
    that it changes, and the `names` of the workers in them.
    """

    wanted: Mapping[str, Mapping[TaskId, Role]] = field(default_factory=dict)
    targets: Mapping[TaskId, str] = field(default_factory=dict)
    awaited: frozenset[tuple[str, TaskId]] = frozenset()
    reasons: Mapping[TaskId, str] = field(default_factory=dict)
    follow_up: bool = False
    moves: tuple[Move, ...] = ()
    names: Mapping[UUID, str] = field(default_factory=dict)


def group_state(
    members: Sequence[Member],
    draining: Collection[str],
    plan: TaskPlan,
    end_offset_sums: Mapping[TaskId, int] | None,
    racks: Racks,
    rack_aware_tags: Collection[str],
) -> GroupState:
    """The group at this moment. A task that is being let go still counts as held by whom it was granted to."""
    ends, sources = end_offset_sums or {}, plan.sources()
    sizes = _state_bytes(members, ends)
    tasks = {
        task: Task(
            task,
            stateful=bool(changelogs),
            end_offset_sum=ends.get(task, 0),
            source_racks=_racks(task, sources[task], racks),
            changelog_racks=_racks(task, changelogs, racks),
            state_bytes=sizes.get(task) if changelogs else None,
        )
        for task, changelogs in plan.tasks().items()
    }
    known = end_offset_sums is not None
    workers = {
        member.process_id: _worker(member, member.worker in draining, tasks, known, rack_aware_tags)
        for member in members
    }
    return GroupState(tasks, workers, end_offsets_known=known)


def step_of(decision: Decision, members: Sequence[Member]) -> Step:
    """Read a decision. A task that failed stays with the worker on which it failed, whatever was decided for it."""
    names = {member.process_id: member.worker for member in members}
    wanted = {name: _roles(decision.next, process_id) for process_id, name in names.items()}
    for member in members:
        for task in sorted(member.failed_tasks):
            if member.holds_active(task):
                _keep(wanted, member.worker, task)
    return Step(
        wanted=wanted,
        targets={task: names[owner] for owner, tasks in decision.target.active.items() for task in tasks},
        awaited=_awaited(decision, names),
        reasons={move.task: move.reason.value for move in decision.moves if move.reason not in _NOT_OF_THE_ACTIVE},
        follow_up=decision.follow_up,
        moves=decision.moves,
        names=names,
    )


def _state_bytes(members: Sequence[Member], ends: Mapping[TaskId, int]) -> dict[TaskId, int]:
    """The size of the largest whole copy of each task, of which there is one: running, or read to the end."""
    sizes: dict[TaskId, int] = {}
    for member in members:
        for task, copy in member.copies.items():
            is_whole = copy.offset_sum == RUNNING or (task in ends and copy.offset_sum >= ends[task])
            if is_whole and copy.size_bytes > sizes.get(task, 0):
                sizes[task] = copy.size_bytes
    return sizes


def _racks(task: TaskId, topics: Collection[str], racks: Racks) -> tuple[frozenset[str], ...]:
    """Of the task's partition of each topic; a topic may have fewer partitions than there are tasks."""
    return tuple(racks[topic, task.partition] for topic in topics if (topic, task.partition) in racks)


def _worker(
    member: Member, draining: bool, tasks: Mapping[TaskId, Task], ends_known: bool, rack_aware_tags: Collection[str]
) -> Worker:
    active, standby = member.holdings.tasks(Role.ACTIVE), member.holdings.tasks(Role.STANDBY)
    copies = {task: copy for task, copy in member.copies.items() if task in tasks}
    return Worker(
        process_id=member.process_id,
        capacity=member.request.capacity,
        draining=draining,
        active=active,
        standby=standby - active,
        warmup=member.holdings.tasks(Role.WARMUP) - active - standby,
        copies={
            task: _copy(copy, tasks[task].end_offset_sum if ends_known else copy.offset_sum, task in active)
            for task, copy in copies.items()
        },
        rack=member.request.rack,
        tags={key: value for key, value in member.request.tags.items() if key in rack_aware_tags},
    )


def _copy(copy: TaskCopy, end_offset_sum: int, is_held: bool) -> Copy:
    """A copy that has read further than the end that was fetched is newer than the fetch, and not corrupt.

    The worker itself restores a copy from scratch whose offset lies outside the log.
    """
    if copy.offset_sum == RUNNING:
        return Copy(RUNNING if is_held else max(0, end_offset_sum), copy.size_bytes)
    return Copy(min(copy.offset_sum, end_offset_sum), copy.size_bytes)


def _roles(assignment: Assignment, process_id: UUID) -> dict[TaskId, Role]:
    """What a worker should hold; a replica that it should run is nothing else there."""
    by_role = ((Role.WARMUP, assignment.warmup), (Role.STANDBY, assignment.standby), (Role.ACTIVE, assignment.active))
    return {task: role for role, tasks in by_role for task in tasks.get(process_id, frozenset())}


def _keep(wanted: Mapping[str, dict[TaskId, Role]], worker: str, task: TaskId) -> None:
    for roles in wanted.values():
        if roles.get(task) is Role.ACTIVE:
            del roles[task]
    wanted[worker][task] = Role.ACTIVE


def _awaited(decision: Decision, names: Mapping[UUID, str]) -> frozenset[tuple[str, TaskId]]:
    """Warm-ups, and standbys on workers that should become the active one."""
    warmups = {(names[owner], task) for owner, tasks in decision.next.warmup.items() for task in tasks}
    promoted = {
        (names[owner], task)
        for owner, tasks in decision.target.active.items()
        for task in tasks & decision.next.standby.get(owner, frozenset())
    }
    return frozenset(warmups | promoted)
