"""How many events an application may be worth: many at once, few in the long run. Pure; time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

BURST = 25
SECONDS_EACH = 30.0


@dataclass(slots=True)
class EventLimit:
    """A bucket of tokens, one an event: full at first, and filled again by one every SECONDS_EACH."""

    tokens: float = BURST
    filled_at: float | None = None

    def allows(self, now: float) -> bool:
        """Take a token; False if there is none. `now`: seconds of a clock that never jumps."""
        since = now if self.filled_at is None else self.filled_at
        self.tokens, self.filled_at = min(BURST, self.tokens + (now - since) / SECONDS_EACH), now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True
