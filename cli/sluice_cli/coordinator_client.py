"""The coordinator's read and command API, for everybody who is not a worker: status, supervisor, demo, tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import quote

from sluice_cli.http_call import Trust, call
from sluice_protocol import view as api
from sluice_protocol.view import GroupView
from sluice_protocol.wire import decode


@dataclass(frozen=True, slots=True)
class CoordinatorClient:
    """Every method is one call. They raise UnreachableError and RefusedError; `timeout` is in seconds."""

    url: str
    secret: str
    application_id: str
    namespace: str = "local"
    timeout: float = 5.0
    trust: Trust | None = None

    def view(self) -> GroupView:
        """The group at this moment. Raises MalformedMessageError if the coordinator is of another version."""
        return decode(GroupView, self._call("GET", api.PATH))

    def drain(self, worker: str) -> None:
        """Ask for the worker to be emptied: its tasks get warm elsewhere, then it is `drained`."""
        self._call("PUT", api.DRAIN_PATH, worker)

    def undrain(self, worker: str) -> None:
        """Take a drain back."""
        self._call("DELETE", api.DRAIN_PATH, worker)

    def gone(self, worker: str, incarnation: str) -> None:
        """Report that this process of the worker has ended, so that it is fenced at once."""
        self._call("POST", api.GONE_PATH, worker, json.dumps({"incarnation": incarnation}).encode())

    def resume(self) -> None:
        """Let every failed task try again."""
        self._call("POST", api.RESUME_PATH)

    def _call(self, method: str, path: str, worker: str = "", body: bytes | None = None) -> bytes:
        parts = {"namespace": self.namespace, "name": self.application_id, "worker": worker}
        address = self.url.rstrip("/") + path.format(**{name: quote(part, safe="") for name, part in parts.items()})
        return call(method, address, self.secret, body=body, timeout=self.timeout, trust=self.trust)
