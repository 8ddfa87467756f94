"""Every field of the CRD with whatever its schema takes, and with what it doesn't: on a real API server.

The fields and their limits are read from crds/, so that a new field is tried without anybody thinking of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operator_builders import COORDINATOR, a_manifest

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.errors import ApiError
from sluice_operator.kube import paths
from sluice_operator.observed import read_app
from sluice_operator.spec.model import API_VERSION, KIND
from sluice_operator.workers.manifests import pod_manifest

pytestmark = pytest.mark.kubernetes

CRD = yaml.safe_load((Path(__file__).parents[2] / "crds" / "streamsapps.yaml").read_text())
SPEC = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
BIG = 2**62

Path_ = tuple[str, ...]


def fields(schema: dict[str, Any], path: Path_ = ()) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """Every field with its schema, objects too."""
    for name, part in schema.get("properties", {}).items():
        yield (*path, name), part
        yield from fields(part, (*path, name))


FIELDS = dict(fields(SPEC))


def taken(schema: dict[str, Any]) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one case a kind
    """What the schema says that it takes."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, BIG) | st.from_regex(schema["pattern"], fullmatch=True)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return st.dictionaries(
            st.sampled_from(["containers", "volumes", "nodeSelector", "surprise"]), anything, max_size=3
        )
    match schema["type"]:
        case "integer":
            return st.integers(schema.get("minimum", -BIG), schema.get("maximum", BIG))
        case "boolean":
            return st.booleans()
        case "string":
            return texts(schema)
        case "array":
            return st.lists(taken(schema["items"]), max_size=schema.get("maxItems", 5), unique=True)
    if "additionalProperties" in schema:
        values = taken(schema["additionalProperties"])
        least = schema.get("minProperties", 0)
        return st.dictionaries(st.text("abc.-", min_size=1, max_size=9), values, min_size=least, max_size=4)
    required = schema.get("required", ())
    parts = {name: taken(part) for name, part in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: part for name, part in parts.items() if name in required},
        optional={name: part for name, part in parts.items() if name not in required},
    )


def texts(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    longest = min(schema.get("maxLength", 40), 40)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: len(text) <= longest)
    return st.text(min_size=schema.get("minLength", 0), max_size=longest)


anything: st.SearchStrategy[Any] = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def with_field(path: Path_, value: Any) -> dict[str, Any]:
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"generateName": "fuzz-"}, **a_manifest()}
    body["metadata"] = {"generateName": "fuzz-"}
    place = body["spec"]
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value
    return body


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_the_server_or_the_operator_says_what_is_wrong_with_a_field(
    kubernetes: KubernetesCluster, namespace: str, path: Path_
):
    @settings(max_examples=12, database=None, suppress_health_check=list(HealthCheck))
    @given(taken(FIELDS[path]) | anything)
    def holds(value: Any) -> None:
        try:
            accepted = kubernetes.client.call("POST", f"{paths.apps(namespace)}?dryRun=All", with_field(path, value))
        except ApiError as refused:
            assert refused.status == 422, refused.message  # noqa: PT017 - it need not be refused
            assert path[0] in refused.message  # noqa: PT017
            return
        accepted["metadata"]["resourceVersion"] = "1"  # a dry run has none
        app = read_app(accepted)
        if app.problem is None:
            assert app.spec is not None
            pod_manifest("fuzz", namespace, "uid", 0, app.spec, COORDINATOR)
        else:
            assert path[0] in app.problem.message

    holds()
