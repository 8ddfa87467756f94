"""From a topology and the topics that there are to its tasks and the internal topics that are missing.

Partitions of a subtopology = the most of its source topics. A repartition topic follows the subtopologies that write
it; a changelog has one partition a task. What can't be planned is a Status with a sentence, never an exception: it is
the state of somebody's cluster, and may be another in a minute (KIP-1071's MISSING_SOURCE_TOPICS and
INCORRECTLY_PARTITIONED_TOPICS).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice_protocol.heartbeat import Status, StatusCode
from sluice_protocol.topology import Subtopology, TopologyDescription

_REPARTITION = {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}
_CHANGELOG = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
_DEAD_LETTERS = {"cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the application needs for itself. `config`: what it is created with."""

    name: str
    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The number of tasks of each subtopology, and the topics to create before any can run."""

    partitions: tuple[int, ...]
    to_create: tuple[InternalTopic, ...] = ()


def topics_of(topology: TopologyDescription) -> set[str]:
    """Every topic whose presence the plan needs to know."""
    named = {
        topic
        for subtopology in topology.subtopologies
        for topic in (*subtopology.sources, *subtopology.changelog_topics, *subtopology.repartition_sink_topics)
    }
    return named | ({topology.dead_letter_topic} if topology.dead_letter_topic else set())


def internal_topics(topology: TopologyDescription) -> set[str]:
    """Every topic that is made for the application alone."""
    named = {
        topic
        for subtopology in topology.subtopologies
        for topic in (*subtopology.changelog_topics, *subtopology.repartition_source_topics)
    }
    return named | ({topology.dead_letter_topic} if topology.dead_letter_topic else set())


def plan_topics(topology: TopologyDescription, present: Mapping[str, int]) -> TopicPlan | Status:
    """Plan on the topics that are present, each with its number of partitions."""
    missing = _missing_sources(topology, present)
    if missing:
        return _missing(missing)
    repartitions = _repartition_counts(topology, present)
    if None in repartitions.values():
        return _missing(sorted(topic for topic, count in repartitions.items() if count is None))
    counts = {**present, **{topic: count for topic, count in repartitions.items() if count is not None}}
    partitions = tuple(max(counts[topic] for topic in subtopology.sources) for subtopology in topology.subtopologies)
    wanted = _internal_topics(topology, counts, partitions)
    problem = _copartitioning(topology, counts) or _wrong_counts(wanted, present)
    if problem is not None:
        return Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, problem)
    return TopicPlan(partitions, tuple(topic for topic in wanted if topic.name not in present))


def _missing_sources(topology: TopologyDescription, present: Mapping[str, int]) -> list[str]:
    sources = {topic for subtopology in topology.subtopologies for topic in subtopology.source_topics}
    return sorted(sources - present.keys())


def _missing(topics: list[str]) -> Status:
    names = ", ".join(topics)
    one = len(topics) == 1
    message = (
        f"source topic {names} does not exist; create it, the application starts by itself then"
        if one
        else f"source topics {names} do not exist; create them, the application starts by itself then"
    )
    return Status(StatusCode.MISSING_SOURCE_TOPICS, message)


def _repartition_counts(topology: TopologyDescription, present: Mapping[str, int]) -> dict[str, int | None]:
    """How many partitions each repartition topic should have; None if nobody who has any writes it.

    Counts travel downstream, so this is repeated until nothing changes; a loop in the topology adds nothing new.
    """
    topics = {topic for subtopology in topology.subtopologies for topic in subtopology.repartition_source_topics}
    counts: dict[str, int | None] = dict.fromkeys(sorted(topics))
    for _ in range(len(counts) + 1):
        for topic in counts:
            counts[topic] = _follow(topic, topology, counts, present)
    return counts


def _follow(
    topic: str, topology: TopologyDescription, counts: Mapping[str, int | None], present: Mapping[str, int]
) -> int | None:
    """As many as the topics that it is read together with must have, else as its writers have."""
    together = _read_with(topic, topology)
    outer = [present[other] for other in together if other not in counts and other in present]
    if outer:
        return max(outer)
    writers = [one for one in topology.subtopologies if topic in one.repartition_sink_topics]
    upstream = [counts.get(source) or present.get(source) for writer in writers for source in writer.sources]
    alike = [counts[other] for other in together if other in counts and other != topic]
    return max((count for count in (*upstream, *alike) if count is not None), default=None)


def _read_with(topic: str, topology: TopologyDescription) -> set[str]:
    groups = [group for subtopology in topology.subtopologies for group in subtopology.copartitioned if topic in group]
    return {other for group in groups for other in group}


def _internal_topics(
    topology: TopologyDescription, counts: Mapping[str, int], partitions: tuple[int, ...]
) -> list[InternalTopic]:
    repartitions = sorted({topic for one in topology.subtopologies for topic in one.repartition_source_topics})
    changelogs = [
        InternalTopic(topic, partitions[subtopology.id], _CHANGELOG)
        for subtopology in topology.subtopologies
        for topic in subtopology.changelog_topics
    ]
    return [
        *(InternalTopic(topic, counts[topic], _REPARTITION) for topic in repartitions),
        *changelogs,
        *([InternalTopic(topology.dead_letter_topic, 1, _DEAD_LETTERS)] if topology.dead_letter_topic else []),
    ]


def _copartitioning(topology: TopologyDescription, counts: Mapping[str, int]) -> str | None:
    for subtopology in topology.subtopologies:
        for group in subtopology.copartitioned:
            if len({counts[topic] for topic in group}) > 1:
                return _uneven(subtopology, group, counts)
    return None


def _uneven(subtopology: Subtopology, group: tuple[str, ...], counts: Mapping[str, int]) -> str:
    topics = ", ".join(f"{topic} has {counts[topic]}" for topic in sorted(group))
    return (
        f"subtopology {subtopology.id} reads topics together that have different numbers of partitions: {topics}; "
        "give them the same number, or equal keys would not meet in one task"
    )


def _wrong_counts(wanted: list[InternalTopic], present: Mapping[str, int]) -> str | None:
    for topic in wanted:
        is_fixed = topic.config is not _DEAD_LETTERS
        if is_fixed and present.get(topic.name, topic.partitions) != topic.partitions:
            return (
                f"internal topic {topic.name} has {present[topic.name]} partitions, its source topics ask for "
                f"{topic.partitions}; the number of partitions of a source topic has changed, or another application "
                "uses the same applicationId"
            )
    return None
