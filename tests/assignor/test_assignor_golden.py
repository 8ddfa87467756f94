"""Kafka's own answers, case by case: kafka-streams 4.1.1's HighAvailabilityTaskAssignor, run on seeded random groups.

`kafka_4_1_1` are groups of all styles, with racks, with tags, and with neither. `traps` are the rare ones on which a
plainer assignor differs from Kafka, because the slots of its queues decide.
"""

from __future__ import annotations

import pytest
from assignor_cases import Case, our_answer, read_golden

CORPUS = read_golden("kafka_4_1_1")
TRAPS = read_golden("traps")


def test_the_corpus_has_cases_of_all_kinds():
    configs = [case["input"]["config"] for case in CORPUS]

    assert len(CORPUS) == 300
    assert sum(config["strategy"] == "min_traffic" for config in configs) > 50
    assert sum(config["strategy"] == "balance_subtopology" for config in configs) > 50
    assert sum(bool(config["tags"]) and config["numStandbyReplicas"] > 0 for config in configs) > 50


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: f"seed-{case['input']['seed']}")
def test_decides_as_kafka(case: Case):
    assert our_answer(case["input"]) == case["expected"]


@pytest.mark.parametrize("case", TRAPS, ids=lambda case: f"seed-{case['input']['seed']}")
def test_decides_as_kafka_where_its_queues_are_out_of_order(case: Case):
    assert our_answer(case["input"]) == case["expected"]
