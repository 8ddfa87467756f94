"""Numbers out of samples: rates after the warm-up part, medians, percentiles. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from sluice_devkit.offsets import Advance, Partition

WARM_UP = 0.25
"""The part of a topic that isn't counted: JITs are cold and caches empty."""


class NothingMeasuredError(ValueError):
    """The samples don't hold a figure, as when a topic was drained in one step."""


def totals(advances: Mapping[Partition, Sequence[Advance]]) -> list[Advance]:
    """The advances of single partitions as advances of their sum, oldest first."""
    moments = sorted(
        (advance.at, partition, advance.offset) for partition, seen in advances.items() for advance in seen
    )
    latest: dict[Partition, int] = {}
    summed = []
    for at, partition, offset in moments:
        latest[partition] = offset
        summed.append(Advance(at, sum(latest.values())))
    return summed


def rate_after_warm_up(done: Sequence[Advance], records: int, warm_up: float = WARM_UP) -> float:
    """Records per second from the first sample at or past the warm-up part to the first that has all records.

    Raises NothingMeasuredError.
    """
    begin = next((sample for sample in done if sample.offset >= records * warm_up), None)
    end = next((sample for sample in done if sample.offset >= records), None)
    if begin is None or end is None or end.at <= begin.at:
        raise NothingMeasuredError(
            f"{len(done)} samples up to {done[-1].offset if done else 0} of {records} records "
            f"hold no rate after the first {warm_up:.0%}"
        )
    return (end.offset - begin.offset) / (end.at - begin.at)


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of all is not above (nearest rank). Raises NothingMeasuredError."""
    ordered = sorted(values)
    if not ordered:
        raise NothingMeasuredError("no values to take a percentile of")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
