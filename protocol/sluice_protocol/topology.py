"""The description of a topology in Kafka's words: subtopologies, joined by repartition topics, and their hash.

A worker compiles a pipeline into this and sends it when it joins; the coordinator plans topics and tasks from it
alone. It says what must be the same for two workers to share tasks, and nothing of the user's code in between.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from sluice_protocol.wire import to_json


@dataclass(frozen=True, slots=True)
class Subtopology:
    """One subtopology: what it reads, what it keeps, what it writes.

    `copartitioned` are groups of topics (of this subtopology's sources) that must have the same number of partitions,
    because one keyed store reads them together. Topic names are whole names, internal ones included.
    """

    id: int
    source_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[str, ...] = ()
    changelog_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    sink_topics: tuple[str, ...] = ()
    copartitioned: tuple[tuple[str, ...], ...] = ()

    @property
    def is_stateful(self) -> bool:
        """Stateful = has a changelog topic."""
        return bool(self.changelog_topics)

    @property
    def sources(self) -> tuple[str, ...]:
        """Every topic that it reads, repartition topics included."""
        return self.source_topics + self.repartition_source_topics


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """All subtopologies in order of their id (0, 1, …) and the dead-letter topic, if records may go there."""

    application_id: str
    subtopologies: tuple[Subtopology, ...]
    dead_letter_topic: str | None = None

    def __post_init__(self) -> None:
        ids = [subtopology.id for subtopology in self.subtopologies]
        if ids != list(range(len(ids))):
            raise ValueError(f"subtopologies must be numbered 0, 1, … in order; these are {ids}")

    def hash(self) -> str:
        """A short digest over everything above: equal hashes may share tasks."""
        text = json.dumps(to_json(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
