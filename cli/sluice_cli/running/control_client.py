"""The client of the supervisor's control API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.errors import NothingRunsError
from sluice_cli.http_call import UnreachableError, call
from sluice_cli.running.directory import RunDirectory
from sluice_cli.running.view import LONG_POLL_SECONDS, PATH, WORKERS_PATH, LocalView, WantedWorkers
from sluice_protocol.wire import decode, encode


@dataclass(frozen=True, slots=True)
class ControlClient:
    """Every method is one call; `timeout` in seconds. They raise NothingRunsError and RefusedError."""

    directory: RunDirectory
    url: str
    secret: str
    timeout: float = 5.0

    @classmethod
    def of(cls, directory: RunDirectory) -> ControlClient:
        """The client of whoever runs in the directory. Raises NothingRunsError."""
        return cls(directory, directory.read_run().control, directory.read_secret())

    def view(self, after: int | None = None) -> LocalView:
        """The processes now; or, given a version, as soon as the view is another one (or a while has passed)."""
        if after is None:
            return self._call("GET", PATH, self.timeout)
        return self._call("GET", f"{PATH}?after={after}", LONG_POLL_SECONDS + self.timeout)

    def scale(self, count: int) -> LocalView:
        """Ask for so many workers."""
        return self._call("PUT", WORKERS_PATH, self.timeout, encode(WantedWorkers(count)))

    def wait(self, holds: Callable[[LocalView], bool], seen: Callable[[LocalView], None] = lambda _: None) -> LocalView:
        """Wait for a view of which this holds; every view on the way is shown to `seen`."""
        view = self.view()
        while not holds(view):
            seen(view)
            view = self.view(after=view.version)
        return view

    def coordinator(self) -> CoordinatorClient | None:
        """A client of the coordinator, if one listens now."""
        run, view = self.directory.read_run(), self.view()
        if view.coordinator_url is None:
            return None
        return CoordinatorClient(view.coordinator_url, self.secret, run.application_id, run.namespace)

    def _call(self, method: str, path: str, timeout: float, body: bytes | None = None) -> LocalView:
        try:
            return decode(LocalView, call(method, self.url + path, self.secret, body=body, timeout=timeout))
        except UnreachableError:
            raise NothingRunsError(
                f"nothing runs in {self.directory.path} any more; start it again with `sluice run`"
            ) from None
