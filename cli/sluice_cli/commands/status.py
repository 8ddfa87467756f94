"""`sluice status`: who does what, and what is on its way."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sluice_cli.parsing import Parser, add_place, duration

if TYPE_CHECKING:
    from sluice_cli.running.control_client import ControlClient
    from sluice_cli.running.view import LocalView
    from sluice_cli.status.text import Line
    from sluice_protocol.view import GroupView


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "status",
        help="show workers and tasks of a running application",
        description="Show the workers and tasks of a running application: role, state, lag, and how long a warm-up "
        "still takes. Lag counts changelog offsets.",
        examples="""
          sluice status
          sluice status --watch --output wide
          sluice status --output json --application-id orders
        """,
    )
    parser.set_defaults(execute=execute)
    add_place(parser)
    parser.add_argument(
        "--output",
        choices=("table", "wide", "json"),
        default="table",
        help="default: %(default)s; json is for programs",
    )
    parser.add_argument("--watch", action="store_true", help="keep showing, until Ctrl-C")
    parser.add_argument(
        "--interval", type=duration, default=1_000, metavar="DURATION", help="pause of --watch (default: 1s)"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Show once, or until interrupted."""
    from sluice_cli.running.control_client import ControlClient
    from sluice_cli.running.directory import find_run_directory
    from sluice_cli.status.screen import keep_showing, show

    control = ControlClient.of(find_run_directory(arguments.run_directory, arguments.application_id))

    def lines() -> Sequence[Line]:
        return _lines(*_read(control), arguments.output)

    if arguments.watch:
        keep_showing(lines, lambda: time.sleep(arguments.interval / 1000))
    else:
        show(lines())
    return 0


def _read(control: ControlClient) -> tuple[LocalView, GroupView | None]:
    from sluice_cli.http_call import UnreachableError

    local, coordinator = control.view(), control.coordinator()
    try:
        return local, None if coordinator is None else coordinator.view()
    except UnreachableError:
        return local, None


def _lines(local: LocalView, group: GroupView | None, output: str) -> Sequence[Line]:
    from sluice_cli.status.report import report
    from sluice_cli.status.text import line
    from sluice_protocol.wire import to_json

    if output == "json":
        return [
            line(text) for text in json.dumps({"local": to_json(local), "group": to_json(group)}, indent=2).split("\n")
        ]
    return report(local, group, int(time.time() * 1000), wide=output == "wide")
