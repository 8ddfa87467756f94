"""A step: the next safe assignment on the way to the target, and what in it is not yet as in the target."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice_assignor.draft import Draft

Copy = tuple[int, int]
"""A task, and a worker that is to have a copy of it."""


@dataclass(slots=True)
class Step:
    """`on_their_way`: who stands in for each copy that is not yet ready for its place in the target; most urgent first.
    `swapped`: the tasks whose active and standby exchange their roles."""

    next: Draft
    on_their_way: dict[Copy, int] = field(default_factory=dict)
    swapped: set[int] = field(default_factory=set)

    @property
    def follow_up(self) -> bool:
        """Is another step wanted, once copies have warmed up?"""
        return bool(self.on_their_way)
