"""What a node means for the workers on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from operator_builders import NOW, a_pod, claims, observed

from sluice_operator.nodes import PATIENCE, Node, Standing, read_node, standing
from sluice_operator.observed import located


def a_node(ready: str = "True", seconds: float = 3600, **spec: Any) -> dict[str, Any]:
    since = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"name": "node-x"},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]},
    }


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (a_node(), Standing.SOUND),
        (a_node(unschedulable=True), Standing.LEAVING),
        (a_node(taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]), Standing.LEAVING),
        (a_node(taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]), Standing.SOUND),
        (a_node("Unknown", seconds=0), Standing.LOST),
        (a_node("False", seconds=PATIENCE.total_seconds() - 1), Standing.SOUND),
        (a_node("False", seconds=PATIENCE.total_seconds()), Standing.LOST),
        (a_node("Unknown", unschedulable=True), Standing.LOST),
        ({"metadata": {"name": "node-x"}}, Standing.LOST),
    ],
)
def test_a_node_is_sound_left_or_lost(item: dict[str, Any], expected: Standing):
    assert standing(read_node(item), NOW) is expected


def test_a_node_that_is_not_there_is_lost():
    assert standing(None, NOW) is Standing.LOST


def test_pods_and_claims_stand_as_their_nodes_do():
    pods = [replace(a_pod(0), node="node-x"), replace(a_pod(1), node="node-y"), a_pod(2)]
    seen = replace(observed(pods=pods), claims=(replace(claims(0)[0], node="node-x"), *claims(1)))
    node: Node = read_node(a_node(unschedulable=True))

    seen = located(seen, {"node-x": node, "node-y": None})

    assert [pod.standing for pod in seen.pods] == [Standing.LEAVING, Standing.LOST, Standing.SOUND]
    assert [claim.standing for claim in seen.claims] == [Standing.LEAVING, Standing.SOUND]
