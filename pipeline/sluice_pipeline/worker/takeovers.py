"""The takeovers under way: tasks about which Kafka is being asked, or will be again, before they run or are followed.

An answer counts only if it is of the newest attempt: whatever made the worker begin again made the older one stale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sluice_pipeline.offsets import Offsets
from sluice_pipeline.plan import TopologyPlan
from sluice_pipeline.state.directory import TaskIdentity
from sluice_pipeline.worker.events import NotPrepared, Prepared
from sluice_pipeline.worker.takeover import prepare
from sluice_protocol.ids import TaskId

_THREADS = 4
_RETRY_SECONDS = 1.0


@dataclass(slots=True)
class Takeover:
    """What is under way for one task."""

    attempt: int
    identity: TaskIdentity | None = None
    """Of the copy that is being followed here, None if there is none."""
    prepared: Prepared | None = None
    retry_at: float | None = None


class Takeovers:
    """All of one worker; used from its deciding thread only."""

    def __init__(
        self,
        offsets: Offsets,
        plan: TopologyPlan,
        application_id: str,
        on_event: Callable[[Prepared | NotPrepared], None],
    ) -> None:
        self._offsets = offsets
        self._plan = plan
        self._application_id = application_id
        self._on_event = on_event
        self._asking = ThreadPoolExecutor(_THREADS, thread_name_prefix="takeover")
        self._takeovers: dict[TaskId, Takeover] = {}
        self._attempts = 0

    def begin(self, task: TaskId, identity: TaskIdentity | None) -> None:
        """Ask Kafka about a task; Prepared or NotPrepared follows."""
        self._takeovers[task] = self._next(identity)
        self._ask(task)

    def begin_later(self, task: TaskId) -> None:
        """The same after a pause, with nothing taken for granted."""
        self._takeovers[task] = self._next(None)
        self.retry(task)

    def retry(self, task: TaskId) -> None:
        """Ask again after a pause."""
        self._takeovers[task].retry_at = time.monotonic() + _RETRY_SECONDS

    def ask_due(self) -> None:
        """Ask about those whose pause is over."""
        now = time.monotonic()
        for task, takeover in self._takeovers.items():
            if takeover.retry_at is not None and now >= takeover.retry_at:
                takeover.retry_at = None
                self._ask(task)

    def get(self, task: TaskId) -> Takeover | None:
        """What is under way for the task."""
        return self._takeovers.get(task)

    def answered(self, event: Prepared | NotPrepared) -> Takeover | None:
        """The takeover that this answers; None if it is stale."""
        takeover = self._takeovers.get(event.task)
        return takeover if takeover is not None and takeover.attempt == event.attempt else None

    def end(self, task: TaskId) -> Takeover | None:
        """It has arrived, or isn't wanted any longer."""
        return self._takeovers.pop(task, None)

    def clear(self) -> None:
        """End all of them."""
        self._takeovers.clear()

    def close(self) -> None:
        """Ask nothing any more; what is being asked isn't waited for."""
        self._asking.shutdown(wait=False, cancel_futures=True)

    def _next(self, identity: TaskIdentity | None) -> Takeover:
        self._attempts += 1
        return Takeover(self._attempts, identity)

    def _ask(self, task: TaskId) -> None:
        takeover, part = self._takeovers[task], self._plan.subtopologies[task.subtopology]
        attempt, identity = takeover.attempt, takeover.identity
        self._asking.submit(
            lambda: self._on_event(prepare(self._offsets, part, self._application_id, task, attempt, identity))
        )
