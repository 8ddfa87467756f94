"""On which node a pod goes: pure, from the pod, the nodes and where the others are.

Kept simple on purpose: node selectors, cordons, volumes that are bound to a node or a zone, and an even spread of one
controller's pods over zones first and nodes second, which satisfies every topology spread of one pod's skew. No
resource requests, taints or affinities: the machine's processes share its memory and cores anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.node_agent.objects import HOST_LABEL, ZONE_LABEL


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node as placement sees it."""

    name: str
    zone: str
    labels: Mapping[str, str]
    is_schedulable: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """From where a volume can be reached: one node or one zone."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node takes the pod, and why."""

    message: str


def place(
    pod: Json, nodes: Sequence[Candidate], volumes: Iterable[Reach], siblings: Iterable[str]
) -> Candidate | Unschedulable:
    """Choose a node; `siblings` are the nodes of the pods that this one should keep away from, one entry a pod."""
    wanted = dict(pod["spec"].get("nodeSelector", {}))
    reaches = list(volumes)
    reasons = Counter(filter(None, (_obstacle(node, wanted, reaches) for node in nodes)))
    fitting = [node for node in nodes if _obstacle(node, wanted, reaches) is None]
    if not fitting:
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return Unschedulable(f"0/{len(nodes)} nodes are available: {counted or 'there are no nodes'}.")
    on_node = Counter(siblings)
    in_zone: Counter[str] = Counter()
    for node in nodes:
        in_zone[node.zone] += on_node[node.name]
    return min(fitting, key=lambda node: (in_zone[node.zone], on_node[node.name], node.name))


def _obstacle(node: Candidate, wanted: Mapping[str, str], volumes: Sequence[Reach]) -> str | None:
    if not node.is_schedulable:
        return "node(s) were unschedulable or not ready"
    if any(node.labels.get(label) != value for label, value in wanted.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    here = {HOST_LABEL: node.name, ZONE_LABEL: node.zone}
    if any(here[volume.label] != volume.value for volume in volumes):
        return "node(s) had volume node affinity conflict"
    return None
