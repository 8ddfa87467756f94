"""Lines of styled spans: one report for terminals and for pipes, golden in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line; `style` in rich's words, for terminals only."""

    text: str
    style: str = ""


Line = tuple[Span, ...]
EMPTY: Line = ()


def line(text: str, style: str = "") -> Line:
    """A line of one span."""
    return (Span(text, style),)


def plain(lines: Sequence[Line]) -> str:
    """The text without styles, without blanks at the end of lines."""
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines)


def table(head: Sequence[str], rows: Sequence[Sequence[Span]], right: Sequence[str] = ()) -> list[Line]:
    """Aligned columns, two blanks between them; the columns named in `right` are numbers and end on one line."""
    every = [[Span(title, "bold") for title in head], *rows]
    widths = [max(len(row[column].text) for row in every) for column in range(len(head))]
    return [
        tuple(
            Span(_align(cell.text, width, title in right), cell.style)
            for cell, width, title in zip(row, widths, head, strict=True)
        )
        for row in every
    ]


def _align(text: str, width: int, is_number: bool) -> str:
    return (text.rjust(width) if is_number else text.ljust(width)) + "  "
