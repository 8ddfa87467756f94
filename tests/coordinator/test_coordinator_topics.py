"""From topics to tasks: counts, internal topics, and what can't be planned."""

from __future__ import annotations

import pytest

from sluice_coordinator.topics.plan import TopicPlan, plan_topics
from sluice_protocol.heartbeat import Status, StatusCode
from sluice_protocol.topology import Subtopology, TopologyDescription


def topology(*subtopologies: Subtopology, dead_letters: str | None = None) -> TopologyDescription:
    return TopologyDescription("app", subtopologies, dead_letters)


COUNT = topology(
    Subtopology(0, source_topics=("a", "b"), repartition_sink_topics=("app-r-repartition",)),
    Subtopology(1, repartition_source_topics=("app-r-repartition",), changelog_topics=("app-s-changelog",)),
    dead_letters="app-dead-letters",
)


def sizes(plan: TopicPlan | Status) -> dict[str, int]:
    assert isinstance(plan, TopicPlan), plan
    return {topic.name: topic.partitions for topic in plan.to_create}


def test_a_subtopology_has_a_task_for_each_partition_of_its_largest_source() -> None:
    plan = plan_topics(COUNT, {"a": 3, "b": 5})

    assert isinstance(plan, TopicPlan)
    assert plan.partitions == (5, 5)
    assert sizes(plan) == {"app-r-repartition": 5, "app-s-changelog": 5, "app-dead-letters": 1}


def test_internal_topics_are_made_for_what_they_hold() -> None:
    plan = plan_topics(COUNT, {"a": 1, "b": 1})

    assert isinstance(plan, TopicPlan)
    configs = {topic.name: topic.config for topic in plan.to_create}
    assert configs["app-r-repartition"]["retention.ms"] == "-1"
    assert configs["app-r-repartition"]["cleanup.policy"] == "delete"
    assert configs["app-s-changelog"]["cleanup.policy"] == "compact"


def test_what_is_there_is_not_created_again() -> None:
    present = {"a": 2, "b": 2, "app-r-repartition": 2, "app-s-changelog": 2, "app-dead-letters": 7}

    assert plan_topics(COUNT, present) == TopicPlan((2, 2))


def test_counts_travel_along_a_chain_of_repartitions() -> None:
    chain = topology(
        Subtopology(0, repartition_source_topics=("r1",), repartition_sink_topics=("r2",)),
        Subtopology(1, repartition_source_topics=("r2",), changelog_topics=("c",)),
        Subtopology(2, source_topics=("a",), repartition_sink_topics=("r1",)),
    )

    plan = plan_topics(chain, {"a": 6})

    assert isinstance(plan, TopicPlan)
    assert plan.partitions == (6, 6, 6)


def test_a_repartition_topic_follows_the_topic_that_it_is_read_together_with() -> None:
    join = topology(
        Subtopology(0, source_topics=("a",), repartition_sink_topics=("r",)),
        Subtopology(
            1,
            source_topics=("b",),
            repartition_source_topics=("r",),
            changelog_topics=("c",),
            copartitioned=(("b", "r"),),
        ),
    )

    assert sizes(plan_topics(join, {"a": 2, "b": 8})) == {"r": 8, "c": 8}


def test_a_missing_source_topic_is_named() -> None:
    status = plan_topics(COUNT, {"b": 1})

    assert status == Status(
        StatusCode.MISSING_SOURCE_TOPICS,
        "source topic a does not exist; create it, the application starts by itself then",
    )


def test_topics_that_are_read_together_must_have_equal_counts() -> None:
    together = topology(Subtopology(0, source_topics=("a", "b"), copartitioned=(("a", "b"),)))

    status = plan_topics(together, {"a": 4, "b": 6})

    assert isinstance(status, Status)
    assert status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "a has 4, b has 6" in status.message


@pytest.mark.parametrize("topic", ["app-r-repartition", "app-s-changelog"])
def test_an_internal_topic_of_another_size_is_named(topic: str) -> None:
    status = plan_topics(COUNT, {"a": 4, "b": 4, topic: 3})

    assert isinstance(status, Status)
    assert status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert f"internal topic {topic} has 3 partitions, its source topics ask for 4" in status.message


def test_a_stateless_topology_needs_nothing() -> None:
    plan = plan_topics(topology(Subtopology(0, source_topics=("a",), sink_topics=("z",))), {"a": 3})

    assert plan == TopicPlan((3,))
