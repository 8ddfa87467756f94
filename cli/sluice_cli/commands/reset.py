"""`sluice reset`: an application begins again, as if it had never run."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice_cli.cluster.place import add_cluster, cluster_place, names_cluster
from sluice_cli.errors import MistakeError
from sluice_cli.parsing import Parser, at_least, duration, pairs
from sluice_cli.running.directory import DEFAULT_ROOT, RunDirectory
from sluice_protocol.ids import transactional_id, worker_name

if TYPE_CHECKING:
    from sluice_cli.cluster.client import ClusterClient
    from sluice_cli.reset.positions import Aim, Log, Partition
    from sluice_protocol.topology import TopologyDescription


_WATCH_SECONDS = 9.0
"""Three heartbeats: in that time workers that have records to process commit."""


@dataclass(frozen=True, slots=True)
class Reset:
    """All that is to be done. `slots`: so many workers may still hold something."""

    topology: TopologyDescription
    offsets: Mapping[Partition, int]
    logs: Mapping[Partition, Log]
    topics: Sequence[str]
    directories: Sequence[Path]
    claims: Mapping[str, str]
    slots: int

    def transactional_ids(self) -> list[str]:
        """Of every worker that there may have been."""
        application = self.topology.application_id
        return [
            transactional_id(application, worker_name(slot), part.id)
            for slot in range(self.slots)
            for part in self.topology.subtopologies
        ]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "reset",
        help="let an application begin again: offsets, internal topics, state",
        description="Let an application begin again, as if it had never run: its offsets in the topics that it reads "
        "are set, its changelogs and repartition topics deleted, and the state of its workers with them. What it has "
        "written to other topics, and its dead letters, stay. Stop it first.",
        examples="""
          sluice reset orders:topology --bootstrap localhost:9092 --dry-run
          sluice reset orders:topology --bootstrap localhost:9092 --by-duration 2h --yes
          sluice reset orders:topology --bootstrap kafka:9092 --streamsapp orders --namespace shop
        """,
    )
    parser.set_defaults(execute=execute)
    parser.add_argument("pipeline", metavar="MODULE:ATTR", help="the topology")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…", help="Kafka's bootstrap servers")
    parser.add_argument("--application-id", metavar="ID", help="default: the pipeline's own")
    parser.add_argument("--run-directory", type=Path, metavar="DIR", help="of `sluice run` (default: .sluice/ID)")
    parser.add_argument(
        "--kafka-config", action="append", metavar="KEY=VALUE|@FILE", help="a librdkafka setting; repeatable"
    )
    parser.add_argument("--streamsapp", metavar="NAME", help="on Kubernetes: delete the volumes of its workers, too")
    add_cluster(parser, coordinator=False)
    _add_aims(parser)
    parser.add_argument("--dry-run", action="store_true", help="say everything that would be done, and do nothing")
    parser.add_argument("--yes", action="store_true", help="don't ask")
    parser.add_argument(
        "--force", action="store_true", help="even while it runs: its workers are fenced, and fail sooner or later"
    )


def _add_aims(parser: argparse.ArgumentParser) -> None:
    aims = parser.add_argument_group("where it begins again").add_mutually_exclusive_group()
    aims.add_argument("--to-earliest", action="store_true", help="at the oldest record that is there (the default)")
    aims.add_argument("--to-latest", action="store_true", help="at what comes from now on")
    aims.add_argument("--to-offset", type=at_least(0), metavar="N", help="at this offset of every partition")
    aims.add_argument("--to-datetime", type=_moment, metavar="TIME", help="ISO 8601; UTC if it has no zone")
    aims.add_argument("--by-duration", type=duration, metavar="DURATION", help="so long ago, as 2h")
    aims.add_argument(
        "--shift-by", type=int, metavar="N", help="N records after the committed offsets, before if N < 0"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Look, say, ask, do."""
    from sluice_cli.reset.kafka import ApplicationOnKafka

    topology = _topology(arguments)
    directory = RunDirectory(arguments.run_directory or DEFAULT_ROOT / topology.application_id)
    kafka = ApplicationOnKafka(
        arguments.bootstrap, pairs("--kafka-config", arguments.kafka_config), topology.application_id
    )
    with _nobody_runs(directory, force=arguments.force):
        cluster, app = _app(arguments, topology.application_id)
        reset = _look(kafka, topology, directory, _aim(arguments), cluster, app)
        _say(reset, _aim(arguments).words)
        if arguments.dry_run:
            print("nothing was done (--dry-run)")
            return 0
        if not arguments.yes and not _agreed(topology.application_id):
            print("nothing was done")
            return 1
        if cluster is None and not arguments.force:
            _watch(kafka, reset)
        if arguments.force:
            kafka.fence(reset.transactional_ids())
        _do(kafka, reset, cluster, directory)
    print(f"{topology.application_id}: reset")
    return 0


def _topology(arguments: argparse.Namespace) -> TopologyDescription:
    from sluice_pipeline.dsl import PipelineNotFoundError, TopologyError, load_topology

    try:
        topology = load_topology(arguments.pipeline)
        return topology.build(application_id=arguments.application_id).description()
    except (PipelineNotFoundError, TopologyError) as error:
        raise MistakeError(str(error)) from None


