"""Probes of containers: when they are due, what they ask, and from how many answers a verdict follows."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import aiohttp

from sluice_devkit.kubernetes.client import Json

_IMPATIENT_SECONDS = 0.2

Check = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ProbeSchedule:
    """Durations in seconds, with the API's defaults."""

    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    successes: int = 1
    failures: int = 3

    @classmethod
    def of(cls, probe: Json) -> Self:
        return cls(
            probe.get("initialDelaySeconds", 0),
            probe.get("periodSeconds", 10),
            probe.get("timeoutSeconds", 1),
            probe.get("successThreshold", 1),
            probe.get("failureThreshold", 3),
        )

    async def verdicts(self, check: Check) -> AsyncGenerator[bool, None]:
        """Every change of the verdict, as long as it is asked for. None is given before the thresholds are reached.

        Until its first success a container is asked more often than its period says, so that a start costs no more
        than it takes; only the period's own checks count as failures.
        """
        await asyncio.sleep(self.initial_delay)
        verdict: bool | None = None
        in_a_row, due = 0, asyncio.get_running_loop().time() + self.period
        last: bool | None = None
        while True:
            now = await self._ask(check)
            is_due = asyncio.get_running_loop().time() >= due
            if now or verdict or is_due:
                in_a_row = in_a_row + 1 if now == last else 1
                last = now
                due = asyncio.get_running_loop().time() + self.period
            if last == now and in_a_row >= (self.successes if now else self.failures) and now != verdict:
                verdict = now
                yield verdict
            await asyncio.sleep(self.period if verdict else min(self.period, _IMPATIENT_SECONDS))

    async def _ask(self, check: Check) -> bool:
        try:
            async with asyncio.timeout(self.timeout):
                return await check()
        except (TimeoutError, OSError, aiohttp.ClientError):
            return False


def check_of(probe: Json, container: Json, address: str, execute: Callable[[list[str]], Awaitable[int]]) -> Check:
    """What the probe asks. `execute` runs a command in the container and gives its exit status."""
    if "exec" in probe:
        command = probe["exec"]["command"]

        async def succeeds() -> bool:
            return await execute(command) == 0

        return succeeds
    if "httpGet" in probe:
        return _http_check(probe["httpGet"], container, address)
    target = probe.get("tcpSocket") or probe["grpc"]

    async def connects() -> bool:
        port = port_of(target["port"], container)
        _, writer = await asyncio.open_connection(target.get("host", address), port)
        writer.close()
        return True

    return connects


def _http_check(wanted: Json, container: Json, address: str) -> Check:
    scheme, host = wanted.get("scheme", "HTTP").lower(), wanted.get("host", address)
    headers = {header["name"]: header["value"] for header in wanted.get("httpHeaders", [])}

    async def answers() -> bool:
        url = f"{scheme}://{host}:{port_of(wanted['port'], container)}{wanted.get('path', '/')}"
        # As a kubelet, which doesn't know whom to trust, checks no certificate.
        connector = aiohttp.TCPConnector(ssl=_unchecked())
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            return 200 <= answer.status < 400

    return answers


def port_of(port: int | str, container: Json) -> int:
    """A port by its number or by the name that the container gives it. Raises ConnectionError when it gives none."""
    if isinstance(port, int):
        return port
    for each in container.get("ports", []):
        if each.get("name") == port:
            return int(each["containerPort"])
    raise ConnectionError(f"container {container['name']} has no port named {port}")


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
