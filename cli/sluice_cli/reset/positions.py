"""Where a partition is read from after a reset, as kafka-streams-application-reset (KIP-171) has it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sluice_cli.errors import MistakeError

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Log:
    """What is known of a partition. `at_time`: the first record not before the moment asked for, if there is one."""

    start: int
    end: int
    committed: int | None = None
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class Aim:
    """Where to. `since_ms`: the moment that has to be looked up, since the epoch."""

    words: str
    find: Callable[[Log], int | None]
    since_ms: int | None = None


def earliest() -> Aim:
    """The oldest record that is there."""
    return Aim("the earliest records", lambda log: log.start)


def latest() -> Aim:
    """Only what comes from now on."""
    return Aim("the latest records", lambda log: log.end)


def since(moment_ms: int) -> Aim:
    """The first record not before that moment; the end, if there is none."""
    shown = datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Aim(f"the records since {shown}", lambda log: log.end if log.at_time is None else log.at_time, moment_ms)


def shifted(by: int) -> Aim:
    """So many records after (before, if negative) the committed offset."""
    return Aim(f"the committed offsets {by:+d}", lambda log: None if log.committed is None else log.committed + by)


def at(offset: int) -> Aim:
    """That very offset."""
    return Aim(f"offset {offset}", lambda _: offset)


def positions(aim: Aim, logs: Mapping[Partition, Log]) -> dict[Partition, int]:
    """The new offset of each partition, kept within its log. Raises MistakeError where there is nothing to shift."""
    found = {where: aim.find(log) for where, log in logs.items()}
    lost = sorted(f"{topic}-{partition}" for (topic, partition), offset in found.items() if offset is None)
    if lost:
        raise MistakeError(
            f"--shift-by: the group has no committed offset of {', '.join(lost)}; choose --to-earliest or --to-latest"
        )
    return {
        where: min(max(offset, logs[where].start), logs[where].end)
        for where, offset in found.items()
        if offset is not None
    }
