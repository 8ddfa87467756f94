"""What outlives the coordinator of an application on Kubernetes: the leader epoch on the Lease, the footprint in the
status of the StreamsApp.

The driver calls it from threads, except for its first leader epoch; so that one is raised before the driver is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sluice_coordinator.group import Recorded
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
    """Of one StreamsApp, for one driver; `kube` belongs to `loop`."""

    def __init__(
        self,
        kube: Kube,
        loop: asyncio.AbstractEventLoop,
        app: tuple[tuple[str, str], str],
        leader: int,
        footprint: Recorded,
        raise_epoch: RaiseEpoch,
        ownership: Ownership,
    ) -> None:
        """`app`: its key and its uid. `leader`: an epoch that was raised for this very driver."""
        self._kube = kube
        self._loop = loop
        self._key, self._uid = app
        self._leader: int | None = leader
        self._footprint = footprint
        self._raise_epoch = raise_epoch
        self._ownership = ownership

    def raise_leader(self, above: int = 0) -> int:
        """The epoch that was raised beforehand; another one only when a member has heard a newer leader."""
        leader, self._leader = self._leader, None
        return leader if leader is not None and leader > above else self._raise_epoch(above)

    def footprint(self) -> Recorded:
        """As it was last recorded."""
        return self._footprint

    def record_footprint(self, footprint: Recorded) -> None:
        """Durable when this returns. Called from a thread. Raises OSError, FootprintRefusedError."""
        write = asyncio.run_coroutine_threadsafe(self._write(footprint), self._loop)
        write.result(_WRITE_SECONDS)
        self._footprint = footprint

    async def _write(self, footprint: Recorded) -> None:
        for _ in range(_ATTEMPTS):
            try:
                async with self._ownership.lock:
                    return await self._write_once(footprint)
            except ConflictError:
                continue  # somebody else has written in between
        raise KubeError(409, "Conflict", f"StreamsApp {'/'.join(self._key)} changes all the time")

    async def _write_once(self, footprint: Recorded) -> None:
        """It only grows here, and keeps its cluster: another one could come from a leader that has lost its lease
        unawares."""
        item = await self._kube.get(paths.app(self._key))
        if item is None or item["metadata"]["uid"] != self._uid:
            raise KubeError(404, "NotFound", f"StreamsApp {'/'.join(self._key)} is not there any more")
        app = read_app(item)
        grown = recorded(app).union(footprint)
        if not grown.covers(footprint):
            raise KubeError(409, "Conflict", f"StreamsApp {'/'.join(self._key)} runs on cluster {grown.cluster_id}")
        await self._ownership.check(app, grown.cluster_id)
        await self._kube.patch(
            paths.app_status(self._key),
            {
                "metadata": {"resourceVersion": app.resource_version, "uid": app.uid},
                "status": {"footprint": to_json(_footprint(grown))},
            },
        )


def recorded(app: App) -> Recorded:
    """What the status of a StreamsApp says may still be held."""
    return Recorded(app.footprint.slots, app.footprint.subtopologies, app.cluster_id)


def _footprint(recorded: Recorded) -> Footprint:
    return Footprint(recorded.slots, recorded.subtopologies, recorded.cluster_id)
