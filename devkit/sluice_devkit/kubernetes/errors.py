"""What can go wrong with a cluster of ours, and what its API answers when it refuses."""

from __future__ import annotations

import json
from typing import Self


class KubernetesError(RuntimeError):
    """A part of the cluster did not start, or is not in the state that was asked for."""


class ApiError(KubernetesError):
    """The API server refused a request. `reason` is its CamelCase word, as NotFound or Invalid."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @classmethod
    def of(cls, status: int, body: str) -> Self:
        """Read the API's Status object, or take the text as it is."""
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {}
        if not isinstance(answer, dict):
            answer = {}
        return cls(status, str(answer.get("reason") or "Unknown"), str(answer.get("message") or body[:500]))
