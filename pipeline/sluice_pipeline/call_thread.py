"""Calls that must not hold their caller up for ever, made in a thread of their own.

librdkafka's `send_offsets_to_transaction` does not keep its time-out while it looks for the group's coordinator: a
lookup that was refused three times, or that waits for a broker it has forgotten, is never repeated by itself.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class CallOverdueError(Exception):
    """A call did not return in time. It may be on its way still, so nothing more may be asked of its thread."""


class CallThread:
    """Makes one call after another, and gives one up that is overdue. A call that hangs holds up no process' end."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], queue.SimpleQueue[Exception | None]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], None], seconds: float) -> None:
        """Return when the function has, and raise what it raises. Raises CallOverdueError after so many seconds."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._calls.put((function, ended))
        try:
            problem = ended.get(timeout=seconds)
        except queue.Empty:
            raise CallOverdueError(f"it has not returned for {seconds:g} s") from None
        if problem is not None:
            raise problem

    def close(self) -> None:
        """Let the thread end, once its call has returned."""
        self._calls.put(None)

    def _run(self) -> None:
        while (asked := self._calls.get()) is not None:
            function, ended = asked
            try:
                function()
            except Exception as error:  # the caller's to handle
                ended.put(error)
            else:
                ended.put(None)
