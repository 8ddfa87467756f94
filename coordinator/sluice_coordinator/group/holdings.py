"""What one member may hold: grants given, and grants taken away that it has not let go yet.

The safety of a group rests on this book. A grant is in it from the moment it is decided, whether the member has heard
of it or not, until the member, echoing an epoch not older than the revocation's, no longer lists it. A grant that
was taken away is never given back under its old epoch: the member may be letting go of it at this moment, and an old
answer on its way would then hold the task for it a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sluice_protocol.heartbeat import Grant, Role
from sluice_protocol.ids import Epoch, TaskId


@dataclass(slots=True)
class Held:
    """A grant that may be alive at the member. `revoked`: the epoch of the first list without it."""

    grant: Grant
    revoked: Epoch | None = None
    confirmed: bool = False
    """The member has listed it."""


Key = tuple[TaskId, Role]


class Holdings:
    """The book of one member. A task may be in it twice: its active replica being let go, a standby given."""

    def __init__(self) -> None:
        self._held: dict[Key, Held] = {}

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def get(self, key: Key) -> Held | None:
        return self._held.get(key)

    @property
    def is_empty(self) -> bool:
        return not self._held

    @property
    def is_releasing(self) -> bool:
        """Has something been taken away that is not let go yet?"""
        return any(held.revoked is not None for held in self)

    def listed(self) -> tuple[Grant, ...]:
        """What the member should hold: its part of an answer."""
        return tuple(sorted((held.grant for held in self if held.revoked is None), key=_by_task))

    def listed_roles(self) -> dict[TaskId, Role]:
        return {held.grant.task: held.grant.role for held in self if held.revoked is None}

    def tasks(self, role: Role) -> frozenset[TaskId]:
        """Every task that may be held in the role, those being let go included."""
        return frozenset(task for task, held_role in self._held if held_role is role)

    def grant(self, task: TaskId, role: Role, epoch: Epoch) -> None:
        self._held[task, role] = Held(Grant(task, role, epoch))

    def adopt(self, grant: Grant) -> None:
        """Take a grant over that the member says it has."""
        self._held[grant.task, grant.role] = Held(grant, confirmed=True)

    def revoke(self, key: Key, epoch: Epoch) -> None:
        self._held[key].revoked = epoch

    def echo(self, epoch: Epoch, grants: Iterable[Grant]) -> tuple[list[Grant], list[Grant]]:
        """The member has carried out the list of this epoch and holds these: (released, newly confirmed)."""
        echoed = {(grant.task, grant.role): grant.epoch for grant in grants}
        released, confirmed = [], []
        for key, held in list(self._held.items()):
            if echoed.get(key) == held.grant.epoch:
                if not held.confirmed:
                    held.confirmed = True
                    confirmed.append(held.grant)
            elif held.revoked is not None and epoch >= held.revoked:
                del self._held[key]
                released.append(held.grant)
        return released, confirmed

    def unknown(self, grants: Iterable[Grant]) -> list[Grant]:
        """Those of the active grants that the member lists without having been given them."""
        active = (grant for grant in grants if grant.role is Role.ACTIVE)
        return [grant for grant in active if not self._is_given(grant)]

    def _is_given(self, grant: Grant) -> bool:
        held = self._held.get((grant.task, grant.role))
        return held is not None and held.grant.epoch == grant.epoch


def _by_task(grant: Grant) -> tuple[TaskId, str]:
    return grant.task, grant.role.value
