"""Two coordinators behind one name: a worker is sent to the one that leads, and verifies both by that name."""

from __future__ import annotations

import asyncio
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from sluice_coordinator.admission import SharedSecret
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.server import Server
from sluice_operator.certificates import Certificates, Lifetimes, issue, renew
from sluice_operator.kube.certificates import load_chain
from sluice_pipeline.worker.agent import Agent, heartbeat_path
from sluice_protocol.heartbeat import Code, HeartbeatAnswer, HeartbeatRequest
from sluice_protocol.ids import JOIN, LEAVE, Epoch
from sluice_protocol.route import NotCoordinator, Route
from sluice_protocol.wire import decode, encode

SECONDS = 20.0
APP = ("default", "flights")
NAMES = ("coordinator.sluice", "127.0.0.1")


@dataclass
class AnsweringDriver:
    """A group that answers each heartbeat at once, with the epoch of its leader."""

    leader: int
    key: tuple[str, str] = APP
    has_reached_kafka: bool = True
    heard: list[Epoch] = field(default_factory=list)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        self.heard.append(request.member_epoch)
        return HeartbeatAnswer(Code.OK, Epoch(self.leader, 1), request.sequence, heartbeat_interval_ms=100)


@dataclass
class Replica:
    """One operator's coordinator, as far as HTTP goes."""

    leader: int
    context: ssl.SSLContext
    leads: bool = False
    sends_to: str | None = None
    closes: bool = False
    """Does a connection end with its first answer?"""
    url: str = ""
    asked: int = 0
    runner: Any = field(default=None, repr=False)
    driver: AnsweringDriver = field(init=False)

    def elsewhere(self) -> NotCoordinator | None:
        self.asked += 1
        return None if self.leads else NotCoordinator(f"{self.leader} does not lead", self.sends_to)

    async def end(self, _: web.Request, response: web.StreamResponse) -> None:
        if self.closes:
            response.headers["Connection"] = "close"

    async def start(self) -> None:
        self.driver = AnsweringDriver(self.leader)
        drivers: Any = {APP: self.driver}
        server = Server(drivers, Metrics(list), SharedSecret("token"), self.elsewhere)
        application = server.application()
        application.on_response_prepare.append(self.end)
        self.runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.url = f"https://127.0.0.1:{self.runner.addresses[0][1]}"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@pytest.fixture
def certificates() -> Certificates:
    return issue(NAMES, datetime.now(UTC), Lifetimes())


@pytest.fixture
def start(loop: asyncio.AbstractEventLoop, certificates: Certificates) -> Iterator[Callable[[int], Replica]]:
    started: list[Replica] = []

    def start_one(leader: int) -> Replica:
        replica = Replica(leader, serving(certificates))
        asyncio.run_coroutine_threadsafe(replica.start(), loop).result(SECONDS)
        started.append(replica)
        return replica

    yield start_one
    for replica in started:
        asyncio.run_coroutine_threadsafe(replica.runner.cleanup(), loop).result(SECONDS)


