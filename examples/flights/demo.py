"""The main job, live: one worker, then three while records keep arriving, then one is killed, then two.

Everything is real: a Kafka broker, Spark in every worker, 336,776 flights. At the end every aggregate is compared
with a plain PySpark batch over the same CSV. Exit code 0 means: equal, warm, and single ownership throughout.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from data import records
from facts import Pause, cold_moves, longest_unmoved, pauses
from feed import TOPIC, Feeder
from lag import count_records, total_lag
from rich.console import Console
from rich.table import Table
from truth import OUTPUTS, Comparison, batch, compare, read_topic
from watcher import Watcher

from sluice_assignor import AssignmentConfig
from sluice_cli.local import LocalApplication
from sluice_cli.local.application import WaitTimeoutError
from sluice_cli.local.settings import LocalSettings
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.offsets import CommitWitness
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import dead_letter_topic, repartition_topic
from sluice_protocol.view import GroupView

APPLICATION = "flights"
PARTITIONS = 12
LOADED_AT_ONCE = 240_000
RATE = 1_000
ACCEPTABLE_RECOVERY_LAG = 100
RESTORE_BYTES_PER_SECOND = 600_000
"""Slow enough to be seen: the state of a task is small here, and would be restored within a blink."""
PHASE_SECONDS = 120.0

STARTED = time.monotonic()
console = Console(highlight=False, soft_wrap=True)


class DemoFailedError(Exception):
    """Something that the demo is there to show did not hold."""


@dataclass(slots=True)
class Phase:
    """A part of the run, in milliseconds since the epoch."""

    name: str
    start_ms: int
    end_ms: int = 0

    @property
    def seconds(self) -> float:
        """How long it took until the group was settled."""
        return (self.end_ms - self.start_ms) / 1000


def say(sentence: str) -> None:
    """One line with the time since the start."""
    console.print(f"[dim]{time.monotonic() - STARTED:6.1f} s[/dim]  {sentence}")


@contextmanager
def phase(phases: list[Phase], name: str) -> Iterator[None]:
    """Say what begins, and how long it took."""
    console.rule(name, align="left")
    current = Phase(name, round(time.time() * 1000))
    phases.append(current)
    yield
    current.end_ms = round(time.time() * 1000)
    say(f"{name}: settled after {current.seconds:.1f} s")


def settled(view: GroupView, workers: int) -> bool:
    """Every task runs, nothing is on its way, and nobody else is there."""
    actives = [task for task in view.tasks if task.role is Role.ACTIVE]
    return (
        view.state == "stable"
        and view.pending_moves == 0
        and len(view.members) == workers
        and bool(actives)
        and all(task.state == "running" for task in actives)
        and not any(task.role is Role.WARMUP for task in view.tasks)
    )


def create_topics(bootstrap_servers: str) -> None:
    """The topics that belong to the user: input and outputs."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    wanted = [NewTopic(TOPIC, PARTITIONS, 1), *(NewTopic(output, 4, 1) for output in OUTPUTS)]
    for created in admin.create_topics(wanted).values():
        created.result(30)


def run(directory: Path) -> None:
    """The whole demo. Raises DemoFailedError."""
    with KafkaCluster() as kafka:
        say(f"Kafka runs at {kafka.bootstrap_servers}")
        create_topics(kafka.bootstrap_servers)
        feeder = Feeder(kafka.bootstrap_servers, records(), RATE)
        feeder.load(LOADED_AT_ONCE)
        say(f"{feeder.sent:,} flights loaded into {PARTITIONS} partitions; the rest will arrive at {RATE:,} a second")
        settings = LocalSettings(
            pipeline="pipeline:topology",
            bootstrap_servers=kafka.bootstrap_servers,
            application_id=APPLICATION,
            run_directory=directory,
            assignment=AssignmentConfig(acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG, max_warmup_replicas=4),
            restore_bytes_per_second=RESTORE_BYTES_PER_SECOND,
            heartbeat_interval_ms=500,
            environment={"PYTHONPATH": str(Path(__file__).parent)},
        )
        with CommitWitness(kafka.bootstrap_servers, APPLICATION) as witness:
            with LocalApplication(settings) as application:
                watcher = Watcher(application, say)
                watcher.start()
                try:
                    phases = scale(application, feeder, kafka.bootstrap_servers)
                finally:
                    watcher.stop()
            conclude(kafka.bootstrap_servers, feeder, watcher, phases, witness)


def scale(application: LocalApplication, feeder: Feeder, bootstrap_servers: str) -> list[Phase]:
    """One worker, three, a death, two; then everything that is left."""
    phases: list[Phase] = []
    with phase(phases, "one worker"):
        application.wait(lambda view: settled(view, 1), PHASE_SECONDS)
        await_processed(bootstrap_servers, feeder)
    feeder.start()
    with phase(phases, "scale out to three"):
        application.scale(3)
        application.wait(lambda view: settled(view, 3), PHASE_SECONDS)
    with phase(phases, "kill -9 of worker-1"):
        dead = {member.member_id for member in application.view().members if member.worker == "worker-1"}
        application.kill_worker(1, signal.SIGKILL)
        application.wait(
            lambda view: settled(view, 3) and not dead & {member.member_id for member in view.members}, PHASE_SECONDS
        )
    with phase(phases, "scale in to two, drained"):
        application.scale(2)
        application.wait(lambda view: settled(view, 2), PHASE_SECONDS)
    feeder.finish()
    with phase(phases, "the rest of the flights"):
        await_processed(bootstrap_servers, feeder)
    return phases


