"""Who may ask the coordinator for what: the seam between its HTTP and the ways to prove who one is."""

from __future__ import annotations

import hmac
from typing import Protocol


class ProblemError(Exception):
    """Answered with this status and sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Caller(Protocol):
    """Whoever sent a request. Each check raises ProblemError."""

    def check_member(self, app: tuple[str, str], worker: str, incarnation: str) -> None:
        """May it send heartbeats as this process of this worker?"""

    async def check_reader(self, app: tuple[str, str]) -> None:
        """May it see the group?"""

    async def check_editor(self, app: tuple[str, str]) -> None:
        """May it let failed tasks try again?"""

    def check_commander(self) -> None:
        """May it drain workers and report deaths?"""


class Admission(Protocol):
    """A way to prove who one is."""

    async def admit(self, authorization: str) -> Caller:
        """The caller of a request, by its Authorization header. Raises ProblemError."""


class Trusted:
    """Whoever may do everything."""

    def check_member(self, app: tuple[str, str], worker: str, incarnation: str) -> None:
        """Allowed."""

    async def check_reader(self, app: tuple[str, str]) -> None:
        """Allowed."""

    async def check_editor(self, app: tuple[str, str]) -> None:
        """Allowed."""

    def check_commander(self) -> None:
        """Allowed."""


class SharedSecret:
    """Everybody who knows the secret is trusted: coordinator and workers of one application on one machine."""

    def __init__(self, secret: str) -> None:
        self._expected = b"Bearer " + secret.encode()

    async def admit(self, authorization: str) -> Caller:
        """Raises ProblemError."""
        if not hmac.compare_digest(authorization.encode(), self._expected):
            raise ProblemError(
                401, "the secret is missing or wrong: send the application's own as `Authorization: Bearer …`"
            )
        return Trusted()
