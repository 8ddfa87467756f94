"""Durations as people write them in flags: `10m`, `3s`, `500ms`, `1h30m`. Inside they are whole milliseconds."""

from __future__ import annotations

import re

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]+)(ms|d|h|m|s)")
_WHOLE = re.compile(r"(?:[0-9]+(?:ms|d|h|m|s))+")


def parse_duration(text: str) -> int:
    """Read a duration into milliseconds. Raises ValueError naming the text."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write a number with ms, s, m, h or d, as in 500ms, 3s or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def show_duration(milliseconds: int) -> str:
    """The shortest text that `parse_duration` reads back to the same number."""
    parts = []
    for unit, size in _UNITS.items():
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
