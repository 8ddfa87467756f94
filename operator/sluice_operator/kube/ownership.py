"""Whose an applicationId is on a Kafka: of the first StreamsApp of which the cluster's id is recorded.

There is no object that two StreamsApps share, and so no precondition that would keep the second from writing; but
only the leader writes, and it asks and writes for one after the other.
"""

from __future__ import annotations

import asyncio

from sluice_coordinator.driver import FootprintRefusedError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.observed import App, read_app
from sluice_operator.uniqueness import find_elder


class Ownership:
    """Belongs to the loop of `kube`. No namespaces = the whole cluster."""

    def __init__(self, kube: Kube, namespaces: tuple[str, ...]) -> None:
        self._kube = kube
        self._namespaces = namespaces
        self.lock = asyncio.Lock()
        """Held from the check until it is written."""

    async def check(self, app: App, cluster_id: str | None) -> None:
        """May this be recorded of the application? Raises FootprintRefusedError, KubeError."""
        if cluster_id is None or cluster_id == app.cluster_id:
            return
        problem = find_elder(app, await all_apps(self._kube, self._namespaces), cluster_id)
        if problem is not None:
            raise FootprintRefusedError(problem.message)


async def all_apps(kube: Kube, namespaces: tuple[str, ...]) -> list[App]:
    """Every StreamsApp that the operator looks after. Raises KubeError."""
    return [read_app(item) for path in paths.all_apps(namespaces) for item in await kube.list(path)]
