"""One operator acts at a time: an elector on a Lease, and the leader epoch that is kept on it.

The Python client's own elector never cancels what it has started, has no deadline on a call and trusts the wall clock
(measured: two leaders for more than 30 s). Here leadership is valid until a monotonic time that was taken *before* the
call that renewed it, each call has a deadline, each write bears the resourceVersion that was read, and another
holder has expired when its Lease has not changed for its duration on *our* clock. Between a check and an act there is
still no guarantee: every write has its own precondition, and every worker is fenced by Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Json, Kube

EPOCH_ANNOTATION = "sluice.dev/leader-epoch"
COORDINATOR_ANNOTATION = "sluice.dev/coordinator"
"""On the Lease: the base URL at which its holder coordinates, if it has one of its own."""

_QUIET_SECONDS = 0.01

log = logging.getLogger("sluice.operator")


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Times in seconds. A leader that could not renew for `renew_deadline` stops before `duration` lets others in."""

    namespace: str
    name: str = "sluice-operator"
    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry < self.renew_deadline < self.duration:
            raise ValueError(
                f"lease: retry ({self.retry:g} s) < renew deadline ({self.renew_deadline:g} s) < duration "
                f"({self.duration} s) must hold, or two operators could lead at a time"
            )


class LostError(KubeError):
    """Somebody else may lead."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NotLeader", message)


class Elector:
    """Stands for election under `identity`, and keeps the Lease while it leads."""

    def __init__(self, kube: Kube, settings: LeaseSettings, identity: str, url: str | None = None) -> None:
        """`url`: at which this very process coordinates while it leads."""
        self._kube = kube
        self._url = url
        self._settings = settings
        self._identity = identity
        self._valid_until = 0.0
        self._seen = ("", 0.0)
        self._others_url: str | None = None
        self.has_seen_lease = False
        self._writing = asyncio.Lock()

    @property
    def is_leading(self) -> bool:
        """At this moment, by our own clock."""
        return time.monotonic() < self._valid_until

    @property
    def identity(self) -> str:
        """Its name on the Lease."""
        return self._identity

    @property
    def leader_url(self) -> str | None:
        """At which another one coordinates, as the Lease said at the last look; None if nobody else is known to."""
        return self._others_url

    def check(self) -> None:
        """Raises LostError if this is not the leader at this moment. May be called in any thread."""
        if not self.is_leading:
            raise LostError(f"{self._identity} does not lead")

    async def acquire(self) -> None:
        """Return once this is the leader."""
        while not await self._try():
            await asyncio.sleep(self._settings.retry)
        log.info("%s leads", self._identity)

    async def keep(self) -> None:
        """Renew until cancelled. Raises LostError when another one has the lease, or may have it."""
        while True:
            await asyncio.sleep(min(self._settings.retry, max(0.0, self._valid_until - time.monotonic())))
            if not self.is_leading:
                raise LostError(f"{self._identity} could not renew its lease in time")
            if not await self._try() and not self.is_leading:
                raise LostError(f"the lease of {self._identity} is another's now, or was not renewed in time")

    async def release(self, is_quiet: Callable[[], bool] = lambda: True) -> None:
        """Lead no more, and let the next one in as soon as nothing of ours is on its way any more."""
        if not self.is_leading:
            return
        self._valid_until = 0.0
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._settings.retry), self._writing:
                while not is_quiet():
                    await asyncio.sleep(_QUIET_SECONDS)
                lease = await self._kube.call("GET", self._path)
                if lease["spec"].get("holderIdentity") == self._identity:
                    lease["spec"]["holderIdentity"] = ""
                    await self._kube.call("PUT", self._path, lease)

    async def raise_epoch(self, above: int = 0) -> int:
        """A leader epoch that nobody had before, and above this one. Raises KubeError, LostError, TimeoutError."""
        async with asyncio.timeout(self._settings.renew_deadline / 2), self._writing:  # the next renewal waits for it
            lease = await self._kube.call("GET", self._path)
            if lease["spec"].get("holderIdentity") != self._identity or not self.is_leading:
                raise LostError(f"{self._identity} doesn't lead any more")
            annotations = lease["metadata"].setdefault("annotations", {})
            epoch = max(int(annotations.get(EPOCH_ANNOTATION, "0")), above) + 1
            annotations[EPOCH_ANNOTATION] = str(epoch)
            await self._kube.call("PUT", self._path, lease)
            return epoch

    @property
    def _path(self) -> str:
        return f"{paths.leases(self._settings.namespace)}/{self._settings.name}"

    async def _try(self) -> bool:
        began = time.monotonic()
        patience = self._valid_until - began if self.is_leading else self._settings.renew_deadline
        try:
            async with asyncio.timeout(patience), self._writing:
                if not await self._take():
                    return False
        except (KubeError, TimeoutError) as error:
            log.warning("lease %s: %s", self._settings.name, str(error) or "timed out")
            return False
        self._valid_until = began + self._settings.renew_deadline
        return True

    async def _take(self) -> bool:
        lease = await self._read()
        spec: dict[str, Any] = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        annotations = lease["metadata"].setdefault("annotations", {})
        self._others_url = annotations.get(COORDINATOR_ANNOTATION) if holder and holder != self._identity else None
        self.has_seen_lease = True
        if holder and holder != self._identity:
            self._valid_until = 0.0
            if not self._has_expired(lease, spec):
                return False
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease["spec"] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.duration,
            "renewTime": now,
            "acquireTime": spec.get("acquireTime", now) if holder == self._identity else now,
            "leaseTransitions": spec.get("leaseTransitions", 0) + (holder != self._identity),
        }
        annotations.pop(COORDINATOR_ANNOTATION, None)
        if self._url is not None:
            annotations[COORDINATOR_ANNOTATION] = self._url
        await self._kube.call("PUT", self._path, lease)
        self._others_url = None
        return True

    async def _read(self) -> Json:
        lease = await self._kube.get(self._path)
        if lease is not None:
            return lease
        return await self._kube.call(
            "POST", paths.leases(self._settings.namespace), {"metadata": {"name": self._settings.name}}
        )

    def _has_expired(self, lease: Json, spec: Json) -> bool:
        """By our own clock, from the first sight of what is there now."""
        version, now = lease["metadata"]["resourceVersion"], time.monotonic()
        if version != self._seen[0]:
            self._seen = (version, now)
        return bool(now >= self._seen[1] + spec.get("leaseDurationSeconds", self._settings.duration))