def serving(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_chain(context, certificates)
    return context


class Worker:
    """A worker's agent that says the same again and again."""

    def __init__(self, route: Route) -> None:
        self.answers: queue.SimpleQueue[HeartbeatAnswer] = queue.SimpleQueue()
        self.refusals: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._agent = Agent(
            route, heartbeat_path(*APP), lambda: "token", lambda answer, _: self.answers.put(answer),
            self.refusals.put, lambda: None,
        )  # fmt: skip

    def ask(self) -> int:
        """The leader who has answered."""
        if not self._agent.is_alive():
            self._agent.start()
        self._agent.submit(a_request(JOIN))
        return self.answers.get(timeout=SECONDS).epoch.leader

    @property
    def is_alive(self) -> bool:
        return self._agent.is_alive()

    def leave(self) -> None:
        self._agent.leave(a_request(LEAVE), SECONDS)


def a_request(epoch: Epoch) -> HeartbeatRequest:
    return HeartbeatRequest("m", "worker-0", "p", "1", epoch, 1, "hash", capacity=1)


def test_a_worker_is_sent_to_the_leader_and_stays_with_it(start: Callable[[int], Replica], certificates: Certificates):
    follower, leader = start(1), start(2)
    follower.sends_to, leader.leads = leader.url, True
    worker = Worker(Route(follower.url, certificates.ca))

    assert [worker.ask() for _ in range(5)] == [2] * 5
    assert follower.asked == 1


def test_a_worker_asks_again_at_the_service_when_the_leader_changes(
    start: Callable[[int], Replica], certificates: Certificates
):
    service, former = start(1), start(2)
    service.sends_to, former.leads = former.url, True
    worker = Worker(Route(service.url, certificates.ca))
    assert worker.ask() == 2

    former.leads, service.leads = False, True
    former.sends_to = former.url  # what it knows is old
    assert worker.ask() == 1


def test_a_worker_asks_again_at_the_service_when_the_leader_is_gone(
    start: Callable[[int], Replica], certificates: Certificates, loop: asyncio.AbstractEventLoop
):
    service, former = start(1), start(2)
    service.sends_to, former.leads = former.url, True
    worker = Worker(Route(service.url, certificates.ca))
    assert worker.ask() == 2

    asyncio.run_coroutine_threadsafe(former.runner.cleanup(), loop).result(SECONDS)
    service.leads = True
    assert worker.ask() == 1


def test_a_connection_that_ends_with_its_answer_is_made_anew(
    start: Callable[[int], Replica], certificates: Certificates
):
    leader = start(1)
    leader.leads, leader.closes = True, True
    worker = Worker(Route(leader.url, certificates.ca))

    assert [worker.ask() for _ in range(3)] == [1] * 3
    assert worker.is_alive


def test_a_goodbye_reaches_the_leader_too(start: Callable[[int], Replica], certificates: Certificates):
    follower, leader = start(1), start(2)
    follower.sends_to, leader.leads = leader.url, True

    Worker(Route(follower.url, certificates.ca)).leave()

    assert leader.driver.heard == [LEAVE]


def test_the_name_is_verified_whatever_the_address(start: Callable[[int], Replica], certificates: Certificates):
    leader = start(1)
    leader.leads = True
    other = renew(certificates, ("elsewhere",), datetime.now(UTC), Lifetimes())
    connection = Route(f"https://coordinator.sluice:{leader.url.rpartition(':')[2]}", certificates.ca)

    assert exchange(connection, leader.url).epoch.leader == 1
    load_chain(leader.context, other)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"coordinator\.sluice"):
        exchange(connection, leader.url)


def test_an_unknown_authority_is_not_trusted(start: Callable[[int], Replica]):
    leader = start(1)
    leader.leads = True
    another = issue(NAMES, datetime.now(UTC), Lifetimes())

    with pytest.raises(ssl.SSLCertVerificationError):
        exchange(Route(leader.url, another.ca))
    with pytest.raises(ssl.SSLCertVerificationError):
        exchange(Route(leader.url))


def test_a_renewed_certificate_is_served_without_a_restart(start: Callable[[int], Replica], certificates: Certificates):
    leader = start(1)
    leader.leads = True
    route = Route(leader.url, certificates.ca)
    load_chain(leader.context, renew(certificates, NAMES, datetime.now(UTC) - timedelta(days=200), Lifetimes()))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        exchange(route)

    load_chain(leader.context, renew(certificates, NAMES, datetime.now(UTC), Lifetimes()))
    assert exchange(route).epoch.leader == 1


def exchange(route: Route, leader: str | None = None) -> HeartbeatAnswer:
    """One heartbeat and its answer."""
    connection = route.connection(SECONDS, leader)
    try:
        connection.request("POST", heartbeat_path(*APP), encode(a_request(JOIN)), {"Authorization": "Bearer token"})
        return decode(HeartbeatAnswer, connection.getresponse().read())
    finally:
        connection.close()
