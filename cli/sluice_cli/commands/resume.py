"""`sluice resume`: failed tasks try again."""

from __future__ import annotations

import argparse
from typing import Any

from sluice_cli.errors import CommandError
from sluice_cli.parsing import add_place


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "resume",
        help="let failed tasks try again",
        description="Let every failed task try again, from the record on which it stopped. `sluice status` names them.",
        examples="sluice resume --application-id orders",
    )
    parser.set_defaults(execute=execute)
    add_place(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Ask the coordinator; say how many tasks it is about."""
    from sluice_cli.running.control_client import ControlClient
    from sluice_cli.running.directory import find_run_directory

    control = ControlClient.of(find_run_directory(arguments.run_directory, arguments.application_id))
    coordinator = control.coordinator()
    if coordinator is None:
        raise CommandError("the coordinator doesn't listen now; try again in a moment")
    group = coordinator.view()
    failed = sorted(failure.task for member in group.members for failure in member.failed)
    coordinator.resume()
    if failed:
        print(f"{group.application_id}: {', '.join(map(str, failed))} will try again")
    else:
        print(f"{group.application_id}: no task has failed")
    return 0
