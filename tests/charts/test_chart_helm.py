"""The chart through Helm's own eyes, and installed, upgraded and uninstalled on a real API server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart_release import CHART, RELEASE, collection, objects

from sluice_devkit.kubernetes.client import KubernetesClient
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.helm import Helm, HelmError
from sluice_operator.spec.crd import crd
from sluice_operator.spec.model import API_VERSION, KIND

pytestmark = pytest.mark.kubernetes

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/streamsapps.sluice.dev"

WHOLE_CLUSTER: dict[str, Any] = {}
NAMESPACED = {"watchNamespaces": ["shop", "bank"]}
EVERYTHING = {
    "watchNamespaces": ["shop"],
    "image": {"repository": "registry.example.com/sluice", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": ["registry"],
    "replicas": 2,
    "serviceAccount": {"name": "streams", "annotations": {"example.com/role": "streams"}},
    "service": {"port": 9000, "annotations": {"example.com/scrape": "true"}},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
    "resources": {"limits": {"cpu": "2", "memory": "2Gi"}},
    "env": [{"name": "HTTPS_PROXY", "value": ""}],
    "podAnnotations": {"example.com/team": "data"},
    "podLabels": {"team": "data"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
}
MODES = pytest.mark.parametrize("values", [WHOLE_CLUSTER, NAMESPACED, EVERYTHING], ids=["cluster", "namespaces", "all"])


@pytest.fixture(scope="module")
def bare() -> Iterator[KubernetesCluster]:
    """A cluster without our CRD; whoever installs it here changes it for nobody else."""
    with KubernetesCluster(controllers=()) as cluster:
        for name in ("system", "shop", "bank"):
            cluster.namespace(name)
        yield cluster


@MODES
def test_the_chart_is_sound(helm: Helm, values: dict[str, Any]):
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.lint(CHART, **values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"watchNamespace": "shop"}, "additional properties 'watchNamespace' not allowed"),
        ({"watchNamespaces": ["Shop"]}, "at '/watchNamespaces/0'"),
        ({"replicas": 0}, "at '/replicas'"),
        ({"lease": {"duration": "soon"}}, "at '/lease/duration'"),
        ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy'"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name: name the account"),
    ],
)
def test_a_value_that_can_not_be_is_named(helm: Helm, values: dict[str, Any], said: str):
    with pytest.raises(HelmError, match=said):
        helm.render(CHART, RELEASE, "system", **values)


@MODES
def test_the_server_takes_every_object_as_it_is(helm: Helm, bare: KubernetesCluster, values: dict[str, Any]):
    rendered = objects(helm, "system", **values)

    for item in rendered:
        bare.client.create(f"{collection(item)}?dryRun=All&fieldValidation=Strict", item)
    kinds = {item["kind"] for item in rendered}
    assert {"CustomResourceDefinition", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"} <= kinds


def test_pods_pass_the_restricted_standard(helm: Helm, bare: KubernetesCluster):
    bare.client.patch(
        "/api/v1/namespaces/bank", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    (deployment,) = (item for item in objects(helm, "bank") if item["kind"] == "Deployment")
    pod = {"metadata": {"name": "operator"}, "spec": deployment["spec"]["template"]["spec"]}
    pod["spec"].pop("serviceAccountName")

    bare.client.create("/api/v1/namespaces/bank/pods?dryRun=All", pod)


def test_the_charts_crd_is_the_generated_one(helm: Helm):
    (rendered,) = (item for item in objects(helm, "system") if item["kind"] == "CustomResourceDefinition")

    assert rendered["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert rendered["spec"] == crd()["spec"]


def test_the_crd_may_be_somebody_elses(helm: Helm):
    kinds = {item["kind"] for item in objects(helm, "system", crds={"install": False})}

    assert "CustomResourceDefinition" not in kinds


def test_an_upgrade_brings_the_new_crd_and_the_end_of_the_release_leaves_it_with_its_applications(
    helm: Helm, bare: KubernetesCluster, tmp_path: Path
):
    kubeconfig, client = bare.kubeconfig, bare.client
    notes = helm.install(kubeconfig, an_older_chart(tmp_path), RELEASE, "system")
    assert "looks after every StreamsApp of the cluster" in notes
    wait_until_served(client)
    created = client.create(f"/apis/{API_VERSION}/namespaces/shop/streamsapps", a_streams_app())["metadata"]["uid"]
    assert "paused" not in spec_properties(client)

    helm.install(kubeconfig, CHART, RELEASE, "system", **NAMESPACED)
    assert "paused" in spec_properties(client)
    assert not client.exists("/apis/rbac.authorization.k8s.io/v1/namespaces/system/roles/system-sluice")
    assert client.exists("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles/system-sluice")

    helm.uninstall(kubeconfig, RELEASE, "system")
    assert not client.exists("/apis/apps/v1/namespaces/system/deployments/sluice")
    assert client.get(f"/apis/{API_VERSION}/namespaces/shop/streamsapps/flights")["metadata"]["uid"] == created


def an_older_chart(directory: Path) -> Path:
    """The chart of a version in which a StreamsApp could not be paused."""
    chart = directory / "sluice"
    shutil.copytree(CHART, chart)
    older = crd()
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["paused"]
    (chart / "files" / "streamsapps.yaml").write_text(yaml.safe_dump(older))
    return chart


def a_streams_app() -> dict[str, Any]:
    spec = {
        "applicationId": "flights",
        "kafka": {"bootstrapServers": "kafka:9092"},
        "pipeline": {"module": "flights:topology", "image": "flights:1"},
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flights"}, "spec": spec}


def wait_until_served(client: KubernetesClient) -> None:
    client.wait_for("StreamsApps are served", lambda: client.exists(f"/apis/{API_VERSION}/streamsapps"))


def spec_properties(client: KubernetesClient) -> dict[str, Any]:
    schema = client.get(CRD_PATH)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return dict(schema["properties"]["spec"]["properties"])
