"""On a real API server: what the CRD refuses and fills in, one leader at a time, tokens that name their pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import kopf
import pytest
from operator_builders import a_manifest

from sluice_coordinator.admission import ProblemError
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.errors import ApiError
from sluice_operator.apps.event_log import EventLog
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.kube.elector import Elector, LeaseSettings, LostError
from sluice_operator.kube.nodes import Nodes
from sluice_operator.kube.tokens import PodCaller, TokenAdmission
from sluice_operator.nodes import read_node
from sluice_operator.observed import read_app
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_operator.status import Event
from sluice_protocol.wire import to_json

pytestmark = pytest.mark.kubernetes

QUICK = {"duration": 6, "renew_deadline": 5, "retry": 0.2}


def streams_app(name: str = "flights", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": a_manifest(**spec)["spec"]}


# The CRD.


def test_defaults_are_those_of_the_types(kubernetes: KubernetesCluster, namespace: str):
    created = kubernetes.client.create(paths.apps(namespace), streams_app())

    spec = read_app(created).spec
    assert spec is not None
    assert created["spec"]["workers"] == to_json(spec.workers)
    assert created["spec"]["assignment"] == to_json(spec.assignment)
    assert spec == read_app(a_manifest()).spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"workers": {"replicas": -1}}, r"spec.workers.replicas"),
        ({"workers": {"resources": {"limits": {"cpu": "much"}}}}, r"spec.workers.resources.limits.cpu"),
        ({"assignment": {"strategy": "Best"}}, r"spec.assignment.strategy.*supported values"),
        ({"assignment": {"maxWarmupReplicas": 0}}, r"spec.assignment.maxWarmupReplicas"),
        ({"assignment": {"probingRebalanceInterval": "soon"}}, r"spec.assignment.probingRebalanceInterval"),
        ({"assignment": {"probingRebalanceInterval": "0s0ms"}}, r"spec.assignment.probingRebalanceInterval"),
        ({"pipeline": {"module": "no attribute", "image": "i"}}, r"spec.pipeline.module"),
        ({"applicationId": ".."}, r"applicationId can't be part of a topic name"),
        ({"kafka": {"bootstrapServers": "k:1", "config": {"group.id": "x"}}}, r"kafka.config may not hold"),
        (
            {"kafka": {"bootstrapServers": "k:1", "secretRef": {"name": "s", "settings": {"group.id": "x"}}}},
            r"secretRef.settings may not hold",
        ),
        (
            {
                "kafka": {
                    "bootstrapServers": "k:1",
                    "config": {"sasl.username": "x"},
                    "secretRef": {"name": "s", "settings": {"sasl.username": "x"}},
                }
            },
            r"a setting is either in kafka.config or in kafka.secretRef.settings",
        ),
        ({"kafka": {"bootstrapServers": "k:1", "config": {"ssl.key.pem": "x"}}}, r"config may hold no password"),
        (
            {"kafka": {"bootstrapServers": "k:1", "config": {"ssl.ca.location": "x"}}},
            r"config may hold no .*ssl.ca.pem",
        ),
        (
            {
                "kafka": {
                    "bootstrapServers": "k:1",
                    "secretRef": {"name": "s", "settings": {"sasl.oauthbearer.token.endpoint.url": "x"}},
                }
            },
            r"secretRef.settings may hold no .*sasl.oauthbearer",
        ),
        ({"assignment": {"balanced": {"statefulBalance": 0, "subtopologyBalance": 0}}}, r"may not both be 0"),
        ({"assignment": {"rackAware": {"tags": ["zone", "zone"]}}}, r"spec.assignment.rackAware.tags.*Duplicate"),
        ({"assignment": {"rackAware": {"strategy": "Some"}}}, r"spec.assignment.rackAware.strategy"),
        ({"rollout": "Fast"}, r"spec.rollout"),
        ({"deletionPolicy": "Sometimes"}, r"spec.deletionPolicy"),
    ],
)
def test_what_can_not_work_is_refused_by_name(
    kubernetes: KubernetesCluster, namespace: str, spec: dict[str, Any], message: str
):
    with pytest.raises(ApiError, match=message) as refused:
        kubernetes.client.create(paths.apps(namespace), streams_app(**spec))
    assert refused.value.status == 422


@pytest.mark.parametrize("name", ["a.b", "n" * 41, "1a"])
def test_a_name_that_pods_can_not_bear_is_refused(kubernetes: KubernetesCluster, namespace: str, name: str):
    with pytest.raises(ApiError, match=r"metadata\.name may have"):
        kubernetes.client.create(paths.apps(namespace), streams_app(name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"applicationId": "other"}, "applicationId is immutable"),
        ({"workers": {"stateVolume": {"size": "11Gi"}}}, "stateVolume.size and .* are immutable"),
        ({"workers": {"stateVolume": {"storageClassName": "fast"}}}, "stateVolume.size and .* are immutable"),
    ],
)
def test_what_others_depend_on_is_immutable(
    kubernetes: KubernetesCluster, namespace: str, change: dict[str, Any], message: str
):
    kubernetes.client.create(paths.apps(namespace), streams_app())

    with pytest.raises(ApiError, match=message):
        kubernetes.client.patch(paths.app((namespace, "flights")), {"spec": change})


# The Lease.


def run(cluster: KubernetesCluster, story: Callable[[Kube], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        async with Kube(lambda: admin(cluster)) as kube:
            await story(kube)

    asyncio.run(told())


def admin(cluster: KubernetesCluster) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server=cluster.url, ca_path=str(cluster.ca_file), token=cluster.client.token)


def elector(kube: Kube, namespace: str, identity: str) -> Elector:
    return Elector(kube, LeaseSettings(namespace, **QUICK), identity)  # type: ignore[arg-type]


def test_a_second_operator_waits_until_the_first_lets_go(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        first, second = elector(kube, namespace, "first"), elector(kube, namespace, "second")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.3 * QUICK["duration"]):
                await asyncio.shield(waiting)
        assert first.is_leading
        assert not second.is_leading

        keeping.cancel()
        await first.release()
        async with asyncio.timeout(5):
            await waiting
        assert not first.is_leading

    run(kubernetes, story)


def test_a_leader_that_is_silent_loses_before_the_next_one_leads(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        first, second = elector(kube, namespace, "first"), elector(kube, namespace, "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        while not waiting.done():
            assert not (first.is_leading and second.is_leading)
            await asyncio.sleep(0.02)
        assert not first.is_leading
        with pytest.raises(LostError):
            await first.keep()
        with pytest.raises(LostError):
            await first.raise_epoch()

    run(kubernetes, story)


def test_a_leader_that_sees_another_on_its_lease_is_lost_at_once(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        first = elector(kube, namespace, "first")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        spec = {"holderIdentity": "second"}
        await kube.patch(f"{paths.leases(namespace)}/sluice-operator", {"spec": spec})
        async with asyncio.timeout(QUICK["renew_deadline"] / 2):
            with pytest.raises(LostError, match="another's"):
                await keeping
        assert not first.is_leading

    run(kubernetes, story)


def test_every_leader_epoch_is_above_all_that_were_before(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        leader = elector(kube, namespace, "first")
        await leader.acquire()
        assert [await leader.raise_epoch(), await leader.raise_epoch(), await leader.raise_epoch(above=40)] == [
            1,
            2,
            41,
        ]
        await leader.release()

        again = elector(kube, namespace, "first")
        await again.acquire()
        assert await again.raise_epoch() == 42

    run(kubernetes, story)


def test_only_the_leader_raises_the_epoch(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        await elector(kube, namespace, "first").acquire()
        with pytest.raises(LostError):
            await elector(kube, namespace, "second").raise_epoch()

    run(kubernetes, story)


# Tokens.


def test_a_pods_token_names_the_pod(kubernetes: KubernetesCluster, namespace: str):
    pod = {"metadata": {"name": "flights-worker-0"}, "spec": {"containers": [{"name": "worker", "image": "shell"}]}}
    uid = kubernetes.client.create(paths.pods(namespace), pod)["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "flights-worker-0", "uid": uid}
    ours = kubernetes.service_account_token(
        namespace, "default", audiences=["sluice.dev/coordinator"], boundObjectRef=bound
    )
    others = kubernetes.service_account_token(namespace, "default", boundObjectRef=bound)
    podless = kubernetes.service_account_token(namespace, "default", audiences=["sluice.dev/coordinator"])

    async def story(kube: Kube) -> None:
        admission = TokenAdmission(kube)
        assert await admission.admit(f"Bearer {ours}") == PodCaller(namespace, "flights-worker-0", uid)
        for_the_api = await admission.admit(f"Bearer {others}")
        with pytest.raises(ProblemError, match=r"the token is not for sluice\.dev/coordinator"):
            for_the_api.check_member((namespace, "flights"), "worker-0", uid)
        for wrong in (f"Bearer {podless}", "Bearer x.y.z", "Basic abc", ""):
            with pytest.raises(ProblemError) as refused:
                await admission.admit(wrong)
            assert refused.value.status == 401

    run(kubernetes, story)


@pytest.mark.parametrize(
    ("rules", "may_read", "may_edit"),
    [
        ([], False, False),
        ([{"apiGroups": ["sluice.dev"], "resources": ["streamsapps"], "verbs": ["get"]}], False, False),
        ([{"apiGroups": ["sluice.dev"], "resources": ["streamsapps/status"], "verbs": ["get"]}], True, False),
        ([{"apiGroups": ["sluice.dev"], "resources": ["streamsapps"], "verbs": ["patch"]}], False, True),
    ],
)
def test_people_may_do_here_what_they_may_do_to_the_streams_app(
    kubernetes: KubernetesCluster, namespace: str, rules: list[dict[str, Any]], may_read: bool, may_edit: bool
):
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    kubernetes.client.create(f"{roles}/roles", {"metadata": {"name": "person"}, "rules": rules})
    kubernetes.client.create(f"{roles}/rolebindings", {
        "metadata": {"name": "person"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "person"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    })  # fmt: skip
    token = kubernetes.service_account_token(namespace, "default")

    async def story(kube: Kube) -> None:
        person = await TokenAdmission(kube).admit(f"Bearer {token}")
        assert await allows(person.check_reader((namespace, "flights"))) == may_read
        assert await allows(person.check_editor((namespace, "flights"))) == may_edit
        assert not await allows(person.check_reader(("elsewhere", "flights")))
        with pytest.raises(ProblemError, match="scale the StreamsApp"):
            person.check_commander()

    run(kubernetes, story)


async def allows(check: Coroutine[Any, Any, None]) -> bool:
    try:
        await check
    except ProblemError as refused:
        assert refused.status == 403  # noqa: PT017 - it need not be refused
        return False
    return True


# Nodes.


def test_nodes_that_may_not_be_read_are_done_without(kubernetes: KubernetesCluster, namespace: str):
    token = kubernetes.service_account_token(namespace, "default")
    rightless = replace(admin(kubernetes), token=token)

    async def told() -> None:
        async with Kube(lambda: rightless) as kube:
            nodes = Nodes(kube)
            await nodes.check()
            assert not nodes.is_readable
            assert await nodes.of(["node-a-0"]) == {}

    asyncio.run(told())


def test_a_node_is_asked_for_until_it_is_heard_of(kubernetes: KubernetesCluster, namespace: str):
    name = f"node-{namespace}"
    item = kubernetes.client.create(paths.NODES, {"metadata": {"name": name}, "spec": {"unschedulable": True}})

    async def story(kube: Kube) -> None:
        nodes = Nodes(kube)
        await nodes.check()
        known = await nodes.of([name, "nowhere", None])
        assert known == {name: read_node(item), "nowhere": None}
        assert not nodes.take(item)
        assert nodes.take({**item, "spec": {}})
        nodes.forget(name)
        assert (await nodes.of([name]))[name] == read_node(item)

    run(kubernetes, story)
    kubernetes.client.delete(paths.node(name))


# Events.


def test_what_is_said_again_is_counted_and_what_can_not_be_said_stops_nothing(
    kubernetes: KubernetesCluster, namespace: str
):
    kubernetes.client.create(paths.apps(namespace), streams_app())
    app = read_app(kubernetes.client.get(paths.app((namespace, "flights"))))

    async def story(kube: Kube) -> None:
        log = EventLog(kube)
        for message in ("first", "second", "first"):
            await log.post(app, Event("Warning", "Tried", message))
        await log.post(replace(app, namespace="nowhere"), Event("Normal", "Tried", "third"))

    run(kubernetes, story)
    said = {item["message"]: item["count"] for item in kubernetes.client.list(paths.events(namespace))}
    assert said == {"first": 2, "second": 1}


# The client.


def test_an_object_is_deleted_only_if_it_is_still_that_one(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        body = {"metadata": {"name": "one"}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        assert await kube.create(path, body)
        assert not await kube.create(path, body)
        assert not await kube.delete(f"{path}/one", uid="another")
        found = await kube.get(f"{path}/one")
        assert found is not None
        assert await kube.delete(f"{path}/one", found["metadata"]["uid"])
        assert await kube.get(f"{path}/one") is None

    run(kubernetes, story)


def test_a_write_that_comes_late_is_refused(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        await kube.create(path, {"metadata": {"name": "one"}})
        with pytest.raises(KubeError) as refused:
            await kube.patch(f"{path}/one", {"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}})
        assert refused.value.status == 409

    run(kubernetes, story)
