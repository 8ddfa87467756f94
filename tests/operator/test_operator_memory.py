"""The footprint in a StreamsApp's status, on a real API server, with leaders that don't know that they are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import kopf
import pytest
from operator_builders import a_manifest

from sluice_coordinator.driver import FootprintRefusedError
from sluice_coordinator.group import Recorded
from sluice_coordinator.threads import in_thread
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.kube.memory import StreamsAppMemory
from sluice_operator.kube.ownership import Ownership
from sluice_operator.spec.model import API_VERSION, KIND

pytestmark = pytest.mark.kubernetes

USED = Recorded(3, 1, "kafka-a")

Lead = Callable[[int], Awaitable[StreamsAppMemory]]
"""Take the application over under this leader epoch."""


def created(cluster: KubernetesCluster, namespace: str, name: str, servers: str = "kafka:9092") -> dict[str, Any]:
    spec = a_manifest(kafka={"bootstrapServers": servers})["spec"]
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    return cluster.client.create(paths.apps(namespace), body)


@asynccontextmanager
async def leading(cluster: KubernetesCluster, namespace: str, app: dict[str, Any]) -> AsyncIterator[Lead]:
    info = kopf.ConnectionInfo(server=cluster.url, ca_path=str(cluster.ca_file), token=cluster.client.token)
    loop = asyncio.get_running_loop()
    async with Kube(lambda: info) as kube:
        ownership = Ownership(kube, (namespace,))
        key = namespace, app["metadata"]["name"]

        async def lead(leader: int) -> StreamsAppMemory:
            memory = StreamsAppMemory(
                kube, loop, (key, app["metadata"]["uid"]), leader, lambda above: above + 1, ownership
            )
            await memory.take_over()
            return memory

        yield lead


async def record(memory: StreamsAppMemory, footprint: Recorded) -> None:
    await in_thread(lambda: memory.record_footprint(footprint))


def test_a_footprint_shrinks_and_no_former_leader_changes_it(kubernetes: KubernetesCluster, namespace: str):
    async def story() -> None:
        async with leading(kubernetes, namespace, created(kubernetes, namespace, "flights")) as lead:
            former = await lead(1)
            await record(former, USED)
            leader = await lead(2)
            assert leader.footprint() == USED

            with pytest.raises(KubeError, match="is led under epoch 2, after 1"):
                await record(former, Recorded(1, 1, "kafka-a"))
            assert (await lead(3)).footprint() == USED

            await record(await lead(4), Recorded(2, 1, "kafka-a"))
            assert (await lead(5)).footprint() == Recorded(2, 1, "kafka-a")

    asyncio.run(story())


def test_a_leader_below_the_one_on_record_raises_its_epoch_above_it(kubernetes: KubernetesCluster, namespace: str):
    async def story() -> None:
        async with leading(kubernetes, namespace, created(kubernetes, namespace, "flights")) as lead:
            await lead(7)
            assert (await lead(1)).raise_leader() == 8

    asyncio.run(story())


def test_of_two_applications_with_one_id_one_is_recorded_on_a_cluster(kubernetes: KubernetesCluster, namespace: str):
    first = created(kubernetes, namespace, "flights")
    second = created(kubernetes, namespace, "twin", "other-name:9092")

    async def story() -> None:
        async with leading(kubernetes, namespace, second) as lead:
            await record(await lead(1), USED)
        async with leading(kubernetes, namespace, first) as lead:
            memory = await lead(1)
            with pytest.raises(FootprintRefusedError, match=f"{namespace}/twin"):
                await record(memory, USED)

            elsewhere = Recorded(3, 1, "kafka-b")
            await record(memory, elsewhere)
            assert (await lead(2)).footprint() == elsewhere

    asyncio.run(story())
