"""A plan for people and programs: the text that Kafka Streams' `Topology#describe` prints, and the same as JSON.

Topics have their whole names, internal ones included, so that they are found in Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sluice_pipeline.plan import Output, SubtopologyPlan, TopologyPlan, ToStore, ToTopic


@dataclass(slots=True)
class _Node:
    name: str
    kind: str
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    predecessor: _Node | None = None
    successors: list[_Node] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many nodes lie below, itself counted."""
        return 1 + sum(below.size for below in self.successors)

    @property
    def rank(self) -> tuple[int, str]:
        """Kafka Streams' order: the bigger first, then by name."""
        return -self.size, self.name


def describe(plan: TopologyPlan) -> str:
    """The topology as Kafka Streams prints it."""
    parts = [
        f"  Sub-topology: {subtopology.id}\n" + "".join(map(_text, _nodes(subtopology)))
        for subtopology in plan.subtopologies
    ]
    return "Topologies:\n " + "\n".join(parts)


def describe_json(plan: TopologyPlan) -> str:
    """The topology as JSON text: its nodes, and the topics that the coordinator plans."""
    described = plan.description()
    subtopologies = [
        {
            "id": subtopology.id,
            "sourceTopics": topics.source_topics,
            "repartitionSourceTopics": topics.repartition_source_topics,
            "sinkTopics": topics.sink_topics,
            "repartitionSinkTopics": topics.repartition_sink_topics,
            "changelogTopics": topics.changelog_topics,
            "stores": [store.store for store in subtopology.stores()],
            "nodes": [_json(node) for node in _nodes(subtopology)],
        }
        for subtopology, topics in zip(plan.subtopologies, described.subtopologies, strict=True)
    ]
    whole = {"applicationId": plan.application_id, "onError": plan.on_error, "subtopologies": subtopologies}
    return json.dumps(whole, indent=2)


def _nodes(plan: SubtopologyPlan) -> list[_Node]:
    source = _Node(plan.source.node, "Source", topics=plan.source.topics)
    nodes = {source.name: source}
    _add_outputs(source, plan.outputs, nodes)
    return [source, *sorted((node for node in nodes.values() if node is not source), key=lambda node: node.rank)]


def _add_outputs(parent: _Node, outputs: tuple[Output, ...], nodes: dict[str, _Node]) -> None:
    for output in outputs:
        last = parent
        for name in output.nodes:
            if name not in nodes:
                nodes[name] = _Node(name, "Processor", predecessor=last)
                last.successors.append(nodes[name])
            last = nodes[name]
        if isinstance(output, ToTopic):
            last.kind, last.topics = "Sink", (output.topic,)
        elif isinstance(output, ToStore):
            last.stores = (output.store,)
            _add_outputs(last, output.outputs, nodes)


def _text(node: _Node) -> str:
    return "".join(f"{line}\n" for line in _lines(node))


def _lines(node: _Node) -> Iterator[str]:
    if node.kind == "Sink":
        yield f"    Sink: {node.name} (topic: {node.topics[0]})"
    elif node.kind == "Source":
        yield f"    Source: {node.name} (topics: [{', '.join(node.topics)}])"
    else:
        yield f"    Processor: {node.name} (stores: [{', '.join(node.stores)}])"
    if node.kind != "Sink":
        yield f"      --> {', '.join(_successors(node)) or 'none'}"
    if node.predecessor is not None:
        yield f"      <-- {node.predecessor.name}"


def _successors(node: _Node) -> list[str]:
    return [below.name for below in sorted(node.successors, key=lambda below: below.rank)]


def _json(node: _Node) -> dict[str, Any]:
    described: dict[str, Any] = {"name": node.name, "type": node.kind.lower()}
    if node.topics:
        described["topics"] = node.topics
    if node.stores:
        described["stores"] = node.stores
    described["predecessors"] = [] if node.predecessor is None else [node.predecessor.name]
    described["successors"] = _successors(node)
    return described
