"""What the API's objects say, in the agent's words. Everything here is a pure reading of JSON."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from sluice_devkit.kubernetes.client import Json

ZONE_LABEL = "topology.kubernetes.io/zone"
HOST_LABEL = "kubernetes.io/hostname"


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid_of(item: Json) -> str:
    return str(item["metadata"]["uid"])


def path_of(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def node_of(pod: Json) -> str | None:
    return pod["spec"].get("nodeName") or None


def is_ending(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_finished(pod: Json) -> bool:
    """No container of the pod will ever run again."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def claims_of(pod: Json) -> list[str]:
    """The names of the claims that the pod mounts, in its own namespace."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", [])
        if "persistentVolumeClaim" in volume
    ]


def claim_key(item: Json, name: str) -> tuple[str, str]:
    return item["metadata"]["namespace"], name


def siblings_key(pod: Json) -> str:
    """Pods that should be spread: those of one controller, else those of one namespace."""
    owners: Iterable[Json] = pod["metadata"].get("ownerReferences", [])
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), str(pod["metadata"]["namespace"]))
