"""The scheduler: takes every pod that waits, and binds it to the node that placement chooses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent import events
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.claims import Claims
from sluice_devkit.node_agent.node import Node
from sluice_devkit.node_agent.objects import is_ending, is_finished, node_of, path_of, siblings_key, uid_of
from sluice_devkit.node_agent.placement import Unschedulable, place

_NAME = "default-scheduler"


class Scheduler:
    """`pods` and `nodes` are the agent's own, as it has last heard of them."""

    def __init__(
        self, api: Api, claims: Claims, pods: Mapping[str, Json], nodes: Mapping[str, Node], retry_seconds: float
    ) -> None:
        self._api = api
        self._claims = claims
        self._pods = pods
        self._nodes = nodes
        self._retry_seconds = retry_seconds
        self._assumed: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._news = asyncio.Event()

    def look_again(self) -> None:
        """Something has changed that may let a pod be placed."""
        self._news.set()

    async def run(self) -> None:
        """Place pods for ever."""
        while True:
            for uid in self._assumed.keys() - self._pods.keys():
                del self._assumed[uid]
            for pod in self._waiting():
                await self._place(pod)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._retry_seconds)
            self._news.clear()

    def _waiting(self) -> list[Json]:
        return [pod for uid, pod in list(self._pods.items()) if _waits(pod) and uid not in self._assumed]

    async def _place(self, pod: Json) -> None:
        """Bind the pod, or tell why it can't be."""
        missing = self._claims.missing(pod)
        if missing:
            await self._tell(pod, f'persistentvolumeclaim "{missing[0]}" not found')
            return
        nodes = [node.as_candidate() for node in self._nodes.values()]
        chosen = place(pod, nodes, self._claims.reaches(pod), self._siblings(pod))
        if isinstance(chosen, Unschedulable):
            await self._tell(pod, chosen.message)
            return
        try:
            await self._claims.bind(pod, chosen)
            await self._bind(pod, chosen.name)
        except ApiError as error:
            if error.status not in (404, 409):  # gone, or bound by somebody else
                await self._tell(pod, error.message)

    async def _bind(self, pod: Json, node: str) -> None:
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._api.create(f"{path_of(pod)}/binding", binding)
        self._assumed[uid_of(pod)] = node
        self._told.pop(uid_of(pod), None)

    def _siblings(self, pod: Json) -> Iterable[str]:
        """Where the other pods of its controller are, those included that were bound a moment ago."""
        for uid, other in self._pods.items():
            node = node_of(other) or self._assumed.get(uid)
            if node is not None and not is_finished(other) and siblings_key(other) == siblings_key(pod):
                yield node

    async def _tell(self, pod: Json, message: str) -> None:
        if self._told.get(uid_of(pod)) == message:
            return
        self._told[uid_of(pod)] = message
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        with contextlib.suppress(ApiError):  # it is going
            await self._api.patch_status(path_of(pod), body)
            await events.record(self._api, pod, "FailedScheduling", message, is_warning=True)


def _waits(pod: Json) -> bool:
    spec = pod["spec"]
    is_ours = spec.get("schedulerName", _NAME) == _NAME
    return is_ours and node_of(pod) is None and not is_ending(pod) and not spec.get("schedulingGates")
