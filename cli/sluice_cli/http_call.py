"""One HTTP call to a process of ours, with a secret or a token and a time-out. Standard library only."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from sluice_cli.errors import CommandError, MistakeError
from sluice_protocol.route import NOT_COORDINATOR_STATUS, Route, leader_of

_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Trust:
    """What to verify an https server by: the certificates (PEM) of its authority, and its name if not the URL's."""

    ca: str | None = None
    name: str | None = None


class UnreachableError(CommandError):
    """Nobody answered in time."""


class RefusedError(CommandError):
    """The other side answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def call(
    method: str, url: str, secret: str, *, body: bytes | None = None, timeout: float = 5.0, trust: Trust | None = None
) -> bytes:
    """The body of a 2xx answer. `timeout` (seconds) holds for connecting and for each read.

    Whoever does not lead, and knows who does, sends us there. Raises UnreachableError and RefusedError, both with a
    sentence that names the address.
    """
    address = urlsplit(url)
    path = address.path + (f"?{address.query}" if address.query else "")
    route = _route(f"{address.scheme}://{address.netloc}", trust or Trust())
    status, content = _exchange(route.connection(timeout), method, url, path, secret, body)
    leader = leader_of(content) if status == NOT_COORDINATOR_STATUS else None
    if leader is not None and address.scheme == "https":  # only the name in a certificate says who gets the secret
        status, content = _exchange(route.connection(timeout, leader), method, leader + path, path, secret, body)
    if not 200 <= status < 300:
        raise RefusedError(status, f"{method} {url} was refused ({status}): {_explanation(content)}")
    return content


def _route(base: str, trust: Trust) -> Route:
    try:
        return Route(base, trust.ca, trust.name)
    except ValueError as error:
        raise MistakeError(str(error)) from None


def _exchange(
    connection: http.client.HTTPConnection, method: str, url: str, path: str, secret: str, body: bytes | None
) -> tuple[int, bytes]:
    try:
        connection.request(method, path, body=body, headers=_headers(secret, body))
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{method} {url} got no answer: {reason}") from error
    finally:
        connection.close()


def _headers(secret: str, body: bytes | None) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {secret}"}
    return headers if body is None else {**headers, "Content-Type": "application/json"}


def _explanation(content: bytes) -> str:
    text = content.decode(errors="replace").strip()
    try:
        fields = json.loads(text)
    except ValueError:
        return text[:_SHOWN]
    if isinstance(fields, dict):
        text = str(fields.get("message") or fields.get("error") or text)
    return text[:_SHOWN]
