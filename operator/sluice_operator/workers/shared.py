"""What the workers of an application share: a headless Service, which gives each pod a name, and a disruption budget.

The budget allows no eviction at all: a worker that holds tasks must not be evicted, and one that holds none is deleted
by the operator, which is no eviction. So `kubectl drain` waits for exactly as long as tasks are being handed over.
"""

from __future__ import annotations

from typing import Any

from sluice_operator.names import APP_LABEL, app_labels, budget_name, service_name
from sluice_operator.observed import Part
from sluice_operator.workers.manifests import owner_reference

Json = dict[str, Any]


def part_name(part: Part, app: str) -> str:
    """What it is called."""
    return service_name(app) if part is Part.SERVICE else budget_name(app)


def part_manifest(part: Part, app: str, uid: str) -> Json:
    """The object as Kubernetes wants it."""
    metadata = {"name": part_name(part, app), "labels": app_labels(app), "ownerReferences": [owner_reference(app, uid)]}
    if part is Part.SERVICE:
        spec: Json = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {APP_LABEL: app}}
        return {"apiVersion": "v1", "kind": part.value, "metadata": metadata, "spec": spec}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {APP_LABEL: app}}}
    return {"apiVersion": "policy/v1", "kind": part.value, "metadata": metadata, "spec": spec}
