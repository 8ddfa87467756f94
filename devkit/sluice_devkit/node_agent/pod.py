"""The life of one pod on its node, as a kubelet leads it: start, probes, restarts, and an end in grace.

The pod's object is the only truth. What the agent did is written to its status, and an end that was asked for is
completed by deleting the object with no grace, for exactly this uid.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent import events
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.claims import Claims
from sluice_devkit.node_agent.container import ContainerProcess
from sluice_devkit.node_agent.images import Image
from sluice_devkit.node_agent.launch import (
    CannotRunError,
    Place,
    check_supported,
    command_of,
    environment_of,
    translate,
)
from sluice_devkit.node_agent.node import Node
from sluice_devkit.node_agent.objects import is_ending, now, path_of, uid_of
from sluice_devkit.node_agent.probes import ProbeSchedule, check_of
from sluice_devkit.node_agent.services import Services
from sluice_devkit.node_agent.settings import NodeSettings
from sluice_devkit.node_agent.status import ContainerFacts, pod_status, termination
from sluice_devkit.node_agent.volumes import PodDirectory, Volumes
from sluice_devkit.process_guard import ProcessGuard

_DEFAULT_GRACE_SECONDS = 30
_LAST_WORDS_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Machine:
    """What all pods share.

    `start_delay` gives the seconds that a start takes longer, `attached_elsewhere` a claim of the pod that another node
    still uses.
    """

    guard: ProcessGuard
    services: Services
    claims: Claims
    settings: NodeSettings
    image: Callable[[str], Image | None]
    start_delay: Callable[[], float]
    attached_elsewhere: Callable[[PodRunner], str | None]


class PodRunner:
    """One pod. `run` leads its life; `observe` tells it what its object has become."""

    def __init__(
        self, pod: Json, node: Node, api: Api, machine: Machine, directory: PodDirectory, address: str
    ) -> None:
        self.pod = pod
        self.node = node
        self.address = address
        self.directory = directory
        self.container: ContainerProcess | None = None
        self._api = api.behind(node.connected)
        self._machine = machine
        self._facts = ContainerFacts()
        self._is_over = asyncio.Event()
        self._is_gone = asyncio.Event()
        self._environment: dict[str, str] = {}
        self._place: Place | None = None
        self._log_start = 0
        self._gates_changed = asyncio.Event()
        if is_ending(pod):
            self._is_over.set()

    @property
    def uid(self) -> str:
        return uid_of(self.pod)

    def observe(self, pod: Json | None) -> None:
        """Take note of the object as it is now; None when it is gone."""
        if pod is None:
            self._is_gone.set()
            self._is_over.set()
            return
        if int(pod["metadata"]["resourceVersion"]) >= int(self.pod["metadata"]["resourceVersion"]):
            self.pod = pod
        if is_ending(pod):
            self._is_over.set()
        self._gates_changed.set()

    async def run(self) -> None:
        """Lead the pod's life until its object is gone or it has finished for good."""
        gates = asyncio.create_task(self._follow_gates())
        try:
            await self._live()
            await self._complete()
        except ApiError as error:
            if error.status not in (404, 409):  # gone, or another pod of that name by now
                raise
        finally:
            gates.cancel()
            if self.container is not None:
                self.container.kill()

    # --- lives

    async def _live(self) -> None:
        """One container after the other, as the restart policy wants it, until the pod's end is asked for."""
        settings = self._machine.settings
        backoff = settings.restart_backoff
        while not self._is_over.is_set():
            container = await self._start()
            if container is None:
                return
            started = asyncio.get_running_loop().time()
            status = await self._supervise(container)
            if self._is_over.is_set():
                return
            if not self._restarts_after(status):
                await self._report(self._facts.finished())
                await self._is_over.wait()
                return
            if asyncio.get_running_loop().time() - started > settings.backoff_reset:
                backoff = settings.restart_backoff
            message = f"back-off {backoff:g}s restarting failed container={self._spec['name']}"
            await self._report(self._facts.restarting().waiting("CrashLoopBackOff", message))
            await self._pause(backoff)
            backoff = min(2 * backoff, settings.longest_restart_backoff)

    def _restarts_after(self, status: int) -> bool:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and status != 0)

    async def _complete(self) -> None:
        """The end was asked for and no container runs: tell the last state, and let the object go."""
        if self._is_gone.is_set():
            return
        if self._facts.phase != "Pending":
            await self._report(self._facts.finished())
        precondition = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        await self._api.delete(path_of(self.pod), precondition)

    # --- a start

    async def _start(self) -> ContainerProcess | None:
        """Start the container as soon as all that it needs is there; None when the pod ends before."""
        await self._pause(self._machine.start_delay())
        told = ""
        while not self._is_over.is_set():
            try:
                return await self._try_to_start()
            except CannotRunError as error:
                # As a kubelet: the failure first, then the waiting for another try.
                repeated = {"ErrImagePull": "ImagePullBackOff"}.get(error.reason, error.reason)
                reason = repeated if told == str(error) else error.reason
                if told != str(error):
                    await events.record(self._api, self.pod, "Failed", str(error), is_warning=True)
                told = str(error)
                await self._report(self._facts.waiting(reason, told))
            await self._pause(self._machine.settings.retry)
        return None

    async def _try_to_start(self) -> ContainerProcess:
        check_supported(self.pod)
        image = self._machine.image(self._spec["image"])
        if image is None:
            raise CannotRunError("ErrImagePull", f"image {self._spec['image']} is not known to the node agent")
        if (claim := self._machine.attached_elsewhere(self)) is not None:
            raise CannotRunError("ContainerCreating", f"claim {claim} is still attached to another node")
        volumes = Volumes(self._api, self.directory, self.address, self._claim_directory)
        place = Place(
            self.directory.root, self.address, await volumes.mount(self.pod), self._machine.services.addresses()
        )
        links = self._machine.services.links(self.pod["metadata"]["namespace"])
        values = [("POD_IP", self.address), *await volumes.values(self.pod)]
        self._environment = environment_of(self.pod, image, values, links, place)
        self._place = place
        self._log_start = self.directory.log.stat().st_size if self.directory.log.exists() else 0
        command = command_of(self._spec, image, self._environment, place)
        try:
            container = self._run(command)
        except OSError as error:
            raise CannotRunError("RunContainerError", f"{command[0]}: {error.strerror}") from None
        self.container = container
        await self._report(self._facts.running(container.container_id, now()))
        return container

    def _run(self, command: list[str]) -> ContainerProcess:
        return ContainerProcess(
            self._machine.guard, command, self._environment, self.directory.root, self.directory.log
        )

    def _claim_directory(self, name: str) -> Path:
        return self._machine.claims.directory(self.pod["metadata"]["namespace"], name)

    # --- a run

    async def _supervise(self, container: ContainerProcess) -> int:
        """Wait for the container's end, or bring it about when the pod's end is asked for or the container is ill."""
        started_at = now()
        exited = asyncio.create_task(container.exited())
        ill = asyncio.create_task(self._probe())
        over = asyncio.create_task(self._is_over.wait())
        try:
            await asyncio.wait({exited, ill, over}, return_when=asyncio.FIRST_COMPLETED)
            await _ended(ill)
            if not exited.done():
                await self._terminate(container, exited)
            status = await exited
        finally:
            for task in (exited, ill, over):
                task.cancel()
        self.container = None
        ending = termination(status, started_at, now(), container.container_id, self._last_words(status))
        self._facts = self._facts.terminated(ending)
        return status

    def _last_words(self, status: int) -> str:
        """The end of the container's log, for those who want it in its status."""
        if status == 0 or self._spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        with self.directory.log.open("rb") as log:
            log.seek(max(self._log_start, self.directory.log.stat().st_size - _LAST_WORDS_BYTES))
            return log.read().decode(errors="replace")

    async def _terminate(self, container: ContainerProcess, exited: asyncio.Task[int]) -> None:
        """Ask it to end, and kill it when its grace is over, or at once when nobody waits for the pod any longer."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
        if is_ending(self.pod):
            grace = metadata.get("deletionGracePeriodSeconds", grace)
        container.terminate()
        gone = asyncio.create_task(self._is_gone.wait())
        await asyncio.wait({exited, gone}, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not exited.done():
            container.kill()

    # --- health

    async def _probe(self) -> None:
        """Report what the probes say; returns when the container has to be restarted."""
        if not await self._become_started():
            return
        readiness = asyncio.create_task(self._follow_readiness())
        try:
            if (liveness := self._spec.get("livenessProbe")) is not None:
                async with contextlib.aclosing(self._verdicts(liveness)) as verdicts:
                    async for is_alive in verdicts:
                        if not is_alive:
                            await self._tell_unhealthy("Liveness")
                            return
            await readiness
            await asyncio.Event().wait()  # healthy for as long as it runs
        finally:
            readiness.cancel()

    async def _become_started(self) -> bool:
        startup = self._spec.get("startupProbe")
        if startup is None:
            return True
        async with contextlib.aclosing(self._verdicts(startup)) as verdicts:
            has_started = await anext(verdicts)
        if not has_started:
            await self._tell_unhealthy("Startup")
        return has_started

    async def _follow_readiness(self) -> None:
        readiness = self._spec.get("readinessProbe")
        await self._report(self._facts.probed(is_started=True, is_ready=readiness is None))
        if readiness is None:
            return
        async with contextlib.aclosing(self._verdicts(readiness)) as verdicts:
            async for is_ready in verdicts:
                if not is_ready:
                    await self._tell_unhealthy("Readiness")
                await self._report(self._facts.probed(is_started=True, is_ready=is_ready))

    def _verdicts(self, probe: Json) -> AsyncGenerator[bool, None]:
        return ProbeSchedule.of(probe).verdicts(check_of(probe, self._spec, self.address, self._execute))

    async def _execute(self, command: list[str]) -> int:
        """Run a probe's command beside the container's own."""
        words = [translate(word, self._place) if self._place else word for word in command]
        beside = self._run(words)
        try:
            return await beside.exited()
        finally:
            beside.kill()

    async def _tell_unhealthy(self, which: str) -> None:
        await events.record(self._api, self.pod, "Unhealthy", f"{which} probe failed", is_warning=True)

    # --- telling

    async def _follow_gates(self) -> None:
        """Readiness gates are opened by others: tell readiness again when they have changed."""
        if not self.pod["spec"].get("readinessGates"):
            return
        while True:
            await self._gates_changed.wait()
            self._gates_changed.clear()
            if self._facts.phase == "Running" and not self._is_over.is_set():
                await self._report(self._facts)

    async def _report(self, facts: ContainerFacts) -> None:
        self._facts = facts
        before = self.pod.get("status", {})
        status = pod_status(self.pod, facts, self.address, now())
        if _is_told(status, before):
            return
        body = {"metadata": {"uid": self.uid}, "status": status}
        self.observe(await self._api.patch_status(path_of(self.pod), body))

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the moment when the pod's end is asked for."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_over.wait(), seconds)

    @property
    def _spec(self) -> Json:
        container: Json = self.pod["spec"]["containers"][0]
        return container

    # --- chaos

    def signal(self, number: signal.Signals) -> None:
        if self.container is not None:
            self.container.signal(number)


def _is_told(status: Json, before: Json) -> bool:
    """The API's object says it already."""
    old = {each["type"]: each["status"] for each in before.get("conditions") or []}
    is_same = all(old.get(each["type"]) == each["status"] for each in status["conditions"])
    return is_same and all(before.get(key) == status[key] for key in ("phase", "podIP", "containerStatuses"))


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel it and wait until it has really stopped; an error of its own is raised."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
