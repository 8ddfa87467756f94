"""`sluice scale`: another number of workers."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from sluice_cli.cluster.place import NAME_HELP, add_cluster, cluster_place, names_cluster
from sluice_cli.parsing import add_place, at_least

if TYPE_CHECKING:
    from sluice_cli.cluster.place import ClusterPlace

_LOOK_SECONDS = 1.0


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
          sluice scale 3 flights --namespace shop
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("count", type=at_least(0), metavar="N", help="how many workers there should be")
    parser.add_argument("name", nargs="?", metavar="NAME", help=NAME_HELP)
    add_place(parser)
    add_cluster(parser, coordinator=False)
    parser.add_argument("--wait", action="store_true", help="return when they are there and nothing moves any more")


def execute(arguments: argparse.Namespace) -> int:
    """Tell the supervisor, or write it into the StreamsApp."""
    if arguments.name is not None or names_cluster(arguments):
        return _scale_app(cluster_place(arguments, arguments.name), arguments.count, wait=arguments.wait)
    return _scale_run(arguments)


def _scale_app(place: ClusterPlace, count: int, *, wait: bool) -> int:
    before = place.client.app(place.name)["spec"]["workers"]["replicas"]
    place.client.scale(place.name, count)
    print(
        f"{place.name}: {_workers(count)}, as before"
        if before == count
        else f"{place.name}: {before} → {_workers(count)}"
    )
    while wait:
        app = place.client.app(place.name)
        wanted = app["spec"]["workers"]["replicas"]
        if wanted != count:
            print(f"{place.name}: somebody else asked for {_workers(wanted)} meanwhile")
            return 1
        if _is_settled(app, count):
            print(f"{place.name}: {_workers(count)}, nothing left to move")
            break
        time.sleep(_LOOK_SECONDS)
    return 0


def _is_settled(app: dict[str, Any], count: int) -> bool:
    status = app.get("status", {})
    if status.get("observedGeneration") != app["metadata"]["generation"]:
        return False
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    moves = conditions.get("Rebalancing") != "False" or (count > 0 and conditions.get("Ready") != "True")
    return not moves and status.get("replicas") == status.get("readyReplicas") == count


def _scale_run(arguments: argparse.Namespace) -> int:
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
