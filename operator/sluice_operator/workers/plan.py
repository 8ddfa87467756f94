"""Which pods and volumes to create, drain and delete next: what is wanted and what is seen in, actions out.

The workers of an application of size n are the slots 0…n-1, so a scale-in takes the highest slots. A worker leaves
in three steps, each waiting for an observed fact: it is marked as draining, the group says that it holds nothing any
more, its pod is deleted. Until that last step a scale-out takes everything back. A pod that the spec has left behind
goes the same way, one at a time, and its slot is filled again; a single one is helped out by a surge worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice_operator.observed import Claim, Membership, Phase, Pod
from sluice_protocol.view import GroupView


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Create the volume claim of the slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of the slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask the coordinator to empty the worker."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Take the drain back."""

    slot: int


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete this very pod."""

    slot: int
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete this very volume claim."""

    slot: int
    uid: str


@dataclass(frozen=True, slots=True)
class ReportGone:
    """Tell the coordinator that the worker's process has ended."""

    worker: str
    incarnation: str


Action = CreateClaim | CreatePod | Drain | Undrain | DeletePod | DeleteClaim | ReportGone


def plan_workers(
    desired: int, revision: str, pods: Iterable[Pod], claims: Iterable[Claim], *, deletes_volumes: bool
) -> tuple[Action, ...]:
    """What to do now; nothing when it is somebody else's turn.

    Leaving workers come first, highest slot first, then kept ones from slot 0 on. `deletes_volumes`: whether the
    volume of a worker that has left is deleted.
    """
    by_slot = {pod.slot: pod for pod in pods}
    volumes = {claim.slot: claim for claim in claims}
    if desired == 1 and _needs_help(by_slot.get(0), revision):
        desired = 2
    replaced = _next_replaced(desired, revision, by_slot)
    actions: list[Action | None] = []
    for slot in sorted((slot for slot in by_slot.keys() | volumes.keys() if slot >= desired), reverse=True):
        actions.append(_leave(slot, by_slot.get(slot), volumes.get(slot), desired, deletes_volumes))
    for slot in range(desired):
        actions += _keep(slot, by_slot.get(slot), volumes.get(slot), is_replaced=slot == replaced)
    return tuple(action for action in actions if action is not None)


def plan_deletion(pods: Iterable[Pod], claims: Iterable[Claim], *, deletes_volumes: bool) -> tuple[Action, ...]:
    """What the end of the application still needs; nothing once no pod is left and each volume is going."""
    actions: list[Action] = [
        DeletePod(pod.slot, pod.uid, "the StreamsApp is deleted") for pod in pods if pod.phase is not Phase.STOPPING
    ]
    if deletes_volumes:
        actions += [DeleteClaim(claim.slot, claim.uid) for claim in claims if not claim.is_going]
    return tuple(actions)


def report_deaths(group: GroupView | None, pods: Iterable[Pod]) -> tuple[ReportGone, ...]:
    """Members whose process is known to have ended: nobody needs to wait for their session."""
    alive = {pod.uid for pod in pods if pod.phase not in (Phase.RESTARTING, Phase.ENDED)}
    members = () if group is None else group.members
    return tuple(
        ReportGone(member.worker, member.incarnation)
        for member in members
        if member.incarnation not in alive and member.state != "fencing"
    )


def _leave(slot: int, pod: Pod | None, claim: Claim | None, desired: int, deletes_volumes: bool) -> Action | None:
    if pod is None:
        is_unused = claim is not None and deletes_volumes and not claim.is_going
        return DeleteClaim(slot, claim.uid) if claim is not None and is_unused else None
    if desired == 0 and pod.phase is not Phase.STOPPING:  # nobody stays who could take the tasks
        return DeletePod(slot, pod.uid, "scaled to 0")
    return _empty(pod, "scale-in")


def _empty(pod: Pod, reason: str) -> Action | None:
    """The next step of a worker that is to go."""
    if pod.phase is Phase.STOPPING:
        return None
    if pod.phase is Phase.ENDED:
        return DeletePod(pod.slot, pod.uid, "its pod has ended")
    match pod.membership:
        case Membership.MEMBER:
            return Drain(pod.slot, reason)
        case Membership.DRAINED | Membership.ABSENT:
            return DeletePod(pod.slot, pod.uid, f"{reason}: it holds nothing")
        case _:
            return None


def _keep(slot: int, pod: Pod | None, claim: Claim | None, *, is_replaced: bool) -> Iterable[Action | None]:
    if pod is None:
        if claim is not None and claim.is_going:
            return
        if claim is None:
            yield CreateClaim(slot)
        yield CreatePod(slot)
    elif is_replaced:
        yield _empty(pod, "its spec has changed")
    elif pod.phase is Phase.ENDED:
        yield DeletePod(slot, pod.uid, "its pod has ended")
    elif pod.phase is not Phase.STOPPING and pod.membership in (Membership.DRAINING, Membership.DRAINED):
        yield Undrain(slot)


def _next_replaced(desired: int, revision: str, pods: Mapping[int, Pod]) -> int | None:
    """The kept slot whose outdated pod goes next: first one that holds nothing, then one while all others work."""
    outdated = [slot for slot in range(desired) if _is_outdated(pods.get(slot), revision)]
    idle = [slot for slot in outdated if pods[slot].membership is Membership.ABSENT]
    if idle:
        return idle[0]
    begun = [slot for slot in outdated if pods[slot].membership in (Membership.DRAINING, Membership.DRAINED)]
    candidate = next(iter(begun or outdated[::-1]), None)
    others = [pods.get(slot) for slot in range(desired) if slot != candidate]
    return candidate if all(pod is not None and pod.membership is Membership.MEMBER for pod in others) else None


def _needs_help(pod: Pod | None, revision: str) -> bool:
    """A single worker that has to go and may hold tasks, which nobody could take."""
    return pod is not None and _is_outdated(pod, revision) and pod.membership is not Membership.ABSENT


def _is_outdated(pod: Pod | None, revision: str) -> bool:
    return pod is not None and pod.phase is not Phase.STOPPING and pod.revision != revision
