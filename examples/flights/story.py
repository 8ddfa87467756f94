"""What both demos share: the ground they stand on, phases with their times, and how a demo begins and ends."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from data import records
from feed import TOPIC, Feeder
from lag import total_lag
from rich.console import Console
from truth import OUTPUTS

from sluice_devkit.kafka import KafkaCluster
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import repartition_topic
from sluice_protocol.view import GroupView

APPLICATION = "flights"
PARTITIONS = 12
LOADED_AT_ONCE = 240_000
RATE = 700
"""So slow that records still arrive when the last worker is drained."""
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


def loaded(kafka: KafkaCluster) -> Feeder:
    """The user's own topics, and the first flights in them."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})
    wanted = [NewTopic(TOPIC, PARTITIONS, 1), *(NewTopic(output, 4, 1) for output in OUTPUTS)]
    for created in admin.create_topics(wanted).values():
        created.result(30)
    feeder = Feeder(kafka.bootstrap_servers, records(), RATE)
    feeder.load(LOADED_AT_ONCE)
    say(f"{feeder.sent:,} flights loaded into {PARTITIONS} partitions; then {RATE:,} a second arrive")
    return feeder


def await_processed(bootstrap_servers: str, feeder: Feeder) -> None:
    """Wait until the input and the repartition topics are read to their ends."""
    deadline = time.monotonic() + PHASE_SECONDS
    while total_lag(bootstrap_servers, APPLICATION, _input_topics()):
        if time.monotonic() > deadline:
            raise DemoFailedError(f"records were left unprocessed after {PHASE_SECONDS:.0f} s")
        time.sleep(0.2)
    say(f"{feeder.sent:,} records processed")


def _input_topics() -> tuple[str, ...]:
    return (TOPIC, repartition_topic(APPLICATION, "by-carrier"), repartition_topic(APPLICATION, "by-aircraft"))


def tell(story: Callable[[Path], None], *failures: type[Exception]) -> int:
    """Run it in a new directory, keep the logs if it fails, leave nothing running. Returns the exit code."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    directory = Path(tempfile.mkdtemp(prefix="sluice-demo-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        story(directory)
        shutil.rmtree(directory, ignore_errors=True)
    except (DemoFailedError, *failures) as error:
        console.print(f"[bold red]failed[/]: {error}; the logs are in {directory}"[:2000])
        return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    say(f"[bold green]done[/] in {time.monotonic() - STARTED:.0f} s")
    return 0
