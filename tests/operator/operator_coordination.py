"""The coordination of an operator, in the process of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import kopf

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator.coordination import Coordination, CoordinationSettings
from sluice_operator.kube.client import Kube
from sluice_operator.kube.elector import Elector, LeaseSettings
from sluice_operator.metrics import OperatorMetrics
from sluice_operator.pulse import Pulse

SECONDS = 20.0


@asynccontextmanager
async def coordinating(cluster: KubernetesCluster, namespace: str) -> AsyncIterator[Coordination]:
    """The coordination of an operator that leads."""
    loop = asyncio.get_running_loop()
    info = kopf.ConnectionInfo(server=cluster.url, ca_path=str(cluster.ca_file), token=cluster.client.token)
    async with Kube(lambda: info) as kube:
        elector = Elector(kube, LeaseSettings(namespace), "first")
        await elector.acquire()
        coordination = Coordination(
            CoordinationSettings("https://coordinator:8080", "127.0.0.1", 0, namespace, "coordinator-tls"),
            elector,
            lambda above: asyncio.run_coroutine_threadsafe(elector.raise_epoch(above), loop).result(SECONDS),
            lambda check: Kube(lambda: info, check),
            OperatorMetrics(),
            Pulse(),
        )
        await coordination.start()
        try:
            yield coordination
        finally:
            await coordination.stop()
