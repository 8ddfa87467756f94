"""From what is wanted to what may be granted now: revoke before assign (KIP-1071, "Reconciliation").

An active replica is granted only when nobody can hold it any more. A member that waits for one keeps the standby or
warm-up that it has until then. New warm-ups wait until fewer than the limit may be alive, those being let go included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice_coordinator.group.members import Member
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import Epoch, TaskId

Wanted = Mapping[str, Mapping[TaskId, Role]]
"""What each worker should hold in the end, by its name."""


@dataclass(slots=True)
class Changes:
    """What a pass has changed: whose lists, and which active replicas were newly given to whom."""

    members: list[Member] = field(default_factory=list)
    granted: list[tuple[TaskId, Member]] = field(default_factory=list)


def reconcile(
    members: Sequence[Member], fenced: Sequence[Member], wanted: Wanted, epoch: Epoch, warmup_limit: int
) -> Changes:
    """Bring the books of the members as near to what is wanted as is safe, with this epoch for everything new.

    `fenced` are members on whom a fence has not returned: they still count as holding what they hold.
    """
    everybody = [*members, *fenced]
    taken = {task for member in everybody for task in member.holdings.tasks(Role.ACTIVE)}
    warmups = sum(len(member.holdings.tasks(Role.WARMUP)) for member in everybody)
    free_warmups = warmup_limit - warmups
    changes = Changes()
    for member in members:
        part = wanted.get(member.worker, {})
        changed = _revoke_unwanted(member, part, epoch)
        granted = _grantable(member, part, taken, free_warmups)
        roles = Counter(role for _, role in granted)
        free_warmups -= roles[Role.WARMUP]
        for task, role in granted:
            _give(member, task, role, epoch)
            if role is Role.ACTIVE:
                taken.add(task)
                changes.granted.append((task, member))
        if changed or granted:
            changes.members.append(member)
    return changes


def matches(member: Member, wanted: Wanted) -> bool:
    """Does the member's list say all that is wanted of it, with nothing else left to let go?"""
    listed = member.holdings.listed_roles()
    return listed == dict(wanted.get(member.worker, {})) and not member.holdings.is_releasing


def _revoke_unwanted(member: Member, part: Mapping[TaskId, Role], epoch: Epoch) -> bool:
    """Take away what has no place here any more. A standby on its way to another role stays until that is granted."""
    changed = False
    for held in list(member.holdings):
        task, role = held.grant.task, held.grant.role
        unwanted = task not in part or (role is Role.ACTIVE and part[task] is not Role.ACTIVE)
        if held.revoked is None and unwanted:
            member.holdings.revoke((task, role), epoch)
            changed = True
    return changed


def _grantable(
    member: Member, part: Mapping[TaskId, Role], taken: set[TaskId], free_warmups: int
) -> list[tuple[TaskId, Role]]:
    granted = []
    for task, role in sorted(part.items(), key=lambda item: item[0]):
        if (task, role) in member.holdings or (role is Role.ACTIVE and task in taken):
            continue
        if role is Role.WARMUP:
            if free_warmups <= 0:
                continue
            free_warmups -= 1
        granted.append((task, role))
    return granted


def _give(member: Member, task: TaskId, role: Role, epoch: Epoch) -> None:
    """Grant, in the place of whatever else the member has of the task."""
    for other in Role:
        held = member.holdings.get((task, other))
        if other is not role and held is not None and held.revoked is None:
            member.holdings.revoke((task, other), epoch)
    member.holdings.grant(task, role, epoch)
