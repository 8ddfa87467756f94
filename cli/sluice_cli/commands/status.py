"""`sluice status`: who does what, and what is on its way."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sluice_cli.cluster.place import NAME_HELP, add_cluster, cluster_place, names_cluster
from sluice_cli.errors import CommandError
from sluice_cli.parsing import Parser, add_place, duration

if TYPE_CHECKING:
    from sluice_cli.cluster.place import ClusterPlace
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
        "still takes. Lag counts changelog offsets. On Kubernetes the conditions come from the StreamsApp, and the "
        "tasks from its coordinator, if that is named.",
        examples="""
          sluice status
          sluice status --watch --output wide
          sluice status --output json --application-id orders
          sluice status flights --namespace shop --coordinator https://localhost:8080
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("name", nargs="?", metavar="NAME", help=NAME_HELP)
    add_place(parser)
    add_cluster(parser, coordinator=True)
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
    from sluice_cli.status.screen import keep_showing, show

    if arguments.name is not None or names_cluster(arguments):
        lines = partial(_of_cluster, cluster_place(arguments, arguments.name), arguments.output)
    else:
        lines = _of_run(arguments)
    if arguments.watch:
        keep_showing(lines, lambda: time.sleep(arguments.interval / 1000))
    else:
        show(lines())
    return 0


def _of_run(arguments: argparse.Namespace) -> partial[Sequence[Line]]:
    from sluice_cli.running.control_client import ControlClient
    from sluice_cli.running.directory import find_run_directory

    control = ControlClient.of(find_run_directory(arguments.run_directory, arguments.application_id))
    return partial(_of_processes, control, arguments.output)


def _of_processes(control: ControlClient, output: str) -> Sequence[Line]:
    return _lines(*_read(control), output)


def _of_cluster(place: ClusterPlace, output: str) -> Sequence[Line]:
    from sluice_cli.cluster.report import status_report
    from sluice_protocol.wire import to_json

    app, group = place.client.app(place.name), _ask(place)
    if output == "json":
        silent = group if isinstance(group, str) else None
        return _json({"app": app, "group": None if silent else to_json(group), "groupMissing": silent})
    return status_report(app, place.client.where, group, int(time.time() * 1000), wide=output == "wide")


def _ask(place: ClusterPlace) -> GroupView | str:
    """The group, or why there is none to be shown: the StreamsApp is worth showing without it."""
    if place.coordinator is None:
        return "not asked for; say with --coordinator URL where the coordinator can be reached from here"
    try:
        return place.group().view()
    except CommandError as error:
        if error.exit_code != CommandError.exit_code:
            raise
        return str(error)


def _read(control: ControlClient) -> tuple[LocalView, GroupView | None]:
    from sluice_cli.http_call import UnreachableError

    local, coordinator = control.view(), control.coordinator()
    try:
        return local, None if coordinator is None else coordinator.view()
    except UnreachableError:
        return local, None


def _lines(local: LocalView, group: GroupView | None, output: str) -> Sequence[Line]:
    from sluice_cli.status.report import report
    from sluice_protocol.wire import to_json

    if output == "json":
        return _json({"local": to_json(local), "group": to_json(group)})
    return report(local, group, int(time.time() * 1000), wide=output == "wide")


def _json(fields: Mapping[str, Any]) -> Sequence[Line]:
    from sluice_cli.status.text import line

    return [line(text) for text in json.dumps(fields, indent=2).split("\n")]
