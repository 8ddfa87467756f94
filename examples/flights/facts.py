"""The facts of a run: from the coordinator's list of moves, and from the commit log, which knows nothing of it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice_devkit.offsets import OffsetCommit, Owner, Partition, commits_by_partition
from sluice_protocol.ids import TaskId
from sluice_protocol.view import MoveView

_STEADY_MS = 1_000
"""A partition takes part in the pauses only if half of its commits come within this time of each other."""


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a partition's results stood still at a change of its owner."""

    partition: Partition
    source: str
    destination: str
    milliseconds: int


def pauses(commits: Iterable[OffsetCommit], since_ms: int, until_ms: int) -> list[Pause]:
    """The time between the last commit of an owner and the first of the next, where records flow steadily."""
    found: list[Pause] = []
    for partition, sequence in commits_by_partition(commits).items():
        window = [commit for commit in sequence if since_ms <= commit.timestamp_ms <= until_ms]
        if not _is_steady(window):
            continue
        for earlier, later in itertools.pairwise(window):
            source, destination = Owner.parse(earlier.metadata), Owner.parse(later.metadata)
            if source is not None and destination is not None and source.worker != destination.worker:
                gap = later.timestamp_ms - earlier.timestamp_ms
                found.append(Pause(partition, source.worker, destination.worker, gap))
    return found


def _is_steady(window: Sequence[OffsetCommit]) -> bool:
    gaps = [b.timestamp_ms - a.timestamp_ms for a, b in itertools.pairwise(window)]
    return len(gaps) >= 10 and statistics.median(gaps) <= _STEADY_MS


def longest_unmoved(commits: Iterable[OffsetCommit], since_ms: int, until_ms: int) -> list[int]:
    """For every partition that kept its owner: its longest time between two commits."""
    longest: list[int] = []
    for sequence in commits_by_partition(commits).values():
        window = [commit for commit in sequence if since_ms <= commit.timestamp_ms <= until_ms]
        owners = {Owner.parse(commit.metadata) for commit in window}
        if _is_steady(window) and len({owner.worker for owner in owners if owner is not None}) == 1:
            longest.append(max(b.timestamp_ms - a.timestamp_ms for a, b in itertools.pairwise(window)))
    return longest


def cold_moves(moves: Iterable[MoveView], stateful: Mapping[int, bool], acceptable_lag: int) -> list[MoveView]:
    """Planned moves of stateful tasks to a worker that wasn't caught up."""
    return [
        move
        for move in moves
        if move.planned and move.source is not None and stateful[move.task.subtopology] and move.lag > acceptable_lag
    ]


@dataclass(slots=True)
class WarmUps:
    """The lags that were seen of each warm-up, as they came."""

    lags: dict[tuple[TaskId, str], list[int]]

    def falling(self) -> int:
        """How many warm-ups were seen with at least two lags, the later ones lower."""
        return sum(len(seen) > 1 and seen[-1] < seen[0] for seen in self.lags.values())
