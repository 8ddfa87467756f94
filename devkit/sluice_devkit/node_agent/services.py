"""Services: an address of its own for each, where connections are passed on to its Ready pods, one after the other.

The addresses come from the API server and are loopback addresses, so that anybody may listen on them, and programs of
this machine reach a Service as its pods do. There is no name server: names of Services are translated where a pod is
launched. Ports below 1024 need privileges.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.objects import is_ending, is_ready
from sluice_devkit.node_agent.probes import port_of

_CHUNK = 64 * 1024
_CONNECT_SECONDS = 5


@dataclass
class _Forwarder:
    """One Service with what listens for it."""

    service: Json
    servers: list[asyncio.Server] = field(default_factory=list)
    turn: int = 0


class Services:
    """All Services of the cluster. `pods` gives the pods that exist."""

    def __init__(self, api: Api, pods: Callable[[], Iterable[Json]]) -> None:
        self._api = api
        self._pods = pods
        self._forwarders: dict[str, _Forwarder] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def follow(self) -> None:
        """Keep up with the Services for ever."""
        async for uid, service in self._api.watch("/api/v1/services"):
            known = self._forwarders.get(uid)
            if known is not None and service is not None and known.service["spec"] == service["spec"]:
                known.service = service
                continue
            self._close(uid)
            if service is not None and service["spec"].get("clusterIP") not in (None, "", "None"):
                await self._open(uid, service)

    def addresses(self) -> dict[str, str]:
        """The addresses by `name.namespace`."""
        services = (forwarder.service for forwarder in self._forwarders.values())
        return {
            f"{service['metadata']['name']}.{service['metadata']['namespace']}": service["spec"]["clusterIP"]
            for service in services
        }

    def links(self, namespace: str) -> dict[str, str]:
        """The variables by which a pod finds the Services of its namespace, and the API server."""
        links = {}
        for forwarder in self._forwarders.values():
            metadata, spec = forwarder.service["metadata"], forwarder.service["spec"]
            if metadata["namespace"] == namespace:
                name = metadata["name"].upper().replace("-", "_")
                links[f"{name}_SERVICE_HOST"] = spec["clusterIP"]
                links[f"{name}_SERVICE_PORT"] = str(spec["ports"][0]["port"])
        host, port = self._api.address
        return {**links, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}

    async def close(self) -> None:
        for uid in list(self._forwarders):
            self._close(uid)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _open(self, uid: str, service: Json) -> None:
        forwarder = self._forwarders[uid] = _Forwarder(service)
        if not service["spec"].get("selector"):
            return
        for port in service["spec"].get("ports", []):
            if port.get("protocol", "TCP") != "TCP":
                continue
            address = service["spec"]["clusterIP"]
            try:
                server = await asyncio.start_server(self._acceptor(forwarder, port), address, port["port"])
            except OSError as error:
                name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
                sys.stderr.write(f"Service {name} can't be reached at {address}:{port['port']}: {error.strerror}\n")
            else:
                forwarder.servers.append(server)

    def _close(self, uid: str) -> None:
        forwarder = self._forwarders.pop(uid, None)
        for server in forwarder.servers if forwarder else ():
            server.close()

    def _acceptor(
        self, forwarder: _Forwarder, port: Json
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = asyncio.create_task(self._forward(forwarder, port, reader, writer))
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)

        return accept

    async def _forward(
        self, forwarder: _Forwarder, port: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass one connection on, or reset it when no pod can take it."""
        try:
            pod = self._next_pod(forwarder)
            if pod is None:
                writer.transport.abort()
                return
            target = port_of(port.get("targetPort") or port["port"], pod["spec"]["containers"][0])
            async with asyncio.timeout(_CONNECT_SECONDS):
                pod_reader, pod_writer = await asyncio.open_connection(pod["status"]["podIP"], target)
        except (OSError, TimeoutError):
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_pump(reader, pod_writer), _pump(pod_reader, writer))
        finally:
            writer.transport.abort()
            pod_writer.transport.abort()

    def _next_pod(self, forwarder: _Forwarder) -> Json | None:
        service = forwarder.service
        ready = [pod for pod in self._pods() if _takes(service, pod)]
        forwarder.turn += 1
        return ready[forwarder.turn % len(ready)] if ready else None


def _takes(service: Json, pod: Json) -> bool:
    selector: Mapping[str, str] = service["spec"]["selector"]
    labels = pod["metadata"].get("labels", {})
    is_here = pod["metadata"]["namespace"] == service["metadata"]["namespace"]
    may_take = service["spec"].get("publishNotReadyAddresses") or (is_ready(pod) and not is_ending(pod))
    return bool(is_here and may_take and selector.items() <= labels.items() and pod.get("status", {}).get("podIP"))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the source ends; then tell the other side, which may still have something to say."""
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
