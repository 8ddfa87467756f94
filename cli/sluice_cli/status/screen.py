"""Where a report goes: plain lines into a pipe, coloured and kept up to date on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sluice_cli.status.text import Line, plain

if TYPE_CHECKING:
    from rich.text import Text


def show(lines: Sequence[Line]) -> None:
    """Print once."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(_styled(lines), no_wrap=True, overflow="ellipsis")
    else:
        print(plain(lines))


def keep_showing(lines: Callable[[], Sequence[Line]], pause: Callable[[], None]) -> None:
    """Draw again after each pause, until interrupted; into a pipe, one report below the other."""
    if not sys.stdout.isatty():
        while True:
            print(plain(lines()), end="\n\n", flush=True)
            pause()
    from rich.console import Console
    from rich.live import Live

    with Live(_styled(lines()), console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        while True:
            pause()
            live.update(_styled(lines()), refresh=True)


def _styled(lines: Sequence[Line]) -> Text:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    for index, spans in enumerate(lines):
        if index:
            text.append("\n")
        for span in spans:
            text.append(span.text, style=span.style or None)
    return text