def _aim(arguments: argparse.Namespace) -> Aim:
    from sluice_cli.reset import positions

    if arguments.to_latest:
        return positions.latest()
    if arguments.to_offset is not None:
        return positions.at(arguments.to_offset)
    if arguments.to_datetime is not None:
        return positions.since(arguments.to_datetime)
    if arguments.by_duration is not None:
        return positions.since(int(time.time() * 1000) - arguments.by_duration)
    if arguments.shift_by is not None:
        return positions.shifted(arguments.shift_by)
    return positions.earliest()


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 2026-01-31T12:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@contextlib.contextmanager
def _nobody_runs(directory: RunDirectory, *, force: bool) -> Iterator[None]:
    """Hold the run directory, if there is one, so that nobody starts meanwhile. Raises MistakeError."""
    with contextlib.ExitStack() as stack:
        if directory.path.exists():
            try:
                stack.enter_context(directory.locked())
            except MistakeError as error:
                if not force:
                    raise MistakeError(f"{error}. Stop it first, or take --force") from None
        yield


def _app(arguments: argparse.Namespace, application_id: str) -> tuple[ClusterClient | None, dict[str, Any] | None]:
    """The StreamsApp, which must be the same application and have no workers. Raises MistakeError."""
    if arguments.streamsapp is None and not names_cluster(arguments):
        return None, None
    place = cluster_place(arguments, arguments.streamsapp, refused=())
    app = place.client.app(place.name)
    if app["spec"]["applicationId"] != application_id:
        raise MistakeError(
            f"StreamsApp {place.name} is application {app['spec']['applicationId']}, and the pipeline is "
            f"{application_id}; name the right one, or --application-id"
        )
    workers = max(app["spec"]["workers"]["replicas"], app.get("status", {}).get("replicas", 0))
    if workers and not arguments.force:
        raise MistakeError(
            f"StreamsApp {place.name} has {workers} workers; first `sluice scale 0 {place.name} --wait`, or take "
            "--force"
        )
    return place.client, app


def _look(
    kafka: Any,
    topology: TopologyDescription,
    directory: RunDirectory,
    aim: Aim,
    cluster: ClusterClient | None,
    app: dict[str, Any] | None,
) -> Reset:
    from sluice_cli.reset.positions import positions

    sources = sorted({topic for part in topology.subtopologies for topic in part.source_topics})
    internal = {
        topic
        for part in topology.subtopologies
        for topic in (*part.changelog_topics, *part.repartition_source_topics, *part.repartition_sink_topics)
    }
    present = kafka.partitions({*sources, *internal})
    if missing := [topic for topic in sources if topic not in present]:
        raise MistakeError(f"source topics {', '.join(missing)} don't exist at this Kafka")
    logs = kafka.logs([(topic, number) for topic in sources for number in range(present[topic])], aim)
    directories = sorted((directory.path / "state").glob("worker-*"))
    footprint = {} if app is None else app.get("status", {}).get("footprint") or {}
    return Reset(
        topology,
        positions(aim, logs),
        logs,
        sorted(internal & present.keys()),
        directories,
        {} if cluster is None or app is None else cluster.claims(app["metadata"]["name"]),
        max([footprint.get("slots", 0), *(int(path.name.removeprefix("worker-")) + 1 for path in directories)]),
    )


def _say(reset: Reset, words: str) -> None:
    print(f"{reset.topology.application_id} begins again at {words}:")
    for (topic, partition), offset in sorted(reset.offsets.items()):
        before = reset.logs[topic, partition].committed
        print(f"  {topic}-{partition}: {'no offset' if before is None else before} → {offset}")
    for what, things in (("topics", reset.topics), ("state", reset.directories), ("volume claims", reset.claims)):
        print(f"{what} to delete: {', '.join(map(str, things)) or 'none'}")
    if not reset.directories and not reset.claims:
        print("state of workers that is kept elsewhere (volumes) is not seen from here; delete it as well")


def _agreed(application_id: str) -> bool:
    """Raises MistakeError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise MistakeError("nobody can be asked here; say --yes, or look first with --dry-run")
    return input(f"Type {application_id} to do it: ").strip() == application_id


def _watch(kafka: Any, reset: Reset) -> None:
    """Workers on other machines hold no lock here, but they commit. Raises MistakeError if somebody does."""
    print(f"looking for {_WATCH_SECONDS:g} s whether it runs anywhere", flush=True)
    before = kafka.committed(reset.logs)
    time.sleep(_WATCH_SECONDS)
    for (topic, partition), offset in sorted(kafka.committed(reset.logs).items()):
        if offset != before[topic, partition]:
            raise MistakeError(
                f"{reset.topology.application_id} runs somewhere: the committed offset of {topic}-{partition} was "
                f"{before[topic, partition]}, and is {offset} now. Stop it first, or take --force"
            )


def _do(kafka: Any, reset: Reset, cluster: ClusterClient | None, directory: RunDirectory) -> None:
    """The offsets go first and come last: state without an offset is refused, an offset without state would not be."""
    kafka.delete(reset.topics)
    for state in reset.directories:
        shutil.rmtree(state)
    _forget_cluster(directory)
    if cluster is not None:
        for name, uid in reset.claims.items():
            cluster.delete_claim(name, uid)
    kafka.commit(reset.offsets)


def _forget_cluster(directory: RunDirectory) -> None:
    """It may begin again on another Kafka. One that runs nevertheless (--force) goes on where it is."""
    from sluice_coordinator.records import DirectoryInUseError, Records, RecordsDamagedError

    if not directory.coordinator.exists():
        return
    try:
        with contextlib.closing(Records(directory.coordinator)) as records:
            records.forget_cluster()
    except RecordsDamagedError as error:
        raise MistakeError(str(error)) from None
    except DirectoryInUseError:
        return
