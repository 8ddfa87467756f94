"""The slots of an application, and whose word counts in each.

Every process of a slot uses the same transactional ids, so that fencing a slot ends all of them. A process joins only
a *clean* slot: one of which no other process can hold anything. Whoever wants to join another makes the
slot be fenced first, and is then told to begin anew, since that fence has killed its producers too. That costs a
restarted worker a second, and makes it irrelevant in what order the messages of two processes arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from sluice_coordinator.group.members import Member, Poll
from sluice_protocol.heartbeat import HeartbeatRequest
from sluice_protocol.ids import JOIN, LEAVE, worker_name, worker_slot

_FORMER_KEPT = 1_000


class SlotState(Enum):
    """Who may hold something under the slot's name."""

    CLEAN = "clean"
    """Nobody."""
    SILENT = "silent"
    """Somebody that an earlier leader knew and that has not reported."""
    HELD = "held"
    """Its member."""
    FENCING = "fencing"
    """Whoever it was; a fence is on its way."""


@dataclass(slots=True)
class Slot:
    """One slot. `former`: member ids that count no more. `parked`: who waits for the fence to return."""

    number: int
    state: SlotState = SlotState.CLEAN
    member: Member | None = None
    former: set[str] = field(default_factory=set)
    was_fenced: bool = False
    was_used: bool = False
    parked: dict[str, Poll] = field(default_factory=dict)
    retry_fence_at_ms: int | None = None

    @property
    def worker(self) -> str:
        return worker_name(self.number)

    @property
    def polls(self) -> list[Poll]:
        """Every request that is held open."""
        own = [self.member.poll] if self.member is not None and self.member.poll is not None else []
        return [*own, *self.parked.values()]

    def give_up(self, poll: int) -> None:
        """Nobody waits for this one any more."""
        if self.member is not None and self.member.poll is not None and self.member.poll.number == poll:
            self.member.poll = None
        self.parked = {who: parked for who, parked in self.parked.items() if parked.number != poll}

    def retire(self, member_id: str) -> None:
        """The id counts no more. Once there are too many to remember, whoever claims something is taken for one."""
        if len(self.former) >= _FORMER_KEPT:
            self.former.clear()
            self.was_fenced = True
        self.former.add(member_id)


class Admission(Enum):
    """What becomes of a request."""

    KNOWN = "it is the member's"
    JOIN = "a new member"
    ADOPT = "a member of an earlier leader"
    FENCED = "its producers are dead"
    FENCE = "the slot must be fenced first"
    PARK = "it waits for the fence that is on its way"
    LEFT = "it left before, or leaves a group that doesn't know it"


def admit(slot: Slot, request: HeartbeatRequest, leader: int) -> Admission:
    """Judge a request by the state of its slot."""
    if slot.member is not None and slot.member.member_id == request.member_id and slot.state is SlotState.HELD:
        return Admission.KNOWN
    if request.member_epoch == LEAVE:
        return Admission.LEFT
    if slot.state is SlotState.FENCING:
        return Admission.PARK
    if request.member_id in slot.former:
        return Admission.FENCED
    if request.member_epoch == JOIN:
        return Admission.JOIN if slot.state is SlotState.CLEAN else Admission.FENCE
    return _admit_claim(slot, request, leader)


def _admit_claim(slot: Slot, request: HeartbeatRequest, leader: int) -> Admission:
    """A stranger that says it has been a member: of an earlier leader, or it has been fenced by this one."""
    if slot.was_fenced or request.member_epoch.leader >= leader:
        return Admission.FENCED
    if slot.state is SlotState.SILENT or not slot.was_used:
        return Admission.ADOPT
    return Admission.FENCE


class Roster:
    """All slots of an application; those that an earlier leader used begin silent."""

    def __init__(self, used: int) -> None:
        self._slots = {number: Slot(number, SlotState.SILENT) for number in range(used)}

    def __iter__(self) -> Iterator[Slot]:
        """By number."""
        return iter([self._slots[number] for number in sorted(self._slots)])

    def find(self, worker: str) -> Slot | None:
        return self._slots.get(worker_slot(worker))

    def of(self, worker: str) -> Slot:
        """The worker's slot; a new one is clean."""
        number = worker_slot(worker)
        return self._slots.setdefault(number, Slot(number))

    @property
    def members(self) -> list[Member]:
        """Those whose word counts."""
        return [slot.member for slot in self if slot.member is not None and slot.state is SlotState.HELD]

    @property
    def fenced(self) -> list[Member]:
        """Those on whom a fence has not returned yet: they still hold what they hold."""
        return [slot.member for slot in self if slot.member is not None and slot.state is SlotState.FENCING]

    @property
    def unheard(self) -> list[Slot]:
        """Slots in which somebody may hold what the group doesn't know of."""
        return [slot for slot in self if slot.state in (SlotState.SILENT, SlotState.FENCING)]

    @property
    def is_clean(self) -> bool:
        """Can nobody hold anything?"""
        return all(slot.state is SlotState.CLEAN for slot in self)

    @property
    def size(self) -> int:
        """The number of slots, counted from 0, that may hold something."""
        return max((slot.number + 1 for slot in self if slot.state is not SlotState.CLEAN), default=0)
