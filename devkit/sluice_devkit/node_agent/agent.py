"""The agent as others see it: nodes that can be started and stopped, and what can befall them.

It lives in a thread of its own, so that tests and scripts can be plain, blocking code; its processes hang on a guard,
and end with this process at the latest.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from sluice_devkit.kubernetes.client import Json, KubernetesClient
from sluice_devkit.kubernetes.errors import ApiError, KubernetesError
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.claims import Claims
from sluice_devkit.node_agent.images import Image, find_image
from sluice_devkit.node_agent.logs import LogServer
from sluice_devkit.node_agent.node import Node
from sluice_devkit.node_agent.objects import claims_of, is_finished, node_of, uid_of
from sluice_devkit.node_agent.pod import Machine, PodRunner
from sluice_devkit.node_agent.scheduler import Scheduler
from sluice_devkit.node_agent.services import Services
from sluice_devkit.node_agent.settings import NodeSettings
from sluice_devkit.node_agent.volumes import PodDirectory
from sluice_devkit.process_guard import ProcessGuard

START_SECONDS = 30

TWO_ZONES: Mapping[str, str] = {"node-a-0": "zone-a", "node-b-0": "zone-b"}

_DEFAULT_SETTINGS = NodeSettings()
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs at this moment, also when its pod's object is gone already."""

    pod_uid: str
    node: str
    address: str
    pid: int
    log: Path


