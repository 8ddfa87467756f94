"""What the group says of each slot's process: the part of its view on which starting and stopping depends."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from sluice_protocol.ids import worker_name
from sluice_protocol.view import GroupView, MemberView


class Membership(Enum):
    """A process in the eyes of the group."""

    UNKNOWN = "unknown"
    """The coordinator can't be asked now, or doesn't know its members yet."""
    ABSENT = "absent"
    MEMBER = "member"
    DRAINING = "draining"
    DRAINED = "drained"


def read_memberships(group: GroupView | None, incarnations: Mapping[int, str]) -> dict[int, Membership]:
    """The membership of the process that runs in each slot.

    A member of another incarnation is the slot's former process. While the coordinator adopts a group after a
    restart, a member that it doesn't show may still hold tasks.
    """
    if group is None:
        return {}
    members = {(member.worker, member.incarnation): member for member in group.members}
    absent = Membership.UNKNOWN if group.state == "adopting" else Membership.ABSENT
    return {
        slot: _membership(members.get((worker_name(slot), incarnation)), absent)
        for slot, incarnation in incarnations.items()
    }


def _membership(member: MemberView | None, absent: Membership) -> Membership:
    if member is None:
        return absent
    if not member.draining:
        return Membership.MEMBER
    return Membership.DRAINED if member.state == "drained" else Membership.DRAINING
