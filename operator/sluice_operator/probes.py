"""Health, readiness and metrics over plain HTTP, in threads of their own: an event loop that is stuck must not keep
the answer from whoever asks.

There is nothing secret in them, and neither kubelets nor Prometheus need the coordinator's certificate for them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Problems = Callable[[], list[str]]
"""Sentences that say what is wrong; none if nothing is."""


class Probes:
    """GET /healthz, /readyz, /metrics. Raises OSError if the port is taken."""

    def __init__(
        self, host: str, port: int, health: Problems, readiness: Problems, metrics: Callable[[], bytes]
    ) -> None:
        """`metrics` may raise OSError, of which a TimeoutError is one: then they are not there now."""
        self._answers: dict[str, Callable[[], tuple[int, bytes]]] = {
            "/healthz": lambda: _verdict("alive", health()),
            "/readyz": lambda: _verdict("ready", readiness()),
            "/metrics": lambda: (200, metrics()),
        }
        self._server = _Server((host, port), self._handler())
        threading.Thread(target=self._server.serve_forever, name="probes", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answers = self._answers

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0

            def do_GET(self) -> None:
                answer = answers.get(self.path.partition("?")[0])
                status, body = (404, b"there are /healthz, /readyz and /metrics\n") if answer is None else _try(answer)
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """A probe comes every few seconds."""

        return Handler


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


def _verdict(well: str, problems: list[str]) -> tuple[int, bytes]:
    return (503, ("\n".join(problems) + "\n").encode()) if problems else (200, f"{well}\n".encode())


def _try(answer: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
    try:
        return answer()
    except OSError as error:
        return 503, f"not now: {str(error) or 'timed out'}\n".encode()
