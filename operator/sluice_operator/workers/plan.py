"""Which pods and volumes to create, drain and delete next: what is wanted and what is seen in, actions out.

The workers of an application of size n are the slots 0…n-1, so a scale-in takes the highest slots. A worker leaves
in three steps, each waiting for an observed fact: it is marked as draining, the group says that it holds nothing any
more, its pod is deleted. Until that last step a scale-out takes everything back. A pod that has to be replaced goes the
same way, one at a time, and its slot is filled again; a single one is helped out by a surge worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice_operator.observed import Claim, Membership, Part, Phase, Pod
from sluice_operator.workers.actions import (
    Action,
    CreateClaim,
    CreatePart,
    CreatePod,
    DeleteClaim,
    DeletePart,
    DeletePod,
    Drain,
    ReportGone,
    RestartPod,
    Undrain,
)
from sluice_operator.workers.replacement import Wanted, next_replaced, restarts_in_place, size, why_going
from sluice_protocol.view import GroupView


def plan_parts(parts: Mapping[Part, str]) -> tuple[Action, ...]:
    """Create what the workers share and is not there."""
    return tuple(CreatePart(part) for part in Part if part not in parts)


def plan_workers(wanted: Wanted, pods: Iterable[Pod], claims: Iterable[Claim]) -> tuple[Action, ...]:
    """What to do now; nothing when it is somebody else's turn.

    Leaving workers come first, highest slot first, then kept ones from slot 0 on.
    """
    by_slot = {pod.slot: pod for pod in pods}
    volumes = {claim.slot: claim for claim in claims}
    count = size(wanted, by_slot, volumes)
    replaced = next_replaced(wanted, count, by_slot, volumes)
    actions: list[Action | None] = []
    for slot in sorted((slot for slot in by_slot.keys() | volumes.keys() if slot >= count), reverse=True):
        actions.append(_leave(slot, by_slot.get(slot), volumes.get(slot), wanted))
    for slot in range(count):
        if slot == replaced:
            actions.append(_replace(by_slot[slot], wanted))
        else:
            actions += _keep(slot, by_slot.get(slot), volumes.get(slot))
    return tuple(action for action in actions if action is not None)


def plan_deletion(
    pods: Iterable[Pod], claims: Iterable[Claim], parts: Mapping[Part, str], *, deletes_volumes: bool
) -> tuple[Action, ...]:
    """What the end of the application still needs; nothing once no pod is left and everything else is going."""
    actions: list[Action] = [
        DeletePod(pod.slot, pod.uid, "the StreamsApp is deleted") for pod in pods if pod.phase is not Phase.STOPPING
    ]
    actions += [DeletePart(part, uid) for part, uid in parts.items()]
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


def _leave(slot: int, pod: Pod | None, claim: Claim | None, wanted: Wanted) -> Action | None:
    if pod is None:
        is_unused = claim is not None and wanted.deletes_volumes and not claim.is_going
        return DeleteClaim(slot, claim.uid) if claim is not None and is_unused else None
    if wanted.replicas == 0 and pod.phase is not Phase.STOPPING:  # nobody stays who could take the tasks
        return DeletePod(slot, pod.uid, "scaled to 0")
    return _empty(pod, "scale-in")


def _replace(pod: Pod, wanted: Wanted) -> Action | None:
    if restarts_in_place(pod, wanted) and pod.membership is not Membership.ABSENT:
        return RestartPod(pod.slot, pod.uid) if pod.membership is not Membership.UNKNOWN else None
    return _empty(pod, why_going(pod, wanted) or "")


def _empty(pod: Pod, reason: str) -> Action | None:
    """The next step of a worker that is to go."""
    if pod.phase is Phase.STOPPING:
        return None
    if pod.phase is Phase.ENDED:
        return DeletePod(pod.slot, pod.uid, "its pod has ended")
    match pod.membership:
        case Membership.MEMBER:
            return Drain(pod.slot, reason)
        case Membership.DRAINED | Membership.ABSENT as membership:
            is_absent = membership is Membership.ABSENT
            return DeletePod(pod.slot, pod.uid, f"{reason}: it holds nothing", unless_joined=is_absent)
        case _:
            return None


def _keep(slot: int, pod: Pod | None, claim: Claim | None) -> Iterable[Action | None]:
    if pod is None:
        if claim is not None and claim.is_going:
            return
        if claim is None:
            yield CreateClaim(slot)
        yield CreatePod(slot)
    elif pod.phase is Phase.ENDED:
        yield DeletePod(slot, pod.uid, "its pod has ended")
    elif pod.phase is not Phase.STOPPING and pod.membership in (Membership.DRAINING, Membership.DRAINED):
        yield Undrain(slot)
