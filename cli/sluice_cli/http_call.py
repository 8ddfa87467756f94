"""One HTTP call to a process of ours on this machine, with the shared secret and a time-out. Standard library only."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from sluice_cli.errors import CommandError

_SHOWN = 400


class UnreachableError(CommandError):
    """Nobody answered in time."""


class RefusedError(CommandError):
    """The other side answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def call(method: str, url: str, secret: str, *, body: bytes | None = None, timeout: float = 5.0) -> bytes:
    """The body of a 2xx answer. `timeout` (seconds) holds for connecting and for each read.

    Raises UnreachableError and RefusedError, both with a sentence that names the address.
    """
    address = urlsplit(url)
    path = address.path + (f"?{address.query}" if address.query else "")
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=_headers(secret, body))
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{method} {url} got no answer: {reason}") from error
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise RefusedError(answer.status, f"{method} {url} was refused ({answer.status}): {_explanation(content)}")
    return content


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
