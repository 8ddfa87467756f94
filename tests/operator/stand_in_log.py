"""What the stand-in workers of an application have said, read from the logs of their pods."""

from __future__ import annotations

from dataclasses import dataclass

from streams_app_flights import Flights

from sluice_devkit.kubernetes.errors import KubernetesError
from sluice_protocol.ids import Epoch


@dataclass(frozen=True)
class Said:
    """A line of a stand-in worker."""

    what: str
    at: float
    words: list[str]

    @property
    def leader(self) -> int:
        return Epoch.parse(self.words[1]).leader


def said(flights: Flights, pod: str) -> list[Said]:
    try:
        log = flights.nodes.log(flights.namespace, pod)
    except KubernetesError:
        return []  # its process has not been started yet
    lines = [line.split() for line in log.splitlines()]
    return [
        Said(words[0], float(words[1]), words[2:]) for words in lines if words and words[0] in ("answered", "holds")
    ]


def leaders(flights: Flights, pod: str) -> list[int]:
    """The leader epoch of each answer that the worker was given."""
    return [each.leader for each in said(flights, pod) if each.what == "answered" and each.words[0] == "OK"]
