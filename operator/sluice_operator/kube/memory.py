"""What outlives the coordinator of an application on Kubernetes: the leader epoch on the Lease, the footprint in the
status of the StreamsApp.

A footprint may shrink, and a leader that has lost its Lease unawares may still write: its word would take slots off
the record that are in use by now. So each leader puts its epoch on the record before it builds on it. After that no
earlier one writes there: what it had begun fails by the resource version, what it begins by the epoch.

The driver calls it from threads, except for its first leader epoch; so that one is raised before the driver is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sluice_coordinator.group import Recorded
from sluice_coordinator.threads import in_thread
from sluice_operator.errors import ConflictError, KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.kube.ownership import Ownership
from sluice_operator.observed import App, read_app
from sluice_operator.spec.model import Footprint
from sluice_protocol.wire import to_json

_WRITE_SECONDS = 15.0
_ATTEMPTS = 5

RaiseEpoch = Callable[[int], int]
"""Blocks until a leader epoch above the given one is durable. Raises OSError."""


class StreamsAppMemory:
    """Of one StreamsApp, for one driver; `kube` belongs to `loop`. `take_over` before anything else."""

    def __init__(
        self,
        kube: Kube,
        loop: asyncio.AbstractEventLoop,
        app: tuple[tuple[str, str], str],
        leader: int,
        raise_epoch: RaiseEpoch,
        ownership: Ownership,
    ) -> None:
        """`app`: its key and its uid. `leader`: an epoch that was raised for this very driver."""
        self._kube = kube
        self._loop = loop
        self._key, self._uid = app
        self._leader = leader
        self._is_raised = True
        self._footprint = Recorded()
        self._raise_epoch = raise_epoch
        self._ownership = ownership

    def raise_leader(self, above: int = 0) -> int:
        """The epoch that was raised beforehand; another one only when a member has heard a newer leader."""
        is_raised, self._is_raised = self._is_raised, False
        if not is_raised or self._leader <= above:
            self._leader = self._raise_epoch(above)
            self._run(self.take_over())
        return self._leader

    def footprint(self) -> Recorded:
        """As it was last recorded."""
        return self._footprint

    def record_footprint(self, footprint: Recorded) -> None:
        """Durable when this returns. Called from a thread. Raises OSError, FootprintRefusedError."""
        self._run(self._write(footprint))

    async def take_over(self) -> None:
        """Read what is on record, and let no earlier leader change it any more. Raises OSError."""
        recorded = (await self._read()).footprint.leader
        if recorded >= self._leader:  # that of a Lease that has been deleted; only its holder can raise it
            self._leader = await in_thread(lambda: self._raise_epoch(recorded))
        await self._write(None)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """What has not come to its end by then is not tried any more: it would come after what is written next."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            running.result(_WRITE_SECONDS)
        except TimeoutError:
            running.cancel()
            raise

    async def _write(self, footprint: Recorded | None) -> None:
        """None: as it is."""
        for _ in range(_ATTEMPTS):
            try:
                async with self._ownership.lock:
                    return await self._write_once(footprint)
            except ConflictError:
                continue  # somebody else has written in between
        raise KubeError(409, "Conflict", f"{self} changes all the time")

    async def _write_once(self, footprint: Recorded | None) -> None:
        app = await self._read()
        if app.footprint.leader > self._leader:
            raise KubeError(409, "Conflict", f"{self} is led under epoch {app.footprint.leader}, after {self._leader}")
        wanted = _recorded(app) if footprint is None else footprint
        await self._ownership.check(app, wanted.cluster_id)
        written = Footprint(wanted.slots, wanted.subtopologies, wanted.cluster_id, self._leader)
        await self._kube.patch(
            paths.app_status(self._key),
            {
                "metadata": {"resourceVersion": app.resource_version, "uid": app.uid},
                "status": {"footprint": to_json(written)},
            },
        )
        self._footprint = wanted

    async def _read(self) -> App:
        item = await self._kube.get(paths.app(self._key))
        if item is None or item["metadata"]["uid"] != self._uid:
            raise KubeError(404, "NotFound", f"{self} is not there any more")
        return read_app(item)

    def __str__(self) -> str:
        return f"StreamsApp {'/'.join(self._key)}"


def _recorded(app: App) -> Recorded:
    """What the status of a StreamsApp says may still be held."""
    return Recorded(app.footprint.slots, app.footprint.subtopologies, app.cluster_id)
