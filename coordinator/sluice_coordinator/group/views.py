"""The group as people see it (the read API): facts only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sluice_assignor import Move, MoveReason, explain
from sluice_coordinator.group.core import Group
from sluice_coordinator.group.holdings import Held
from sluice_coordinator.group.members import Member
from sluice_coordinator.group.reconcile import matches
from sluice_protocol.heartbeat import RUNNING, UNKNOWN, Role
from sluice_protocol.ids import TaskId
from sluice_protocol.view import GroupView, MemberView, PlannedMoveView, TaskView

PLANNED_SHOWN = 20
"""So many planned moves are told, with their reasons; `pending_moves` counts all."""


def group_view(group: Group) -> GroupView:
    """The group at this moment."""
    topology = group.preparation.topology
    return GroupView(
        application_id=group.config.application_id,
        epoch=group.epoch,
        state=_group_state(group),
        topology_hash=None if topology is None else topology.hash(),
        topology=topology,
        members=tuple(_member_view(member, group) for member in _everybody(group)),
        tasks=tuple(sorted(_task_views(group), key=_by_task)),
        moves=tuple(group.moves.completed),
        statuses=group.statuses,
        pending_moves=pending_moves(group),
        planned=tuple(islice(_planned(group), PLANNED_SHOWN)),
        acceptable_recovery_lag=group.config.assignment.acceptable_recovery_lag,
    )


def pending_moves(group: Group) -> int:
    """How many active replicas are not (yet) where they should end up."""
    holders = {task: member.worker for member in group.members for task in member.holdings.tasks(Role.ACTIVE)}
    return sum(holders.get(task) != target for task, target in group.stepping.step.targets.items())


def _planned(group: Group) -> Iterator[PlannedMoveView]:
    """Told with what is left to restore by now."""
    step = group.stepping.step
    members = {member.worker: member for member in group.members}
    for move in step.moves:
        member = members.get(step.names[move.destination])
        if member is not None and not _is_made(move, member):
            left = member.lag(move.task, group.stepping.end_offset_sums.get(move.task))
            now = move if left is None else move._replace(left_to_restore=left)
            yield PlannedMoveView(move.task, member.worker, explain(now, step.names))


def _is_made(move: Move, member: Member) -> bool:
    """A copy on its way is at its place with a later decision only."""
    if move.reason in (MoveReason.WARMING, MoveReason.WAITING_FOR_SLOT):
        return False
    role = Role.STANDBY if move.reason is MoveReason.STANDBY else Role.ACTIVE
    return move.task in member.holdings.tasks(role)


def _everybody(group: Group) -> list[Member]:
    return sorted([*group.members, *group.roster.fenced], key=lambda member: member.slot)


def _group_state(group: Group) -> str:
    if group.adopting:
        return "adopting"
    if not _everybody(group):
        return "empty"
    if group.preparation.plan is None:
        return "not-ready"
    return "stable" if group.is_settled and not group.stepping.is_deciding else "reconciling"


def _member_view(member: Member, group: Group) -> MemberView:
    request = member.request
    return MemberView(
        worker=member.worker,
        member_id=member.member_id,
        process_id=request.process_id,
        incarnation=request.incarnation,
        epoch=member.reached,
        capacity=request.capacity,
        state=_member_state(member, group),
        draining=member.worker in group.draining,
        last_heard_ms=member.heard_ms,
        load=request.load,
        failed=request.failed,
        restored_records=sum(copy.restored_records for copy in request.copies),
        restored_bytes=sum(copy.restored_bytes for copy in request.copies),
    )


def _member_state(member: Member, group: Group) -> str:
    if member in group.roster.fenced:
        return "fencing"
    if member.worker in group.draining:
        is_drained = member.holdings.is_empty and not group.adopting and not group.stepping.is_deciding
        return "drained" if is_drained else "draining"
    return "stable" if not member.is_behind and matches(member, group.stepping.step.wanted) else "reconciling"


def _task_views(group: Group) -> Iterator[TaskView]:
    plan = {} if group.preparation.plan is None else group.preparation.plan.tasks()
    held_tasks = set()
    for member in _everybody(group):
        for held in member.holdings:
            task = held.grant.task
            if held.grant.role is Role.ACTIVE:
                held_tasks.add(task)
            yield _task_view(member, held, group, stateful=bool(plan.get(task, task in member.copies)))
    for task in plan.keys() - held_tasks:
        yield TaskView(task, Role.ACTIVE, "", "waiting", bool(plan[task]), group.epoch)


def _task_view(member: Member, held: Held, group: Group, *, stateful: bool) -> TaskView:
    task, role = held.grant.task, held.grant.role
    copy = member.copies.get(task)
    is_running = role is Role.ACTIVE and _is_running(held, copy is not None and copy.offset_sum == RUNNING, stateful)
    offset_sum = copy.offset_sum if copy is not None and copy.offset_sum != RUNNING else None
    end_offset_sum = _end_offset_sum(member, task, group)
    lag = None if is_running or not stateful else member.lag(task, group.stepping.end_offset_sums.get(task))
    rate = copy.rate if copy is not None and copy.rate > 0 else None
    is_hot = role is not Role.ACTIVE and lag is not None and lag <= group.config.assignment.acceptable_recovery_lag
    return TaskView(
        task=task,
        role=role,
        worker=member.worker,
        state=_task_state(member, held, is_running or is_hot),
        stateful=stateful,
        epoch=held.grant.epoch,
        offset_sum=offset_sum,
        end_offset_sum=end_offset_sum if stateful else None,
        lag=lag,
        rate=rate,
        eta_seconds=None if lag is None or rate is None else -(-lag // rate),
    )


def _is_running(held: Held, reports_running: bool, stateful: bool) -> bool:
    return reports_running if stateful else held.confirmed


def _task_state(member: Member, held: Held, is_running: bool) -> str:
    if held.grant.role is Role.ACTIVE and held.grant.task in member.failed_tasks:
        return "failed"
    if held.revoked is not None:
        return "releasing"
    return "running" if is_running else "restoring"


def _end_offset_sum(member: Member, task: TaskId, group: Group) -> int | None:
    copy = member.copies.get(task)
    reported = None if copy is None or copy.end_offset_sum == UNKNOWN else copy.end_offset_sum
    known = [end for end in (reported, group.stepping.end_offset_sums.get(task)) if end is not None]
    return max(known, default=None)


def _by_task(view: TaskView) -> tuple[TaskId, int, str]:
    return view.task, list(Role).index(view.role), view.worker
