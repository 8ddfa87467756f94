"""Telling the coordinator which worker processes have died, at once, so that it doesn't wait for their session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.http_call import RefusedError, UnreachableError

_AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Death:
    """A process that has ended without having left the group."""

    worker: str
    incarnation: str


class DeathNotices:
    """Every notice is its own task, and is repeated until the coordinator has taken it (it may be dead itself)."""

    def __init__(self, coordinator: Callable[[], CoordinatorClient | None], report: Callable[[str], None]) -> None:
        self._coordinator = coordinator
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, death: Death) -> None:
        """Tell of a death."""
        task = asyncio.create_task(self._tell(death))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up on what has not been told."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, death: Death) -> None:
        while not await self._taken(death):
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _taken(self, death: Death) -> bool:
        client = self._coordinator()
        if client is None:
            return False
        try:
            await asyncio.to_thread(client.gone, death.worker, death.incarnation)
        except UnreachableError:
            return False
        except RefusedError as error:
            self._report(f"the coordinator didn't take the death of {death.worker}: {error}")
        return True
