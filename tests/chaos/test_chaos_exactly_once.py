"""Exactly once, whatever breaks: seeded faults while input flows, every crash window of a worker hit at least twice.

    make chaos FAULTS=300 SEED=7

The seed fixes what breaks, in which order and at what distance; the rest is the machine's.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_aims import DIRECTORY_VARIABLE, Aims
from chaos_feed import Feeder
from chaos_outcome import APPLICATION, INPUTS, Reader, Truth, check_counts, check_echo, check_stores
from chaos_schedule import HITS, schedule
from chaos_stage import Stage

from sluice_assignor import AssignmentConfig
from sluice_cli.local import LocalApplication, LocalSettings
from sluice_cli.local.backoff import Backoff
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.offsets import CommitWitness
from sluice_pipeline.observer import Step
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId

HERE = Path(__file__).parent
FAULTS = int(os.environ.get("FAULTS") or 30)
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))

RATE = 200
SESSION_TIMEOUT_MS = 3_000
START_SECONDS = 180.0
END_SECONDS = 240.0

Say = Callable[[str], None]


def settings(kafka: KafkaCluster, directory: Path, aims: Aims) -> LocalSettings:
    return LocalSettings(
        pipeline="echo_pipeline:topology",
        bootstrap_servers=kafka.bootstrap_servers,
        application_id=APPLICATION,
        run_directory=directory,
        workers=2,
        threads=1,
        restorers=1,
        assignment=AssignmentConfig(acceptable_recovery_lag=100),
        heartbeat_interval_ms=300,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        worker_command=(sys.executable, str(HERE / "worker_main.py")),
        environment={DIRECTORY_VARIABLE: str(aims.directory)},
        backoff=Backoff(first_ms=100, cap_ms=500),
    )


@pytest.mark.chaos
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(600 + 40 * FAULTS)
def test_every_record_counts_exactly_once(own_kafka: KafkaCluster, tmp_path: Path, say: Say) -> None:
    faults = schedule(SEED, FAULTS)
    say(f"\n{len(faults)} faults, SEED={SEED}")
    aims = Aims(tmp_path / "aims")
    aims.directory.mkdir()
    directory = tmp_path / "run"
    feeder = Feeder(own_kafka.bootstrap_servers, RATE, SEED)
    began = time.monotonic()
    with LocalApplication(settings(own_kafka, directory, aims), report=say) as application:
        application.wait(lambda group: group.state == "stable" and len(group.members) == 2, START_SECONDS)
        feeder.start()
        stage = Stage(own_kafka, application, aims, SESSION_TIMEOUT_MS / 1000, say)
        for fault in faults:
            stage.inflict(fault)
        broken = time.monotonic()
        sent = feeder.finish()
        holders = finish(application, own_kafka.bootstrap_servers)
    say(
        f"{sent:,} records, {stage.done.total()} faults in {broken - began:.0f} s, all settled "
        f"{time.monotonic() - broken:.0f} s later; "
        + ", ".join(f"{kind.value}: {count}" for kind, count in stage.done.items())
    )
    say("hits of each step: " + ", ".join(f"{step.name} {aims.hits()[step.name]}" for step in Step))

    reader = Reader(own_kafka.bootstrap_servers)
    truth = Truth.of(reader)
    with CommitWitness(own_kafka.bootstrap_servers, APPLICATION) as witness:
        violations = [str(violation) for violation in witness.check()]
    assert truth.ids.total() == len(truth.ids) == sent
    assert check_echo(reader.read("echo"), truth) == []
    assert check_counts("user-counts", reader.read("user-counts"), truth.users) == []
    assert check_counts("team-counts", reader.read("team-counts"), truth.teams) == []
    assert check_stores(directory, own_kafka.bootstrap_servers, reader, holders) == []
    assert violations == []
    assert all(aims.hits()[step.name] >= HITS for step in Step)


def finish(application: LocalApplication, bootstrap_servers: str) -> dict[TaskId, str]:
    """Wait until two workers have done everything there is to do; gives who holds which task in the end."""
    application.scale(2)
    application.wait_settled(END_SECONDS)
    reader = Reader(bootstrap_servers)
    deadline = time.monotonic() + END_SECONDS
    while left := sum(reader.count_behind(APPLICATION, topic) for topic in INPUTS):
        assert time.monotonic() < deadline, f"{left} records were not processed; {application.view()}"
    application.wait_settled(END_SECONDS)
    return {task.task: task.worker for task in application.view().tasks if task.role is Role.ACTIVE}
