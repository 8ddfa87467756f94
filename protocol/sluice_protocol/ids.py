"""Ids and names that must be the same everywhere: tasks, epochs, internal topics, transactional ids.

The names of internal topics are Kafka Streams' own (`<applicationId>-<name>-changelog`), so that its users find them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_WORKER = re.compile(r"worker-(0|[1-9][0-9]*)")
_APPLICATION_ID = re.compile(r"[a-zA-Z0-9._-]{1,150}")


class TaskId(NamedTuple):
    """Subtopology and partition, written `S_P` as Kafka Streams writes it.

    A tuple, because assigning compares and hashes ids more than it does anything else.
    """

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read `S_P`. Raises ValueError naming the text."""
        subtopology, separator, partition = text.partition("_")
        if not (separator and subtopology.isdecimal() and partition.isdecimal()):
            raise ValueError(f"task {text!r} is not of the form S_P, as in 0_3")
        return cls(int(subtopology), int(partition))


class Epoch(NamedTuple):
    """An epoch of a group: the leader's own counter first, then the group's.

    Epochs compare as (leader, group): whatever a newer leader says is newer than anything an older one said.
    """

    leader: int
    group: int

    def __str__(self) -> str:
        return f"{self.leader}.{self.group}"

    @classmethod
    def parse(cls, text: str) -> Epoch:
        """Read `leader.group`. Raises ValueError naming the text."""
        leader, separator, group = text.partition(".")
        if not (separator and leader.lstrip("-").isdecimal() and group.lstrip("-").isdecimal()):
            raise ValueError(f"epoch {text!r} is not of the form LEADER.GROUP, as in 2.17")
        return cls(int(leader), int(group))


JOIN = Epoch(0, 0)
"""The member epoch of a worker that is not (or no longer) a member."""

LEAVE = Epoch(-1, -1)
"""The member epoch with which a worker says that it leaves; it has closed everything before."""


def worker_name(slot: int) -> str:
    """The worker of a slot 0…n. It names the volume and the transactional ids, and outlives the process."""
    return f"worker-{slot}"


def worker_slot(name: str) -> int:
    """The slot of a worker's name. Raises ValueError naming it."""
    match = _WORKER.fullmatch(name)
    if match is None:
        raise ValueError(f"worker {name!r} is not of the form worker-N, as in worker-0")
    return int(match.group(1))


def check_application_id(application_id: str) -> str:
    """Return the id, or raise ValueError: it becomes part of topic names and group ids."""
    if not _APPLICATION_ID.fullmatch(application_id) or application_id in (".", ".."):
        raise ValueError(
            f"applicationId {application_id!r} can't be part of a topic name: "
            "use 1 to 150 of the characters a-z A-Z 0-9 . _ -"
        )
    return application_id


def repartition_topic(application_id: str, name: str) -> str:
    """The topic through which records travel to the task of their new key."""
    return f"{application_id}-{name}-repartition"


def changelog_topic(application_id: str, store: str) -> str:
    """The compacted topic that holds every update of a store, partition = task."""
    return f"{application_id}-{store}-changelog"


def dead_letter_topic(application_id: str) -> str:
    """Where records go that can't be decoded or transformed (KIP-1034)."""
    return f"{application_id}-dead-letters"


def transactional_id(application_id: str, worker: str, subtopology: int) -> str:
    """One producer a worker and subtopology: one transaction a batch for all its tasks there."""
    return f"{application_id}-{worker}-{subtopology}"
