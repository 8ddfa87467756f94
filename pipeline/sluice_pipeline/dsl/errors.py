"""A mistake in a pipeline: one sentence that names the line of the user's code."""

from __future__ import annotations

import sys
from pathlib import Path

_OURS = frozenset({"sluice", "sluice_pipeline"})


class TopologyError(ValueError):
    """The topology can't be built; `where` is the line to look at ("orders.py:12")."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


class PipelineNotFoundError(TopologyError):
    """`module:attribute` doesn't lead to a topology, or the module can't be imported; `where` is that text."""


def calling_line() -> str:
    """The line of the user's code that called us, as "orders.py:12"."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
