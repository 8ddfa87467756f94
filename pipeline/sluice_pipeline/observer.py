"""The steps of a worker that an observer may watch: where a crash would fall between two durable effects.

In production nobody watches. The fault tests start workers with an observer that kills the process at a chosen step,
so that every crash window of the exactly-once argument is really hit.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Step(Enum):
    """Each is reported right *after* the effect that it names."""

    INITIALISED = "init_transactions returned"
    PRODUCED = "records handed to the producer"
    FLUSHED = "flush returned"
    OFFSETS_SENT = "send_offsets_to_transaction returned"
    COMMITTED = "commit_transaction returned"
    STORED = "RocksDB batch written"
    RESTORING = "a part of a changelog applied"
    RELEASED = "stores closed, release not reported yet"


class Observer(Protocol):
    """Told of every step, in the thread that takes it."""

    def reached(self, step: Step) -> None:
        """Called after the step."""


class Unwatched:
    """The observer of production: does nothing."""

    def reached(self, step: Step) -> None:
        """Nobody watches."""
