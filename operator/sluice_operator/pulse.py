"""Whether the event loops of this process turn: each leaves a sign of life every second, and somebody else looks.

A loop that is stuck can't say so itself: so that its sign is read from another thread.
"""

from __future__ import annotations

import asyncio
import threading
import time

_BEAT_SECONDS = 1.0


class Pulse:
    """The last sign of life of each loop, by its name. Its methods may be called in any thread."""

    def __init__(self, patience: float = 15.0) -> None:
        """`patience`: seconds after which a loop counts as stuck; a big decision takes a few."""
        self._patience = patience
        self._beats: dict[str, float] = {}
        self._lock = threading.Lock()

    async def beat(self, name: str) -> None:
        """Beat in the loop that calls, until cancelled."""
        try:
            while True:
                with self._lock:
                    self._beats[name] = time.monotonic()
                await asyncio.sleep(_BEAT_SECONDS)
        finally:
            with self._lock:
                self._beats.pop(name, None)

    def problems(self) -> list[str]:
        """A sentence for each loop that is stuck."""
        now = time.monotonic()
        with self._lock:
            silent = {name: now - beat for name, beat in self._beats.items()}
        return [
            f"the event loop {name!r} has stood still for {seconds:.0f} s"
            for name, seconds in sorted(silent.items())
            if seconds > self._patience
        ]
