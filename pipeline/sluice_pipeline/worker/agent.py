"""The worker's side of the heartbeat: one long poll at a time, given up as soon as there is something newer to say.

Only transport: what is said and what an answer means is decided elsewhere. An answer to a request that was given up
is dropped, wherever it was.
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
from urllib.parse import urlsplit

from sluice_protocol import heartbeat
from sluice_protocol.heartbeat import HeartbeatAnswer, HeartbeatRequest
from sluice_protocol.launch import WorkerLaunch
from sluice_protocol.wire import MalformedMessageError, decode, encode

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0
_MARGIN_SECONDS = 5.0
_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 1.0


class CoordinatorRefusedError(Exception):
    """The coordinator will never accept what this worker sends (wrong secret, no such application)."""


class Agent(threading.Thread):
    """Sends the newest request there is, again and again until it is answered."""

    def __init__(
        self,
        url: str,
        path: str,
        secret: Callable[[], str],
        on_answer: Callable[[HeartbeatAnswer, int], None],
        on_refused: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """`secret` gives the one that holds now. `watch` is called before every request: it ends the process when a
        loop hangs."""
        super().__init__(name="heartbeat", daemon=True)
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
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
            if self._in_flight and self._connection is not None and self._connection.sock is not None:
                with contextlib.suppress(OSError):
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
                self._connection = None  # an answer may have come just before, but nothing more will
            self._changed.notify()
            return self._version

    def leave(self, request: HeartbeatRequest, timeout: float) -> None:
        """Say goodbye once, from the caller's thread; it is a courtesy, so that a failure doesn't matter."""
        with self._changed:
            self._request, self._sequence = None, self._sequence + 1
            goodbye = dataclasses.replace(request, sequence=self._sequence)
        connection = http.client.HTTPConnection(*self._address, timeout=timeout)
        try:
            connection.request("POST", self._path, encode(goodbye), self._headers())
            connection.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            log.warning("could not tell the coordinator that this worker leaves: %s", error)
        finally:
            connection.close()

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
        if response.status in (400, 401, 403, 404, 413):
            raise CoordinatorRefusedError(
                f"the coordinator at {self._address[0]}:{self._address[1]} refused this worker "
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
        if connection is None:
            connection = http.client.HTTPConnection(*self._address, timeout=_CONNECT_SECONDS)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock.settimeout(self._interval_seconds + _MARGIN_SECONDS)
        with self._changed:
            self._connection = connection
            if version != self._version:
                raise ConnectionAbortedError("something newer is to be said")
            self._in_flight = True
        return connection

    def _after_failure(self, error: Exception, version: int, retry: float) -> float:
        with self._changed:
            self._in_flight = False
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if version != self._version:
                return _FIRST_RETRY_SECONDS
        if str(error) != self._problem:
            self._problem = str(error)
            log.warning("no answer from the coordinator (%s); going on with the tasks at hand", error)
        with self._changed:
            self._changed.wait_for(lambda: version != self._version, retry)
        return min(_LAST_RETRY_SECONDS, retry * 2)

    def _hand_over(self, answer: HeartbeatAnswer, sequence: int, version: int) -> None:
        with self._changed:
            if answer.sequence != sequence or version != self._version:
                return
            self._request = None  # the worker says what comes next once it has read the answer
            self._interval_seconds = answer.heartbeat_interval_ms / 1000
            self._on_answer(answer, version)


def secret_of(launch: WorkerLaunch, secret: str) -> Callable[[], str]:
    """Its own token, read anew each time because it is renewed; else the shared secret."""
    if launch.token_file is None:
        return lambda: secret
    file = Path(launch.token_file)
    return lambda: file.read_text().strip()


def heartbeat_path(namespace: str, name: str) -> str:
    """The path of an application's heartbeats."""
    return heartbeat.PATH.format(namespace=namespace, name=name)
