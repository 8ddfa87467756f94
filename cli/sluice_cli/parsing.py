"""How every command line is read: one-sentence errors, examples in the help, durations and pairs as types."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sluice_cli.errors import MistakeError
from sluice_protocol.durations import parse_duration
from sluice_protocol.launch import parse_pairs

_HELP_WIDTH = 100


class Parser(argparse.ArgumentParser):
    """No abbreviations, examples below the flags, and an error is one line."""

    def __init__(self, *, examples: str = "", **options: Any) -> None:
        if "description" in options:
            options["description"] = textwrap.fill(options["description"], _HELP_WIDTH)
        epilog = f"examples:\n{textwrap.indent(textwrap.dedent(examples).strip(), '  ')}" if examples else None
        options.setdefault("allow_abbrev", False)
        super().__init__(epilog=epilog, formatter_class=_formatter, **options)
        self._unfinished: list[Callable[[Parser], None]] = []

    def when_chosen(self, add: Callable[[Parser], None]) -> None:
        """Add further flags once they are needed, because what they are made of takes long to import."""
        self._unfinished.append(add)

    def finish(self) -> None:
        """Add the flags that were put off."""
        while self._unfinished:
            self._unfinished.pop(0)(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """argparse calls it on the parser of the command that was chosen."""
        self.finish()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and a sentence."""
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=_HELP_WIDTH, max_help_position=34)


def duration(text: str) -> int:
    """The type of a flag that is a duration; its value is in milliseconds."""
    return _read(parse_duration, text)


def at_least(minimum: int) -> Callable[[str], int]:
    """The type of a flag that is a whole number not below the minimum."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum} on")
        return int(text)

    return read


def names(text: str) -> tuple[str, ...]:
    """The type of a flag that is a list of names between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def pairs(flag: str, values: Sequence[str] | None) -> dict[str, str]:
    """The value of a repeated flag: KEY=VALUE, or @FILE with a JSON object or a line KEY=VALUE each.

    Later ones win. Raises MistakeError naming the flag and the value.
    """
    merged: dict[str, str] = {}
    for value in values or ():
        merged |= _read_file(flag, Path(value[1:])) if value.startswith("@") else _pairs(flag, [value])
    return merged


def add_place(parser: argparse.ArgumentParser) -> None:
    """The flags with which a command finds a running application."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--run-directory", type=Path, metavar="DIR", help="the run directory given to (or chosen by) `sluice run`"
    )
    place.add_argument(
        "--application-id",
        metavar="ID",
        help="the application whose run directory is .sluice/ID (default: the only one)",
    )


def _read_file(flag: str, path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MistakeError(f"{flag} @{path} can't be read: {error}") from None
    if text.lstrip().startswith("{"):
        return _json_pairs(f"{flag} @{path}", text)
    lines = (line.strip() for line in text.splitlines())
    return _pairs(f"{flag} @{path}:", [line for line in lines if line and not line.startswith("#")])


def _json_pairs(flag: str, text: str) -> dict[str, str]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise MistakeError(f"{flag} is not JSON: {error}") from None
    if not isinstance(fields, Mapping):
        raise MistakeError(f"{flag} is not a JSON object")
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in fields.items()}


def _pairs(flag: str, values: Sequence[str]) -> dict[str, str]:
    try:
        return parse_pairs(flag, values)
    except ValueError as error:
        raise MistakeError(str(error)) from None


def _read(read: Callable[[str], int], text: str) -> int:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
