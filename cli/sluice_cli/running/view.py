"""What the supervisor shows of its processes: the body of its control API, beside the group's view."""

from __future__ import annotations

from dataclasses import dataclass

PATH = "/v1/local"
"""GET a LocalView; with `?after=VERSION` the answer is held until the view is another one, or LONG_POLL_SECONDS."""
WORKERS_PATH = "/v1/local/workers"
"""PUT a WantedWorkers, get a LocalView."""
LONG_POLL_SECONDS = 20


@dataclass(frozen=True, slots=True)
class WantedWorkers:
    """How many workers there should be."""

    count: int


@dataclass(frozen=True, slots=True)
class ProcessView:
    """One process under supervision."""

    name: str
    state: str
    """starting · running · draining · stopping · waiting (dead, to be restarted after a pause)."""
    restarts: int
    log: str
    pid: int | None = None
    incarnation: str | None = None
    last_exit: str | None = None
    restart_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LocalView:
    """The processes of an application. `settled`: the desired workers run, and the group has nothing left to do."""

    application_id: str
    supervisor_pid: int
    version: int
    desired: int
    settled: bool
    coordinator: ProcessView
    workers: tuple[ProcessView, ...]
    coordinator_url: str | None = None
