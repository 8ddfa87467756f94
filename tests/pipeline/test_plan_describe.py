from __future__ import annotations

import json
import re
from pathlib import Path

import sluice
from sluice import count
from sluice_pipeline.describe import describe, describe_json
from sluice_pipeline.plan import TopologyPlan


def a_plan() -> TopologyPlan:
    """The same pipeline as that of kafka_streams_describe.txt."""
    app = sluice.Topology("app")
    rows = app.stream("a", "b", key="k string", value="v string")
    counted = rows.group_by("k").aggregate("x", n=count()).to_stream()
    counted.group_by("n").aggregate("y", m=count()).to("out")
    counted.to("out2", key="n")
    others = app.stream("c", value="v string, w string")
    shared = others.group_by("v", name="shared")
    shared.aggregate("s1", n=count("w"))
    shared.aggregate("s2", n=count()).to("z")
    others.to("q")
    return app.build()


def with_sorted_successors(text: str) -> list[str]:
    """Lines, without the order of successors: in Kafka Streams it hangs on a hash map."""
    lines = [line for line in text.splitlines() if line.strip()]
    return [re.sub(r"--> (.*)", lambda found: "--> " + ", ".join(sorted(found[1].split(", "))), line) for line in lines]


def test_the_text_is_what_kafka_streams_prints_but_for_whole_names_of_internal_topics():
    expected = Path(__file__).with_name("kafka_streams_describe.txt").read_text()
    expected = re.sub(r"(topics: \[|topic: )(\S+-repartition)\b", r"\1app-\2", expected)

    assert with_sorted_successors(describe(a_plan())) == with_sorted_successors(expected)


def test_the_json_says_what_the_coordinator_plans():
    described = json.loads(describe_json(a_plan()))

    assert described["applicationId"] == "app"
    first, second, third, fourth = described["subtopologies"]
    assert first["sourceTopics"] == ["a", "b"]
    assert first["changelogTopics"] == ["app-x-changelog"]
    assert first["repartitionSinkTopics"] == ["app-y-repartition"]
    assert first["sinkTopics"] == ["out2"]
    assert second["repartitionSourceTopics"] == ["app-y-repartition"]
    assert third["stores"] == []
    assert fourth["stores"] == ["s1", "s2"]
    assert fourth["nodes"][0] == {
        "name": "shared-repartition-source",
        "type": "source",
        "topics": ["app-shared-repartition"],
        "predecessors": [],
        "successors": ["KSTREAM-AGGREGATE-0000000018", "KSTREAM-AGGREGATE-0000000014"],
    }


def test_the_description_names_topics_that_must_agree():
    description = a_plan().description()

    assert description.subtopologies[0].copartitioned == (("a", "b"),)
    assert [subtopology.is_stateful for subtopology in description.subtopologies] == [True, True, False, True]
    assert description.dead_letter_topic == "app-dead-letters"


def test_an_application_that_stops_on_errors_has_no_dead_letter_topic():
    app = sluice.Topology("app", on_error="stop")
    app.stream("a", value="v string").to("b")

    assert app.build().description().dead_letter_topic is None


def test_building_twice_gives_the_same_plan():
    assert a_plan().description().hash() == a_plan().description().hash()
    assert a_plan() == a_plan()