def await_processed(bootstrap_servers: str, feeder: Feeder) -> None:
    """Wait until the input and the repartition topics are read to their ends."""
    deadline = time.monotonic() + PHASE_SECONDS
    while total_lag(bootstrap_servers, APPLICATION, input_topics()):
        if time.monotonic() > deadline:
            raise DemoFailedError(f"records were left unprocessed after {PHASE_SECONDS:.0f} s")
        time.sleep(0.2)
    say(f"{feeder.sent:,} records processed")


def input_topics() -> tuple[str, ...]:
    """Every topic that the application reads."""
    return (TOPIC, repartition_topic(APPLICATION, "by-carrier"), repartition_topic(APPLICATION, "by-aircraft"))


def conclude(
    bootstrap_servers: str, feeder: Feeder, watcher: Watcher, phases: list[Phase], witness: CommitWitness
) -> None:
    """Compare, print the facts, and fail if something didn't hold."""
    console.rule("comparing with a plain PySpark batch over the same CSV", align="left")
    wanted = batch()
    read = {topic: read_topic(bootstrap_servers, topic) for topic in OUTPUTS}
    results = [compare(topic, read[topic][0], wanted[topic]) for topic in OUTPUTS]
    commits = witness.commits()
    violations = witness.check()
    view_moves = watcher.moves
    stateful = dict.fromkeys(range(3), True)
    cold = cold_moves(view_moves, stateful, ACCEPTABLE_RECOVERY_LAG)
    dead = count_records(bootstrap_servers, dead_letter_topic(APPLICATION))
    facts = Table(title="facts", title_justify="left", show_header=False)
    facts.add_row("records in", f"{feeder.sent:,}, of them broken on purpose {feeder.broken}")
    facts.add_row("records out", f"{sum(count for _, count in read.values()):,}")
    facts.add_row("dead letters", f"{dead}")
    for part in phases:
        facts.add_row(f"{part.name}: time to converge", f"{part.seconds:.1f} s")
        found = pauses(commits, part.start_ms, part.end_ms)
        if found:
            facts.add_row(f"{part.name}: pause per move", _pauses(found))
        unmoved = longest_unmoved(commits, part.start_ms, part.end_ms)
        if unmoved and part is not phases[0]:
            facts.add_row(f"{part.name}: tasks that stay", f"at most {max(unmoved):,} ms without a commit")
    planned = [move for move in view_moves if move.planned and move.source is not None]
    facts.add_row("moves", f"{len(planned)} planned, {len(cold)} of them cold")
    facts.add_row("warm-ups", f"{len(watcher.warm_ups.lags)} seen, {watcher.warm_ups.falling()} with falling lag")
    restored, size = watcher.restored
    facts.add_row("restored", f"{restored:,} records, {size / 1e6:,.1f} MB")
    facts.add_row("commit witness", f"{len(commits):,} commits, {len(violations)} violations")
    for result in results:
        facts.add_row(f"result of {result.topic}", _result(result))
    console.print(facts)
    _judge(results, violations=len(violations), cold=len(cold), falling=watcher.warm_ups.falling(),
           dead_letters_right=dead == feeder.broken)  # fmt: skip


def _pauses(found: list[Pause]) -> str:
    times = sorted(pause.milliseconds for pause in found)
    return f"p50 {statistics.median(times):,.0f} ms, max {times[-1]:,} ms ({len(times)} partitions)"


def _result(result: Comparison) -> str:
    if not result.differences:
        return f"[bold green]equal[/], {result.keys:,} keys"
    return f"[bold red]{len(result.differences):,} of {result.keys:,} keys differ[/], first {result.differences[0]}"


def _judge(results: list[Comparison], *, violations: int, cold: int, falling: int, dead_letters_right: bool) -> None:
    problems = [f"{result.topic} differs in {len(result.differences)} keys" for result in results if result.differences]
    if violations:
        problems.append(f"{violations} commits break single ownership")
    if cold:
        problems.append(f"{cold} planned moves were cold")
    if not falling:
        problems.append("no warm-up with a falling lag was seen")
    if not dead_letters_right:
        problems.append("the dead-letter topic doesn't hold the records that were broken on purpose")
    if problems:
        raise DemoFailedError("; ".join(problems))


def main() -> int:
    """Run it, keep the logs if it fails, leave nothing running."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-demo-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(directory)
    except (DemoFailedError, WaitTimeoutError) as error:
        console.print(f"[bold red]failed[/]: {error}; the logs are in {directory}"[:2000])
        return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    say(f"[bold green]done[/] in {time.monotonic() - STARTED:.0f} s")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
