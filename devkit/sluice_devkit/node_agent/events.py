"""What `kubectl describe pod` tells below the pod: events of scheduler and kubelet."""

from __future__ import annotations

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.objects import now


async def record(api: Api, pod: Json, reason: str, message: str, *, is_warning: bool = False) -> None:
    """Write an event about a pod; without effect when its namespace is going."""
    metadata = pod["metadata"]
    event = {
        "metadata": {"generateName": f"{metadata['name']}."},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Warning" if is_warning else "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": "sluice-node-agent"},
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "count": 1,
    }
    try:
        await api.create(f"/api/v1/namespaces/{metadata['namespace']}/events", event)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
