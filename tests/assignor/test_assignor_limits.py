"""What may be configured: the limits of KIP-708 for tags, and those of KIP-925's costs."""

from __future__ import annotations

from uuid import UUID

import pytest

from sluice_assignor import AssignmentConfig, InvalidConfigError, InvalidGroupError, Worker
from sluice_assignor.model import MAX_COST


def a_worker(tags: dict[str, str]) -> Worker:
    return Worker(UUID(int=1), capacity=1, tags=tags)


def test_tags_within_the_limits_are_kept():
    tags = {letter * 20: "v" * 30 for letter in "abcde"}

    assert a_worker(tags).tags == tags
    assert AssignmentConfig(rack_aware_tags=tuple(tags)).rack_aware_tags == tuple(tags)


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        (dict.fromkeys("abcdef", "v"), "has 6 tags; it may have at most 5"),
        ({"k" * 21: "v"}, "whose key has 21 characters; it must have from 1 to 20"),
        ({"": "v"}, "whose key has 0 characters"),
        ({"zone": "v" * 31}, "whose value has 31 characters; it must have from 1 to 30"),
        ({"zone": ""}, "whose value has 0 characters"),
    ],
)
def test_tags_beyond_the_limits_are_refused(tags, complaint):
    with pytest.raises(InvalidGroupError, match=complaint):
        a_worker(tags)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"rack_aware_tags": tuple("abcdef")}, "rackAwareTags names 6 tags; it may name at most 5"),
        ({"rack_aware_tags": ("k" * 21,)}, "which has 21 characters"),
        ({"rack_aware_tags": ("zone", "zone")}, "rackAwareTags names 'zone' more than once"),
        ({"traffic_cost": -1}, f"trafficCost is -1; it must be from 0 to {MAX_COST}"),
        ({"non_overlap_cost": MAX_COST + 1}, f"nonOverlapCost is {MAX_COST + 1}"),
    ],
)
def test_configurations_beyond_the_limits_are_refused(settings, complaint):
    with pytest.raises(InvalidConfigError, match=complaint):
        AssignmentConfig(**settings)
