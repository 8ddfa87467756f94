"""What is done of an action, and what is remembered of one that failed."""

from __future__ import annotations

import asyncio
from typing import cast
from uuid import UUID

import kopf
import pytest
from operator_builders import COORDINATOR, TOPOLOGY, a_manifest, an_app
from operator_coordination import coordinating

from sluice_coordinator.group import events
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator.apps.execution import Execution, Progress
from sluice_operator.coordination import Coordination
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.observed import App, Cleanup, Membership, membership, read_app
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_operator.workers.actions import DeletePod, DeleteTopics
from sluice_operator.workers.manifests import pod_manifest
from sluice_protocol.heartbeat import HeartbeatRequest
from sluice_protocol.ids import JOIN

NOBODY_LISTENS = "127.0.0.1:1"


def test_topics_count_as_deleted_only_once_they_are():
    progress = Progress()

    async def story() -> None:
        async with Kube(lambda: kopf.ConnectionInfo(server=f"http://{NOBODY_LISTENS}")) as kube:
            execution = Execution(kube, cast(Coordination, None), ())  # it fails before anybody is told
            await execution.do(an_app(is_going=True), DeleteTopics(("a-changelog",)), progress)

    with pytest.raises(KubeError):
        asyncio.run(story())
    assert progress.cleanup is Cleanup.DUE


def with_a_pod(cluster: KubernetesCluster, namespace: str) -> tuple[App, str]:
    """An application and the uid of the pod of its slot 0."""
    spec = a_manifest(kafka={"bootstrapServers": NOBODY_LISTENS})["spec"]
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flights"}, "spec": spec}
    app = read_app(cluster.client.create(paths.apps(namespace), body))
    assert app.spec is not None
    pod = pod_manifest(app.name, namespace, app.uid, 0, app.spec, COORDINATOR)
    return app, cluster.client.create(paths.pods(namespace), pod)["metadata"]["uid"]


def joins(incarnation: str) -> events.HeartbeatReceived:
    request = HeartbeatRequest(
        "member", "worker-0", str(UUID(int=1)), incarnation, JOIN, 1, TOPOLOGY.hash(), capacity=1, topology=TOPOLOGY
    )
    return events.HeartbeatReceived(1, request)


@pytest.mark.kubernetes
@pytest.mark.parametrize("has_joined", [True, False])
def test_a_worker_that_joined_before_its_pod_is_deleted_keeps_it(
    kubernetes: KubernetesCluster, namespace: str, has_joined: bool
):
    app, uid = with_a_pod(kubernetes, namespace)

    async def story() -> Membership:
        info = kopf.ConnectionInfo(
            server=kubernetes.url, ca_path=str(kubernetes.ca_file), token=kubernetes.client.token
        )
        async with coordinating(kubernetes, namespace) as coordination, Kube(lambda: info) as kube:
            await coordination.look(app)
            if has_joined:
                await coordination.tell(app.key, joins(uid))
            action = DeletePod(0, uid, "its spec has changed", unless_joined=True)
            is_done = await Execution(kube, coordination, ()).do(app, action, Progress())

            assert is_done is not has_joined
            assert kubernetes.client.exists(f"{paths.pods(namespace)}/flights-worker-0") is has_joined
            if not has_joined:
                await coordination.tell(app.key, joins(uid))
            return membership("worker-0", uid, (await coordination.look(app)).group)

    assert asyncio.run(story()) in (Membership.DRAINING, Membership.DRAINED)
