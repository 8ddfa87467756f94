"""`sluice resume`: failed tasks try again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sluice_cli.cluster.place import NAME_HELP, add_cluster, cluster_place, names_cluster
from sluice_cli.errors import CommandError
from sluice_cli.parsing import add_place

if TYPE_CHECKING:
    from sluice_cli.coordinator_client import CoordinatorClient


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "resume",
        help="let failed tasks try again",
        description="Let every failed task try again, from the record on which it stopped. `sluice status` names them.",
        examples="""
          sluice resume --application-id orders
          sluice resume flights --namespace shop --coordinator https://localhost:8080
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("name", nargs="?", metavar="NAME", help=NAME_HELP)
    add_place(parser)
    add_cluster(parser, coordinator=True)


def execute(arguments: argparse.Namespace) -> int:
    """Ask the coordinator; say how many tasks it is about."""
    is_cluster = arguments.name is not None or names_cluster(arguments)
    coordinator = cluster_place(arguments, arguments.name).group() if is_cluster else _of_run(arguments)
    group = coordinator.view()
    failed = sorted(failure.task for member in group.members for failure in member.failed)
    coordinator.resume()
    if failed:
        print(f"{group.application_id}: {', '.join(map(str, failed))} will try again")
    else:
        print(f"{group.application_id}: no task has failed")
    return 0


def _of_run(arguments: argparse.Namespace) -> CoordinatorClient:
    from sluice_cli.running.control_client import ControlClient
    from sluice_cli.running.directory import find_run_directory

    control = ControlClient.of(find_run_directory(arguments.run_directory, arguments.application_id))
    coordinator = control.coordinator()
    if coordinator is None:
        raise CommandError("the coordinator doesn't listen now; try again in a moment")
    return coordinator