class NodeAgent:
    """Nodes on which pods are processes of this machine. Use it as a context manager, or call start and stop.

    `nodes` leads from names to zones, `images` from references to what they would run; a pod of any other image waits
    with ErrImagePull. With a `certificate` and its key `kubectl logs` works. Every method may be called from any
    thread, and raises KubernetesError when there is no such pod or node, or when the agent itself has failed.
    """

    def __init__(
        self,
        client: KubernetesClient,
        nodes: Mapping[str, str] = TWO_ZONES,
        images: Mapping[str, Image] | None = None,
        directory: Path | None = None,
        *,
        certificate: tuple[Path, Path] | None = None,
        settings: NodeSettings = _DEFAULT_SETTINGS,
    ) -> None:
        self._client = client
        self._own_directory = directory is None
        self._directory = directory or Path(tempfile.gettempdir(), f"sluice-nodes-{uuid.uuid4().hex[:12]}")
        self._images = dict(images or {})
        self._certificate = certificate
        self._settings = settings
        self._nodes = {name: Node(name, zone) for name, zone in nodes.items()}
        self._pods: dict[str, Json] = {}
        self._runners: dict[str, PodRunner] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._missed: dict[str, Json | None] = {}
        self._addresses = _addresses()
        self._start_delay = 0.0
        self._guard: ProcessGuard | None = None
        self._thread = threading.Thread(target=self._run, name="node agent", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._serving = threading.Event()
        self._failure: BaseException | None = None

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def nodes(self) -> dict[str, str]:
        """The zones by node."""
        return {node.name: node.zone for node in self._nodes.values()}

    def start(self) -> Self:
        """Register the nodes, and wait until pods are taken."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=not self._own_directory)
        self._guard = ProcessGuard(remove=[self._directory] if self._own_directory else [])
        self._thread.start()
        try:
            self._await_serving()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill every pod's processes, and leave the objects as they are."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._guard is not None:
            self._guard.close()

    def add_image(self, reference: str, image: Image) -> None:
        """Make an image known from now on."""
        self._images[reference] = image

    def containers(self, namespace: str, pod: str) -> list[Container]:
        """What runs under the name of the pod: none, one, or more after a split brain."""
        return [
            Container(runner.uid, runner.node.name, runner.address, runner.container.pid, runner.directory.log)
            for runner in list(self._runners.values())
            if _is_named(runner.pod, namespace, pod) and runner.container is not None
        ]

    def log(self, namespace: str, pod: str) -> str:
        """What the pod of that name has said so far, over all its restarts; of the youngest, if there are several."""
        path = self._find_log(namespace, pod)
        if path is None:
            raise KubernetesError(f"There is no log of a pod {namespace}/{pod} on any node.")
        return path.read_text(errors="replace")

    # --- what can befall a pod

    def kill(self, namespace: str, pod: str) -> None:
        """Let the container die at once; its restart policy decides about the rest."""
        self._signal(namespace, pod, signal.SIGKILL)

    def pause(self, namespace: str, pod: str) -> None:
        """Let every process of the container stand still."""
        self._signal(namespace, pod, signal.SIGSTOP)

    def resume(self, namespace: str, pod: str) -> None:
        self._signal(namespace, pod, signal.SIGCONT)

    def slow_start(self, seconds: float) -> None:
        """Let every container's first start take so much longer from now on, as a big image would."""
        self._start_delay = seconds

    # --- what can befall a node

    def partition(self, node: str) -> None:
        """Cut a node off from the API server: it hears nothing and says nothing, and its processes go on.

        The node is reported as not ready, which the controller manager would do after a while.
        """
        self._await(self._cut(self._node(node)))

    def heal(self, node: str) -> None:
        """Let the node hear and speak again: it ends what shouldn't run any longer, and restarts what has died."""
        self._await(self._reconnect(self._node(node)))

    def fail_node(self, node: str) -> None:
        """Power loss: its processes die, and nobody reports it. `heal` boots it again."""
        self._await(self._cut(self._node(node)))
        for runner in list(self._runners.values()):
            if runner.node.name == node:
                runner.signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- the other thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # told to whoever calls next
            self._failure = failure
            sys.stderr.write(f"The node agent failed: {failure!r}\n")
        finally:
            self._serving.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with Api(self._client.url, self._client.ca_file, self._client.token) as api:
            self._api = api
            self._services = Services(api, self._pods.values)
            self._claims = Claims(api, self._directory / "claims", self._pods.values)
            self._scheduler = Scheduler(api, self._claims, self._pods, self._nodes, self._settings.retry)
            logs = LogServer(*self._certificate, self._find_log) if self._certificate is not None else None
            log_port = await logs.start() if logs is not None else None
            for node in self._nodes.values():
                node.log_port = log_port
                await node.register(api)
            await self._claims.install()
            duties = (
                self._claims.follow,
                self._services.follow,
                self._follow_nodes,
                self._follow_pods,
                self._scheduler.run,
                self._stopping.wait,
            )
            tasks = [asyncio.create_task(_forever(duty)) for duty in duties]
            self._serving.set()
            try:
                await _first_of(tasks)
            finally:
                await _cancel([*tasks, *self._lives.values()])
                await self._services.close()
                if logs is not None:
                    await logs.close()

    async def _follow_nodes(self) -> None:
        async for _, item in self._api.watch("/api/v1/nodes"):
            if item is not None and (node := self._nodes.get(item["metadata"]["name"])) is not None:
                node.seen = item
                self._scheduler.look_again()

    async def _follow_pods(self) -> None:
        async for uid, pod in self._api.watch("/api/v1/pods"):
            if pod is None:
                self._pods.pop(uid, None)
                await self._claims.release_unused()
            else:
                self._pods[uid] = pod
            if pod is not None and node_of(pod) is None:
                self._scheduler.look_again()
            else:
                self._deliver(uid, pod)

    def _deliver(self, uid: str, pod: Json | None) -> None:
        """Tell the pod's node about it, now or when it hears again."""
        runner = self._runners.get(uid)
        node = runner.node if runner is not None else self._nodes.get(node_of(pod) or "") if pod is not None else None
        if node is None:
            return
        if not node.connected.is_set():
            self._missed[uid] = pod
        elif runner is not None:
            runner.observe(pod)
        elif pod is not None and not is_finished(pod):
            self._adopt(pod, node)

    def _adopt(self, pod: Json, node: Node) -> None:
        if self._guard is None:
            raise KubernetesError("The node agent was not started.")
        machine = Machine(
            self._guard,
            self._services,
            self._claims,
            self._settings,
            lambda reference: find_image(self._images, reference),
            lambda: self._start_delay,
            self._attached_elsewhere,
        )
        uid = uid_of(pod)
        directory = PodDirectory(self._directory / "pods" / uid)
        runner = self._runners[uid] = PodRunner(pod, node, self._api, machine, directory, next(self._addresses))
        life = self._lives[uid] = asyncio.create_task(runner.run())
        life.add_done_callback(lambda done: self._bury(runner, done))

    def _bury(self, runner: PodRunner, life: asyncio.Task[None]) -> None:
        self._runners.pop(runner.uid, None)
        self._lives.pop(runner.uid, None)
        if life.cancelled() or (error := life.exception()) is None:
            return
        if not isinstance(error, ApiError):
            self._failure = error
            self._stopping.set()
        metadata = runner.pod["metadata"]
        sys.stderr.write(f"Pod {metadata['namespace']}/{metadata['name']} was given up: {error}\n")

    def _attached_elsewhere(self, runner: PodRunner) -> str | None:
        """A claim of the pod that a pod on another node still holds: disks go to one node at a time."""
        for other in self._runners.values():
            if other is runner or other.node is runner.node or other.container is None:
                continue
            if other.pod["metadata"]["namespace"] == runner.pod["metadata"]["namespace"]:
                shared = set(claims_of(other.pod)) & set(claims_of(runner.pod))
                if shared:
                    return min(shared)
        return None

    def _find_log(self, namespace: str, pod: str) -> Path | None:
        """The log of the youngest pod of that name that is on a node."""
        logs = [
            runner.directory.log
            for runner in list(self._runners.values())
            if _is_named(runner.pod, namespace, pod) and runner.directory.log.exists()
        ]
        return logs[-1] if logs else None

    async def _cut(self, node: Node) -> None:
        node.connected.clear()
        node.is_ready = False
        await node.report(self._api)

    async def _reconnect(self, node: Node) -> None:
        node.is_ready = True
        node.connected.set()
        await node.report(self._api)
        for uid, pod in list(self._missed.items()):
            runner = self._runners.get(uid)
            if (runner is not None and runner.node is node) or (pod is not None and node_of(pod) == node.name):
                self._deliver(uid, self._missed.pop(uid))
        self._scheduler.look_again()

    # --- between the threads

    def _await_serving(self) -> None:
        if not self._serving.wait(START_SECONDS):
            raise KubernetesError(f"The node agent could not register its nodes within {START_SECONDS} s.")
        self._check()

    def _await(self, work: Coroutine[None, None, _Result]) -> _Result:
        if self._loop is None or not self._thread.is_alive():
            work.close()
            self._check()
            raise KubernetesError("The node agent does not run.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    def _check(self) -> None:
        if self._failure is not None:
            raise KubernetesError(f"The node agent failed: {self._failure}") from self._failure

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raise KubernetesError(f"There is no node {name}; there are {', '.join(self._nodes)}.")
        return self._nodes[name]

    def _signal(self, namespace: str, pod: str, number: signal.Signals) -> None:
        self._check()
        running = [
            runner
            for runner in list(self._runners.values())
            if _is_named(runner.pod, namespace, pod) and runner.container is not None
        ]
        if not running:
            raise KubernetesError(f"No container of pod {namespace}/{pod} runs.")
        for runner in running:
            runner.signal(number)


def _is_named(pod: Json, namespace: str, name: str) -> bool:
    return bool(pod["metadata"]["namespace"] == namespace and pod["metadata"]["name"] == name)


def _addresses() -> Iterator[str]:
    """Loopback addresses, one for each pod, so that all of them may listen on the same port.

    From one of many blocks, so that two agents on one machine seldom meet.
    """
    second, third = random.randint(64, 95), 16 * random.randint(0, 15)
    while True:
        for number in range(16 * 254):
            yield f"127.{second}.{third + number // 254}.{number % 254 + 1}"


async def _forever(duty: Callable[[], Coroutine[None, None, object]]) -> None:
    await duty()


async def _first_of(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until one of them ends; an error of it is raised."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
