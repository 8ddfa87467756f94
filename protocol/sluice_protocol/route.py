"""The way to a coordinator: its Service first, and then whoever leads.

On one machine it is plain HTTP. In a cluster it is TLS, since tokens travel there. Every operator serves the Service's
certificate, so that its host name is what is verified, whatever address a connection goes to.
"""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from sluice_protocol.wire import MalformedMessageError, decode

NOT_COORDINATOR_STATUS = 421
"""HTTP: this process does not lead; the body is a NotCoordinator."""


@dataclass(frozen=True, slots=True)
class NotCoordinator:
    """Said by an operator that does not lead. `leader`: the base URL of the one that does, if it is known."""

    message: str
    leader: str | None = None
    code: str = "NOT_COORDINATOR"


class Route:
    """How to reach the coordinator at a base URL."""

    def __init__(self, url: str, ca: str | None = None, name: str | None = None) -> None:
        """`ca`: the certificates (PEM) of the authority to trust; the system's if None. `name`: the host name to
        verify; the URL's if None. Raises ValueError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the coordinator's URL is {url!r}; it must be http://HOST:PORT or https://HOST:PORT")
        if ca is not None and parts.scheme == "http":
            raise ValueError(f"the coordinator's URL is {url!r}, but there is a CA to verify it by; use https://")
        self.url = url
        self._host = name or parts.hostname
        self._context = _context(ca) if parts.scheme == "https" else None

    def connection(self, timeout: float, leader: str | None = None) -> http.client.HTTPConnection:
        """A connection, not yet open: to the URL, or to another one that serves under the same name.

        `timeout` in seconds, for connecting and for each read.
        """
        parts = urlsplit(leader or self.url)
        if self._context is None:
            return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout)
        return _Verified(parts.hostname or "", parts.port, timeout, self._context, self._host)


def leader_of(body: bytes) -> str | None:
    """Where an operator that does not lead sends us, if anywhere."""
    try:
        return decode(NotCoordinator, body).leader
    except MalformedMessageError:
        return None


class _Verified(http.client.HTTPConnection):
    """By TLS, with another name to verify than that of the address."""

    default_port = http.client.HTTPS_PORT

    def __init__(self, host: str, port: int | None, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout)
        self._context = context
        self._name = name

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca)
    except ssl.SSLError as error:
        raise ValueError(f"the coordinator's CA can't be read ({error.reason}); it must be PEM certificates") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
