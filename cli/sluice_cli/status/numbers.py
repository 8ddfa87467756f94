"""Numbers for people: short, with units, and never more precise than they are true."""

from __future__ import annotations

_SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def show_count(count: int) -> str:
    """`950`, `12.3 k`, `1.2 M`."""
    for size, letter in _SCALES:
        if count >= size - size // 20_000:  # what would be rounded to 1000.0 of the smaller unit is one of this
            return f"{count / size:.1f} {letter}"
    return str(count)


def show_plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def show_seconds(seconds: int) -> str:
    """`40 s`, `12 min`, `3 h`, `2 d`: the largest unit that fills at least two, so that little is lost."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def show_bytes(size: int) -> str:
    """`512 B`, `3.4 MB`."""
    text = show_count(size)
    return f"{text}B" if " " in text else f"{text} B"


def show_percent(permille: int) -> str:
    """Per mille as whole percent."""
    return f"{round(permille / 10)} %"
