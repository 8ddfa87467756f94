"""Which workers have to go although their slots are wanted, and who helps out meanwhile.

A pod goes when the spec has left it behind, when its node is being emptied or lost, or when somebody asks for it. One
at a time, so that the others can take its tasks. A slot whose worker can't work where it is (its node is lost, or its
volume is bound to one that takes no pods) is stood in for by a further slot, with a volume of its own: no pod is ever
deleted by force, and no volume given up, so that both are used again when their node is back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice_operator.nodes import Standing
from sluice_operator.observed import UNSCHEDULABLE, Claim, Membership, Phase, Pod

_LEAVING = (Membership.DRAINING, Membership.DRAINED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of the workers.

    `in_place`: a pod that the spec has left behind is restarted where it is, without a drain. `deletes_volumes`:
    whether the volume of a worker that has left is deleted.
    """

    replicas: int
    revision: str
    in_place: bool = False
    deletes_volumes: bool = False


def size(wanted: Wanted, pods: Mapping[int, Pod], claims: Mapping[int, Claim]) -> int:
    """How many slots are to have workers: the replicas, one more for each slot that is away, and one more when the only
    worker has to hand its tasks over."""
    if wanted.replicas == 0:
        return 0
    kept: list[int] = []
    slot = 0
    while len(kept) < wanted.replicas:
        if not is_away(pods.get(slot), claims.get(slot)):
            kept.append(slot)
        slot += 1
    return slot + 1 if wanted.replicas == 1 and _needs_help(pods.get(kept[0]), wanted) else slot


def next_replaced(wanted: Wanted, count: int, pods: Mapping[int, Pod], claims: Mapping[int, Claim]) -> int | None:
    """The slot below `count` whose pod goes next: first one that holds nothing, then one while all others work."""
    present = {slot: pods[slot] for slot in range(count) if slot in pods and not is_away(pods[slot], claims.get(slot))}
    going = [slot for slot, pod in present.items() if why_going(pod, wanted) is not None]
    idle = [slot for slot in going if present[slot].membership is Membership.ABSENT]
    if idle:
        return idle[0]
    begun = [slot for slot in going if present[slot].membership in _LEAVING]
    candidate = next(iter(begun or going[::-1]), None)
    if candidate is None:
        return None
    others = [slot for slot in range(count) if slot != candidate and not is_away(pods.get(slot), claims.get(slot))]
    working = [slot in pods and pods[slot].membership is Membership.MEMBER for slot in others]
    is_free_to_go = any(working) if _has_to_leave_node(present[candidate]) else all(working)
    return candidate if is_free_to_go else None


def why_going(pod: Pod, wanted: Wanted) -> str | None:
    """Why the pod has to go; None if it may stay."""
    if pod.phase is Phase.STOPPING:
        return None
    if pod.standing is Standing.LEAVING:
        return f"node {pod.node} is being emptied"
    if pod.standing is Standing.LOST:
        return f"node {pod.node} does not answer"
    if pod.is_asked_to_go:
        return "its replacement is asked for"
    return "its spec has changed" if pod.revision != wanted.revision else None


def restarts_in_place(pod: Pod, wanted: Wanted) -> bool:
    """Is its revision the only reason for it to go, and may it go with what it holds?"""
    return wanted.in_place and pod.standing is Standing.SOUND and not pod.is_asked_to_go


def is_away(pod: Pod | None, claim: Claim | None) -> bool:
    """Can the slot's worker not work where it is? What a lost node's worker still holds, it hands over first."""
    if pod is None:
        return False
    if pod.standing is Standing.LOST:
        return pod.phase is Phase.STOPPING or pod.membership is Membership.ABSENT
    is_unplaced = pod.node is None and pod.trouble is not None and pod.trouble.reason == UNSCHEDULABLE
    return is_unplaced and claim is not None and claim.standing is not Standing.SOUND


def _needs_help(pod: Pod | None, wanted: Wanted) -> bool:
    """A single worker that has to go and may hold tasks, which nobody could take."""
    if pod is None or pod.membership is Membership.ABSENT or why_going(pod, wanted) is None:
        return False
    return not restarts_in_place(pod, wanted)


def _has_to_leave_node(pod: Pod) -> bool:
    return pod.standing is not Standing.SOUND
