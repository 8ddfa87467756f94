"""The chart as a test sees it: rendered objects, and a release on a real API server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sluice_devkit.kubernetes.helm import Helm

CHART = Path(__file__).parents[2] / "charts" / "sluice"
RELEASE = "sluice"

_CLUSTER_SCOPED = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")


def objects(helm: Helm, namespace: str, **values: Any) -> list[dict[str, Any]]:
    """What a release consists of."""
    return [each for each in yaml.safe_load_all(helm.render(CHART, RELEASE, namespace, **values)) if each]


def collection(item: Mapping[str, Any]) -> str:
    """The path at which an object of this kind is created."""
    version, kind = item["apiVersion"], item["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    if kind in _CLUSTER_SCOPED:
        return f"{base}/{plural}"
    return f"{base}/namespaces/{item['metadata']['namespace']}/{plural}"
