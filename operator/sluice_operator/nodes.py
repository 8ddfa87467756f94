"""What becomes of the workers of a node, read from the node: they stay, they are to leave it, or it is lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

PATIENCE = timedelta(seconds=30)
"""A node that says itself that it is not ready (a kubelet that restarts) is given so long. One of which nothing is
heard is not: the controller manager has waited for it before it says so."""

_LEAVING_TAINTS = frozenset(
    ["node.kubernetes.io/unschedulable", "node.kubernetes.io/out-of-service", "ToBeDeletedByClusterAutoscaler",
     "karpenter.sh/disrupted"]
)  # fmt: skip
"""What `kubectl cordon` and the autoscalers put on a node before they empty it."""


class Standing(Enum):
    """What a node means for the workers on it."""

    SOUND = "sound"
    LEAVING = "leaving"
    """It is being emptied."""
    LOST = "lost"
    """Nobody knows what happens there."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the API has it. `ready`: True, False or Unknown, since `ready_since`."""

    name: str
    is_leaving: bool
    ready: str
    ready_since: datetime | None


def read_node(item: Mapping[str, Any]) -> Node:
    """Read a node."""
    spec = item.get("spec") or {}
    taints = {taint["key"] for taint in spec.get("taints") or ()}
    conditions = {each["type"]: each for each in (item.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready", {})
    since = ready.get("lastTransitionTime")
    return Node(
        name=item["metadata"]["name"],
        is_leaving=bool(spec.get("unschedulable")) or not taints.isdisjoint(_LEAVING_TAINTS),
        ready=ready.get("status", "Unknown"),
        ready_since=None if since is None else datetime.fromisoformat(since),
    )


def standing(node: Node | None, now: datetime) -> Standing:
    """None = there is no such node any more."""
    if node is None or node.ready == "Unknown":
        return Standing.LOST
    if node.ready == "False" and node.ready_since is not None and now - node.ready_since >= PATIENCE:
        return Standing.LOST
    return Standing.LEAVING if node.is_leaving else Standing.SOUND
