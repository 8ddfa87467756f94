"""Which topologies may run under one application id at the same time.

Two of them may share tasks if subtopologies, stores and internal topics are the same. The user's code in between may
differ, as may the topics that records end in: that is what a rolling update is.
"""

from __future__ import annotations

from sluice_protocol.topology import TopologyDescription


def are_compatible(one: TopologyDescription, other: TopologyDescription) -> bool:
    """May workers of the two share tasks?"""
    return difference(one, other) is None


def difference(running: TopologyDescription, joining: TopologyDescription) -> str | None:
    """The first thing in which they must agree and don't, as a clause for people; None if there is none."""
    if running.application_id != joining.application_id:
        return f"it is of application {joining.application_id!r}, this is {running.application_id!r}"
    if len(running.subtopologies) != len(joining.subtopologies):
        return f"it has {len(joining.subtopologies)} subtopologies, the running one {len(running.subtopologies)}"
    for ours, theirs in zip(running.subtopologies, joining.subtopologies, strict=True):
        parts = {
            "source topics": (ours.source_topics, theirs.source_topics),
            "repartition topics that it reads": (ours.repartition_source_topics, theirs.repartition_source_topics),
            "changelog topics": (ours.changelog_topics, theirs.changelog_topics),
            "repartition topics that it writes": (ours.repartition_sink_topics, theirs.repartition_sink_topics),
        }
        for what, (before, now) in parts.items():
            if set(before) != set(now):
                return f"subtopology {ours.id} has the {what} {_names(now)}, in the running one {_names(before)}"
    return None


def _names(topics: tuple[str, ...]) -> str:
    return ", ".join(sorted(topics)) or "(none)"
