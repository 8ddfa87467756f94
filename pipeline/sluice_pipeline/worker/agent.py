"""The worker's side of the heartbeat: one long poll at a time, given up as soon as there is something newer to say.

Only transport: what is said and what an answer means is decided elsewhere. An answer to a request that was given up
is dropped, wherever it was. An operator that doesn't lead says who does, and the worker goes there; when that fails it
asks at the coordinator's own URL again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from sluice_protocol import heartbeat
from sluice_protocol.heartbeat import HeartbeatAnswer, HeartbeatRequest
from sluice_protocol.launch import WorkerLaunch
from sluice_protocol.route import NOT_COORDINATOR_STATUS, Route, leader_of
from sluice_protocol.wire import MalformedMessageError, decode, encode

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0
_MARGIN_SECONDS = 5.0
_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 1.0


class CoordinatorRefusedError(Exception):
    """The coordinator will never accept what this worker sends (wrong secret, no such application)."""


class _ElsewhereError(Exception):
    """Somebody else coordinates now; None if nobody is known to."""

    def __init__(self, leader: str | None) -> None:
        super().__init__("it does not lead" + ("" if leader is None else f", {leader} does"))
        self.leader = leader


class Agent(threading.Thread):
    """Sends the newest request there is, again and again until it is answered."""

    def __init__(
        self,
        route: Route,
        path: str,
        secret: Callable[[], str],
        on_answer: Callable[[HeartbeatAnswer, int], None],
        on_refused: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """`secret` gives the one that holds now. `watch` is called before every request: it ends the process when a
        loop hangs."""
        super().__init__(name="heartbeat", daemon=True)
        self._route = route
        self._leader: str | None = None
        self._path = path
        self._secret = secret
        self._on_answer = on_answer
        self._on_refused = on_refused
        self._watch = watch
        self._changed = threading.Condition()
        self._request: HeartbeatRequest | None = None
        self._version = 0
        self._sequence = 0
        self._connection: http.client.HTTPConnection | None = None
        self._in_flight = False
        self._interval_seconds = 3.0
        self._problem = ""

    def submit(self, request: HeartbeatRequest) -> int:
        """Say this from now on; a poll in flight is given up. Returns the number that its answer will bear."""
        with self._changed:
            self._request = request
            self._version += 1
            sock = None if self._connection is None else self._connection.sock
            if self._in_flight and sock is not None:
                _hang_up(sock)
                self._connection = None  # an answer may have come just before, but nothing more will
            self._changed.notify()
            return self._version

    def leave(self, request: HeartbeatRequest, timeout: float) -> None:
        """Say goodbye once, from the caller's thread; it is a courtesy, so that a failure doesn't matter."""
        with self._changed:
            self._request, self._sequence = None, self._sequence + 1
            goodbye = dataclasses.replace(request, sequence=self._sequence)
        try:
            leader = self._say_goodbye(goodbye, timeout, self._leader)
            if leader is not None:
                self._say_goodbye(goodbye, timeout, leader)
        except (OSError, http.client.HTTPException) as error:
            log.warning("could not tell the coordinator that this worker leaves: %s", error)

    def _say_goodbye(self, goodbye: HeartbeatRequest, timeout: float, leader: str | None) -> str | None:
        """Who is to be told instead, if anybody."""
        connection = self._route.connection(timeout, leader)
        try:
            connection.request("POST", self._path, encode(goodbye), self._headers())
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        return leader_of(body) if response.status == NOT_COORDINATOR_STATUS else None

    def run(self) -> None:
        """Thread entry."""
        retry = _FIRST_RETRY_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._request is not None, self._interval_seconds)
                request, version = self._request, self._version
                self._sequence += 1
                sequence = self._sequence
            self._watch()
            if request is None:
                continue
            try:
                answer = self._post(dataclasses.replace(request, sequence=sequence), version)
            except CoordinatorRefusedError as error:
                self._on_refused(str(error))
                return
            except _ElsewhereError as error:
                retry = self._go_elsewhere(error, version, retry)
                continue
            except (OSError, http.client.HTTPException, MalformedMessageError) as error:
                retry = self._after_failure(error, version, retry)
                continue
            retry = _FIRST_RETRY_SECONDS
            self._hand_over(answer, sequence, version)

    def _post(self, request: HeartbeatRequest, version: int) -> HeartbeatAnswer:
        connection = self._connected(version)
        connection.request("POST", self._path, encode(request), self._headers())
        response = connection.getresponse()
        body = response.read()
        with self._changed:
            self._in_flight = False
        if response.status == NOT_COORDINATOR_STATUS:
            raise _ElsewhereError(leader_of(body))
        if response.status in (400, 401, 403, 404, 413):
            raise CoordinatorRefusedError(
                f"the coordinator at {self._leader or self._route.url} refused this worker "
                f"(HTTP {response.status}): {body.decode(errors='replace').strip()[:500]}"
            )
        if response.status != 200:
            raise http.client.HTTPException(f"HTTP {response.status} {body[:200].decode(errors='replace')}")
        if self._problem:
            log.warning("the coordinator is back")
            self._problem = ""
        return decode(HeartbeatAnswer, body)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._secret()}", "Content-Type": "application/json"}

    def _connected(self, version: int) -> http.client.HTTPConnection:
        connection = self._connection
        if connection is None or connection.sock is None:  # an answer may say that its connection ends with it
            connection = self._route.connection(_CONNECT_SECONDS, self._leader)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock.settimeout(self._interval_seconds + _MARGIN_SECONDS)
        with self._changed:
            self._connection = connection
            if version != self._version:
                raise ConnectionAbortedError("something newer is to be said")
            self._in_flight = True
        return connection

    def _go_elsewhere(self, error: _ElsewhereError, version: int, retry: float) -> float:
        """Straight to the leader whom the coordinator's URL has named. Any other way round could be a circle."""
        if self._leader is not None or error.leader is None:
            return self._after_failure(error, version, retry)
        log.info("the coordinator is at %s", error.leader)
        with self._changed:
            self._leader = error.leader
            self._close()
        return retry

    def _after_failure(self, error: Exception, version: int, retry: float) -> float:
        with self._changed:
            self._in_flight = False
            self._close()
            if version != self._version:
                return _FIRST_RETRY_SECONDS
            self._leader = None
        if str(error) != self._problem:
            self._problem = str(error)
            log.warning("no answer from the coordinator (%s); going on with the tasks at hand", error)
        with self._changed:
            self._changed.wait_for(lambda: version != self._version, retry)
        return min(_LAST_RETRY_SECONDS, retry * 2)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _hand_over(self, answer: HeartbeatAnswer, sequence: int, version: int) -> None:
        with self._changed:
            if answer.sequence != sequence or version != self._version:
                return
            self._request = None  # the worker says what comes next once it has read the answer
            self._interval_seconds = answer.heartbeat_interval_ms / 1000
            self._on_answer(answer, version)


def _hang_up(sock: socket.socket) -> None:
    """End the connection under whoever reads from it. TLS's own end would take the cipher away in the middle."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def secret_of(launch: WorkerLaunch, secret: str) -> Callable[[], str]:
    """Its own token, read anew each time because it is renewed; else the shared secret."""
    if launch.token_file is None:
        return lambda: secret
    file = Path(launch.token_file)
    return lambda: file.read_text().strip()


def heartbeat_path(namespace: str, name: str) -> str:
    """The path of an application's heartbeats."""
    return heartbeat.PATH.format(namespace=namespace, name=name)
