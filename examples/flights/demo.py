"""The main job, live: one worker, then three while records keep arriving, then one is killed, then two.

Everything is real: a Kafka broker, Spark in every worker, 336,776 flights. At the end every aggregate is compared
with a plain PySpark batch over the same CSV. Exit code 0 means: equal, warm, and single ownership throughout.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from feed import Feeder
from report import conclude
from story import (
    ACCEPTABLE_RECOVERY_LAG,
    APPLICATION,
    PHASE_SECONDS,
    RESTORE_BYTES_PER_SECOND,
    Phase,
    await_processed,
    loaded,
    phase,
    say,
    settled,
    tell,
)
from watcher import Watcher

from sluice_assignor import AssignmentConfig
from sluice_cli.local import LocalApplication
from sluice_cli.local.application import WaitTimeoutError
from sluice_cli.local.settings import LocalSettings
from sluice_devkit.kafka import KafkaCluster
from sluice_devkit.offsets import CommitWitness


def run(directory: Path) -> None:
    """The whole demo. Raises DemoFailedError."""
    with KafkaCluster() as kafka:
        say(f"Kafka runs at {kafka.bootstrap_servers}")
        feeder = loaded(kafka)
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
                watcher = Watcher(application.view, say)
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


if __name__ == "__main__":
    sys.exit(tell(run, WaitTimeoutError))
