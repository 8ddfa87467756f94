"""Where a pod goes, and why it goes nowhere."""

from __future__ import annotations

from sluice_devkit.node_agent.objects import HOST_LABEL, ZONE_LABEL
from sluice_devkit.node_agent.placement import Candidate, Reach, Unschedulable, place

POD = {"metadata": {"name": "p", "namespace": "n"}, "spec": {}}


def a_node(name: str, zone: str, *, is_schedulable: bool = True) -> Candidate:
    return Candidate(name, zone, {HOST_LABEL: name, ZONE_LABEL: zone}, is_schedulable)


NODES = (a_node("a0", "a"), a_node("a1", "a"), a_node("b0", "b"))


def test_the_emptiest_zone_comes_first_and_then_its_emptiest_node():
    assert place(POD, NODES, (), ()) == NODES[0]
    assert place(POD, NODES, (), ("a0",)) == NODES[2]
    assert place(POD, NODES, (), ("a0", "b0")) == NODES[1]


def test_a_volume_binds_to_its_node_or_zone():
    assert place(POD, NODES, (Reach(HOST_LABEL, "a1"),), ("a1", "a1")) == NODES[1]
    assert place(POD, NODES, (Reach(ZONE_LABEL, "a"),), ("a0", "a0")) == NODES[1]


def test_a_selector_is_obeyed():
    pod = {**POD, "spec": {"nodeSelector": {ZONE_LABEL: "b"}}}

    assert place(pod, NODES, (), ("b0",)) == NODES[2]


def test_the_reasons_are_counted():
    nodes = (a_node("a0", "a", is_schedulable=False), NODES[1], NODES[2])
    pod = {**POD, "spec": {"nodeSelector": {ZONE_LABEL: "a"}}}

    assert place(pod, nodes, (Reach(HOST_LABEL, "a0"),), ()) == Unschedulable(
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had volume node affinity conflict, 1 node(s) were unschedulable or not ready."
    )


def test_without_nodes_there_is_no_place():
    assert place(POD, (), (), ()) == Unschedulable("0/0 nodes are available: there are no nodes.")
