"""The nodes on which workers run: heard of by the watch, asked for when one is not known yet.

An installation that is limited to namespaces need not have the right to read nodes; it goes on without, and says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.nodes import Node, read_node

_RETRY_SECONDS = 2.0

log = logging.getLogger("sluice.operator")


class Nodes:
    """As they were last seen."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[str, Node | None] = {}
        self.is_readable = True

    async def check(self) -> None:
        """Find out whether they may be read at all; waits for an API that can't be reached."""
        while not await self._is_known():
            await asyncio.sleep(_RETRY_SECONDS)

    async def _is_known(self) -> bool:
        try:
            await self._kube.call("GET", paths.NODES, query={"limit": "1"})
        except KubeError as error:
            if error.status != 403:
                log.warning("nodes can't be read now: %s", error)
                return False
            self.is_readable = False
            log.warning("nodes may not be read, so workers on a cordoned node are not drained: %s", error)
        return True

    async def of(self, names: Iterable[str | None]) -> Mapping[str, Node | None]:
        """By name; None = there is no such node. Empty if they may not be read."""
        if not self.is_readable:
            return {}
        wanted = {name for name in names if name is not None}
        await asyncio.gather(*(self._ask(name) for name in wanted - self._known.keys()))
        return {name: self._known[name] for name in wanted}

    def take(self, item: Mapping[str, Any]) -> bool:
        """Take note of one that was seen; whether anything that matters to its workers has changed."""
        node = read_node(item)
        if self._known.get(node.name) == node:
            return False
        self._known[node.name] = node
        return True

    def forget(self, name: str) -> None:
        """It is deleted; whether it really is gone is asked when somebody needs to know."""
        self._known.pop(name, None)

    async def _ask(self, name: str) -> None:
        item = await self._kube.get(paths.node(name))
        self._known[name] = None if item is None else read_node(item)
