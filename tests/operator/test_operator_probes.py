"""Probes: a loop that stands still is named, however stuck it is, and metrics that are not there are no hang."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from sluice_operator.kube.calls import kind_of
from sluice_operator.probes import Probes
from sluice_operator.pulse import Pulse

PATIENCE = 2.0
Seen = TypeVar("Seen")


@contextmanager
def serving(
    health: Callable[[], list[str]] = list,
    readiness: Callable[[], list[str]] = list,
    metrics: Callable[[], bytes] = bytes,
) -> Iterator[Callable[[str], tuple[int, str]]]:
    """GET of a path, while probes are served."""
    probes = Probes("127.0.0.1", 0, health, readiness, metrics)

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{probes.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    yield get
    probes.close()


@contextmanager
def beating(pulse: Pulse, name: str) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own that shows its signs of life."""
    loops: queue.SimpleQueue[asyncio.AbstractEventLoop] = queue.SimpleQueue()
    ended = asyncio.Event()

    async def run() -> None:
        task = asyncio.create_task(pulse.beat(name))
        loops.put(asyncio.get_running_loop())
        await ended.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    loop = loops.get(timeout=10)
    yield loop
    loop.call_soon_threadsafe(ended.set)
    thread.join()


def test_a_loop_that_is_blocked_is_named_and_is_well_again_afterwards():
    pulse = Pulse(PATIENCE)
    with serving(health=pulse.problems) as get, beating(pulse, "elector"), beating(pulse, "coordinator") as loop:
        assert get("/healthz") == (200, "alive\n")

        loop.call_soon_threadsafe(time.sleep, 3 * PATIENCE)
        seen = wait_for(lambda: get("/healthz"), lambda answer: answer[0] == 503)
        assert "the event loop 'coordinator' has stood still for" in seen[1]
        assert "elector" not in seen[1]
        wait_for(lambda: get("/healthz"), lambda answer: answer[0] == 200)


def test_a_loop_that_has_ended_is_not_stuck():
    pulse = Pulse(patience=0.0)
    with beating(pulse, "kopf"):
        wait_for(pulse.problems, lambda problems: len(problems) == 1)

    wait_for(pulse.problems, lambda problems: problems == [])


def test_whoever_is_not_ready_says_what_is_missing():
    with serving(readiness=lambda: ["one thing", "another"]) as get:
        assert get("/readyz") == (503, "one thing\nanother\n")
        assert get("/healthz")[0] == 200


def test_metrics_that_can_not_be_had_now_are_no_hang():
    def late() -> bytes:
        raise TimeoutError

    with serving(metrics=late) as get:
        assert get("/metrics") == (503, "not now: timed out\n")
    with serving(metrics=lambda: b"up 1\n") as get:
        assert get("/metrics") == (200, "up 1\n")
        assert get("/elsewhere")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/api/v1/namespaces/ns/pods?labelSelector=a", ("list", "pods")),
        ("GET", "/api/v1/pods?watch=true", ("watch", "pods")),
        ("GET", "/api/v1/namespaces/ns", ("get", "namespaces")),
        ("GET", "/api/v1/namespaces/ns/pods/flights-worker-0", ("get", "pods")),
        ("POST", "/api/v1/namespaces/ns/pods/flights-worker-0/eviction", ("create", "pods/eviction")),
        ("PATCH", "/apis/sluice.dev/v1alpha1/namespaces/ns/streamsapps/a/status", ("patch", "streamsapps/status")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", ("update", "leases")),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", ("create", "tokenreviews")),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", ("delete", "pods")),
        ("GET", "/version", ("list", "other")),
    ],
)
def test_a_request_is_counted_in_the_words_of_rbac(method: str, path: str, kind: tuple[str, str]):
    assert kind_of(method, f"https://127.0.0.1:6443{path}") == kind


def wait_for(look: Callable[[], Seen], holds: Callable[[Seen], bool], seconds: float = 20.0) -> Seen:
    deadline = time.monotonic() + seconds
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen
