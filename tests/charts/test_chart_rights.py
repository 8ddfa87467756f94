"""What the operator's service account may do: exactly what is written here, by asking the API server about everything.

Every verb on every resource that the server knows, in a namespace that is watched, in one that isn't, in the release's
own, and without a namespace.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import kopf
import pytest
from chart_release import RELEASE, collection, objects

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.helm import Helm
from sluice_operator.kube.client import Kube

pytestmark = pytest.mark.kubernetes

VERBS = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
    "impersonate", "bind", "escalate", "use", "approve", "sign", "attest",
)  # fmt: skip
AT_ONCE = 16
NOT_SERVED = (("", "users"), ("", "groups"), ("authentication.k8s.io", "userextras"), ("", "nodes/proxy"))
"""Rights on what is no object: impersonation."""

EVERYBODY = {
    "authentication.k8s.io/selfsubjectreviews": "create",
    "authorization.k8s.io/selfsubjectaccessreviews": "create",
    "authorization.k8s.io/selfsubjectrulesreviews": "create",
}
"""What every account may ask about itself."""

REVIEWS = {
    "authorization.k8s.io/subjectaccessreviews": "create",
    "authentication.k8s.io/tokenreviews": "create",
}

APPS = {
    "sluice.dev/streamsapps": "get list watch patch",
    "sluice.dev/streamsapps/status": "patch",
    "sluice.dev/streamsapps/finalizers": "update",
    "/pods": "list watch create delete",
    "/persistentvolumeclaims": "list watch create delete",
    "/services": "get create delete",
    "policy/poddisruptionbudgets": "get create delete",
    "/secrets": "get",
    "/events": "get create patch",
}

CLUSTER = {
    "/nodes": "get list watch",
}
"""Only where the whole cluster is watched."""

LEADERSHIP = {
    "coordination.k8s.io/leases": "create",
    "/secrets": "create",
}
NAMED = {
    ("coordination.k8s.io", "leases", "sluice-operator"): "get update",
    ("", "secrets", f"{RELEASE}-coordinator-tls"): "get update",
}
"""Objects of the release's namespace on which more is allowed than on others of their kind."""

Right = tuple[str, str, str]
"""Group, resource (with its subresource), verb."""


@dataclass(frozen=True)
class Release:
    """A release and its account."""

    kubernetes: KubernetesCluster
    namespace: str
    watched: str
    elsewhere: str

    def allowed(self, namespace: str, name: str = "") -> set[Right]:
        """Every right of the account, asked one by one; an empty namespace is the cluster."""
        questions = [(group, resource, verb) for (group, resource), verb in itertools.product(self._resources(), VERBS)]
        answers = asyncio.run(self._ask(questions, namespace, name))
        return {question for question, is_allowed in zip(questions, answers, strict=True) if is_allowed}

    def _resources(self) -> Iterator[tuple[str, str]]:
        client = self.kubernetes.client
        versions = [("", "/api/v1")]
        for group in client.get("/apis")["groups"]:
            versions += [(group["name"], f"/apis/{each['groupVersion']}") for each in group["versions"]]
        served = {(group, each["name"]) for group, path in versions for each in client.get(path)["resources"]}
        return iter(sorted({*served, *NOT_SERVED, *(right_of(name) for name in APPS)}))

    async def _ask(self, questions: list[Right], namespace: str, name: str) -> list[bool]:
        token = self.kubernetes.service_account_token(self.namespace, RELEASE)
        info = kopf.ConnectionInfo(server=self.kubernetes.url, ca_path=str(self.kubernetes.ca_file), token=token)
        turns = asyncio.Semaphore(AT_ONCE)
        async with Kube(lambda: info) as kube:
            return await asyncio.gather(*(may(kube, turns, question, namespace, name) for question in questions))


async def may(kube: Kube, turns: asyncio.Semaphore, right: Right, namespace: str, name: str) -> bool:
    group, resource, verb = right
    resource, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb,
                  "namespace": namespace, "name": name}  # fmt: skip
    body = {"spec": {"resourceAttributes": attributes}}
    async with turns:
        review = await kube.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(review["status"]["allowed"])


def rights(*tables: dict[str, str]) -> set[Right]:
    return {(*right_of(name), verb) for table in tables for name, verbs in table.items() for verb in verbs.split()}


def right_of(name: str) -> tuple[str, str]:
    group, _, resource = name.partition("/")
    return group, resource


@pytest.fixture(scope="module", params=["cluster", "namespaces"])
def release(request: pytest.FixtureRequest, kubernetes: KubernetesCluster, helm: Helm) -> Iterator[Release]:
    suffix = uuid.uuid4().hex[:8]
    own, watched, elsewhere = (kubernetes.namespace(f"{name}-{suffix}") for name in ("system", "watched", "elsewhere"))
    values: dict[str, Any] = {"watchNamespaces": [watched]} if request.param == "namespaces" else {}
    rendered = [
        item
        for item in objects(helm, own, crds={"install": False}, **values)
        if item["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ]
    for item in rendered:
        kubernetes.client.create(collection(item), item)
    yield Release(kubernetes, own, watched, elsewhere)
    for item in rendered:
        kubernetes.client.delete(f"{collection(item)}/{item['metadata']['name']}")
    for name in (own, watched, elsewhere):
        kubernetes.client.delete(f"/api/v1/namespaces/{name}")


def is_namespaced(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.callspec.params["release"] == "namespaces")


def of_cluster(request: pytest.FixtureRequest) -> set[Right]:
    return set() if is_namespaced(request) else rights(CLUSTER)


def test_where_applications_are_watched_it_may_keep_their_workers_and_nothing_else(
    release: Release, request: pytest.FixtureRequest
):
    assert release.allowed(release.watched) == rights(EVERYBODY, REVIEWS, APPS) | of_cluster(request)


def test_elsewhere_it_may_nothing_that_its_release_does_not_say(release: Release, request: pytest.FixtureRequest):
    expected = rights(EVERYBODY, REVIEWS) if is_namespaced(request) else rights(EVERYBODY, REVIEWS, APPS, CLUSTER)

    assert release.allowed(release.elsewhere) == expected
    assert release.allowed("") == expected


def test_in_its_own_namespace_it_may_keep_its_lease_too(release: Release, request: pytest.FixtureRequest):
    expected = rights(EVERYBODY, REVIEWS, LEADERSHIP) | (set() if is_namespaced(request) else rights(APPS, CLUSTER))

    assert release.allowed(release.namespace) == expected
    for (group, resource, name), verbs in NAMED.items():
        more = {(group, resource, verb) for verb in verbs.split()}
        assert release.allowed(release.namespace, name) == expected | more
        assert not release.allowed(release.watched, name) & (more - rights(APPS))
