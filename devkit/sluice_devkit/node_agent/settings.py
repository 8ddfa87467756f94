"""How patient the nodes are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Durations in seconds. A real kubelet backs off from 10 s to 5 min; nobody wants to wait for that in a test."""

    restart_backoff: float = 0.2
    """Between a container's end and its next start; doubled each time."""

    longest_restart_backoff: float = 10
    """Where the doubling ends."""

    backoff_reset: float = 60
    """A container that has run for so long starts again with the first back-off."""

    retry: float = 0.3
    """Between two looks for what a pod waits for: an image, a volume, a ConfigMap, a node."""
