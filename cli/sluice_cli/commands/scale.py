"""`sluice scale`: another number of workers."""

from __future__ import annotations

import argparse
from typing import Any

from sluice_cli.parsing import add_place, at_least


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "scale",
        help="change the number of workers of a running application",
        description="Change the number of workers. New ones get their tasks once these are warm; leaving ones (the "
        "highest numbers) are drained first: their tasks are warm elsewhere before they end. Scaling again in the "
        "middle takes back what has not happened yet. The number survives a restart of `sluice run`.",
        examples="""
          sluice scale 3
          sluice scale 1 --application-id orders --wait
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("count", type=at_least(0), metavar="N", help="how many workers there should be")
    add_place(parser)
    parser.add_argument("--wait", action="store_true", help="return when they are there and nothing moves any more")


def execute(arguments: argparse.Namespace) -> int:
    """Tell the supervisor."""
    from sluice_cli.running.control_client import ControlClient
    from sluice_cli.running.directory import find_run_directory

    control = ControlClient.of(find_run_directory(arguments.run_directory, arguments.application_id))
    before = control.view()
    after = control.scale(arguments.count)
    if before.desired == after.desired:
        print(f"{after.application_id}: {_workers(after.desired)}, as before")
    else:
        print(f"{after.application_id}: {before.desired} → {_workers(after.desired)}")
    if arguments.wait:
        last = control.wait(lambda view: view.desired != arguments.count or view.settled)
        if last.desired != arguments.count:
            print(f"{last.application_id}: somebody else asked for {_workers(last.desired)} meanwhile")
            return 1
        print(f"{last.application_id}: {_workers(last.desired)}, nothing left to move")
    return 0


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
