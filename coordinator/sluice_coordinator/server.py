"""The coordinator over HTTP: the workers' long poll, the read API, commands, metrics and health.

Requests are limited in size, number and time; whoever sends one proves to the admission that it may.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from sluice_coordinator.admission import Admission, Caller, ProblemError
from sluice_coordinator.driver import Driver, Drivers, NoAnswerError
from sluice_coordinator.group import events
from sluice_coordinator.metrics import Metrics
from sluice_protocol import heartbeat, view
from sluice_protocol.heartbeat import HeartbeatRequest
from sluice_protocol.ids import worker_slot
from sluice_protocol.route import NOT_COORDINATOR_STATUS, NotCoordinator
from sluice_protocol.wire import MalformedMessageError, decode, encode

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_REQUESTS = 2_048
_BODY_SECONDS = 10.0
_PROBE_PATHS = ("/healthz", "/readyz", "/metrics")
_CALLER = web.RequestKey("caller", Caller)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Elsewhere = Callable[[], NotCoordinator | None]
"""None while this process coordinates; else what whoever asks is told."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The body of a POST to GONE_PATH."""

    incarnation: str


class _ElsewhereError(Exception):
    """This process does not coordinate."""

    def __init__(self, said: NotCoordinator) -> None:
        super().__init__(said.message)
        self.said = said


class Server:
    """The HTTP application over the drivers of all groups here, by (namespace, name)."""

    def __init__(
        self, drivers: Drivers, metrics: Metrics, admission: Admission, elsewhere: Elsewhere | None = None
    ) -> None:
        """Without `elsewhere` this process always coordinates, and these are all the groups that will ever be here:
        it is ready when each has reached Kafka. Else one that is not known yet may come, so that whoever asks for it
        should ask again, and probes and metrics are served by whoever runs this."""
        self._elsewhere = elsewhere or (lambda: None)
        self._has_all = elsewhere is None
        self._drivers = drivers
        self._metrics = metrics
        self._admission = admission
        self._running = 0

    def application(self) -> web.Application:
        """All routes."""
        application = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY_BYTES)
        application.add_routes(
            [
                web.post(heartbeat.PATH, self._heartbeat),
                web.get(view.PATH, self._view),
                web.put(view.DRAIN_PATH, self._drain),
                web.delete(view.DRAIN_PATH, self._undrain),
                web.post(view.GONE_PATH, self._gone),
                web.post(view.RESUME_PATH, self._resume),
            ]
        )
        if self._has_all:
            probes = (self._is_alive, self._is_ready, self._show_metrics)
            application.add_routes(web.get(path, probe) for path, probe in zip(_PROBE_PATHS, probes, strict=True))
        return application

    # Requests.

    async def _heartbeat(self, request: web.Request) -> web.Response:
        driver = self._driver(request)
        message = decode(HeartbeatRequest, await _body(request))
        _caller(request).check_member(driver.key, message.worker, message.incarnation)
        try:
            answer = await driver.heartbeat(message)
        except NoAnswerError as error:
            raise ProblemError(503, str(error)) from None
        self._check_coordinates()  # the poll was long
        return _json(encode(answer))

    async def _view(self, request: web.Request) -> web.Response:
        driver = self._driver(request)
        await _caller(request).check_reader(driver.key)
        return _json(encode(driver.view()))

    async def _drain(self, request: web.Request) -> web.Response:
        _caller(request).check_commander()
        self._driver(request).tell(events.DrainRequested(_worker(request)))
        return web.Response(status=204)

    async def _undrain(self, request: web.Request) -> web.Response:
        _caller(request).check_commander()
        self._driver(request).tell(events.DrainCancelled(_worker(request)))
        return web.Response(status=204)

    async def _gone(self, request: web.Request) -> web.Response:
        _caller(request).check_commander()
        driver, worker = self._driver(request), _worker(request)
        gone = decode(Gone, await _body(request))
        driver.tell(events.MemberGone(worker, gone.incarnation))
        return web.Response(status=204)

    async def _resume(self, request: web.Request) -> web.Response:
        driver = self._driver(request)
        await _caller(request).check_editor(driver.key)
        driver.tell(events.ResumeRequested())
        return web.Response(status=204)

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), content_type="text/plain", charset="utf-8")

    async def _is_alive(self, _: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _is_ready(self, _: web.Request) -> web.Response:
        waiting = [driver for driver in self._drivers.values() if not driver.has_reached_kafka]
        if not waiting:
            return web.Response(text="ready\n")
        sentences = [status.message for driver in waiting for status in driver.view().statuses]
        raise ProblemError(503, "; ".join(sentences) or "Kafka has not been reached yet")

    # Around every request.

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Admit, limit, and turn every mistake into a status with a sentence."""
        self._running += 1
        try:
            await self._admit(request)
            return await handler(request)
        except _ElsewhereError as error:
            return web.Response(status=NOT_COORDINATOR_STATUS, body=encode(error.said), content_type="application/json")
        except ProblemError as error:
            return self._refuse(error.status, str(error))
        except MalformedMessageError as error:
            return self._refuse(400, str(error))
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"the request is larger than {MAX_BODY_BYTES} bytes")
        except web.HTTPException as error:
            return self._refuse(error.status, f"{request.method} {request.path}: {error.reason}")
        finally:
            self._running -= 1

    async def _admit(self, request: web.Request) -> None:
        if request.path in _PROBE_PATHS:
            return
        self._check_coordinates()
        if self._running > MAX_REQUESTS:
            raise ProblemError(503, f"more than {MAX_REQUESTS} requests are open; try again")
        request[_CALLER] = await self._admission.admit(request.headers.get("Authorization", ""))

    def _check_coordinates(self) -> None:
        said = self._elsewhere()
        if said is not None:
            raise _ElsewhereError(said)

    def _refuse(self, status: int, message: str) -> web.Response:
        self._metrics.request_errors.labels(str(status)).inc()
        return web.Response(status=status, text=json.dumps({"message": message}), content_type="application/json")

    def _driver(self, request: web.Request) -> Driver:
        key = (request.match_info["namespace"], request.match_info["name"])
        driver = self._drivers.get(key)
        if driver is None and not self._has_all:
            raise ProblemError(503, f"application {'/'.join(key)} is not known here yet")
        if driver is None:
            known = ", ".join("/".join(each) for each in self._drivers)
            raise ProblemError(
                404, f"application {'/'.join(key)} is not known here; this is the coordinator of {known}"
            )
        return driver


def _caller(request: web.Request) -> Caller:
    return request[_CALLER]


def _worker(request: web.Request) -> str:
    worker = request.match_info["worker"]
    try:
        worker_slot(worker)
    except ValueError as error:
        raise ProblemError(400, str(error)) from None
    return worker


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise ProblemError(408, f"the request did not arrive within {_BODY_SECONDS:g} s") from None


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
