"""A node that is not there: a name, a zone, and whether it hears the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.objects import HOST_LABEL, ZONE_LABEL, now
from sluice_devkit.node_agent.placement import Candidate

_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "500"}
_REASONS = {True: ("True", "KubeletReady"), False: ("Unknown", "NodeStatusUnknown")}


@dataclass
class Node:
    """`connected` is set while it hears the API server; `seen` is its object as last heard of."""

    name: str
    zone: str
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    is_ready: bool = True
    seen: Json = field(default_factory=dict)
    log_port: int | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels that it registers with."""
        return {
            HOST_LABEL: self.name,
            ZONE_LABEL: self.zone,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "process",
        }

    def as_candidate(self) -> Candidate:
        labels: Mapping[str, str] = self.seen.get("metadata", {}).get("labels", self.labels)
        is_cordoned = self.seen.get("spec", {}).get("unschedulable", False)
        return Candidate(self.name, self.zone, labels, self.is_ready and not is_cordoned)

    async def register(self, api: Api) -> None:
        await api.ensure("/api/v1/nodes", {"metadata": {"name": self.name, "labels": self.labels}})
        await self.report(api)
        self.connected.set()

    async def report(self, api: Api) -> None:
        """Write whether it is ready: its own word, or the controller manager's when nothing is heard of it."""
        status, reason = _REASONS[self.is_ready]
        condition = {"type": "Ready", "status": status, "reason": reason, "lastHeartbeatTime": now()}
        if self._reported() != status:
            condition["lastTransitionTime"] = now()
        # No host name: the API server would prefer it for logs, and no name server knows it.
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        body: Json = {
            "capacity": _CAPACITY,
            "allocatable": _CAPACITY,
            "addresses": addresses,
            "conditions": [condition],
        }
        if self.log_port is not None:
            body["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.log_port}}
        self.seen = await api.patch_status(f"/api/v1/nodes/{self.name}", {"status": body})

    def _reported(self) -> str | None:
        conditions = self.seen.get("status", {}).get("conditions") or []
        return next((each["status"] for each in conditions if each["type"] == "Ready"), None)
