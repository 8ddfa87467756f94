"""How long a process that keeps dying has to wait before it is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The first restart is immediate, then the pause doubles from `first_ms` up to `cap_ms`.

    A process that has lived for `forgive_after_ms` has its earlier deaths forgiven.
    """

    first_ms: int = 1_000
    cap_ms: int = 30_000
    forgive_after_ms: int = 60_000

    def failures_after(self, failures: int, lived_ms: int) -> int:
        """The number of deaths in a row, this one included."""
        return 1 if lived_ms >= self.forgive_after_ms else failures + 1

    def delay_ms(self, failures: int) -> int:
        """The pause after so many deaths in a row."""
        if failures <= 1:
            return 0
        return min(self.cap_ms, self.first_ms << min(failures - 2, 30))
