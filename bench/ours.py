"""Sluice in local mode, as the benches start it."""

from __future__ import annotations

import os
from pathlib import Path

from bench.ground import Ground, Job
from bench.harness import tell
from sluice_assignor import AssignmentConfig
from sluice_cli.local import LocalApplication, LocalSettings
from sluice_protocol.heartbeat import Role
from sluice_protocol.view import GroupView

ROOT = Path(__file__).parents[1]
PIPELINE = "bench.pipelines.counts:topology"
STORE = "totals"
THREADS = 2


def counts(ground: Ground, job: Job, acceptable_recovery_lag: int = 10_000) -> LocalApplication:
    """One worker running bench/pipelines/counts.py, not started."""
    search_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return LocalApplication(
        LocalSettings(
            pipeline=PIPELINE,
            bootstrap_servers=ground.bootstrap_servers,
            application_id=job.name,
            run_directory=ground.directory / job.name,
            threads=THREADS,
            assignment=AssignmentConfig(acceptable_recovery_lag=acceptable_recovery_lag),
            environment={
                "BENCH_APPLICATION": job.name,
                "BENCH_SOURCE": job.source,
                "BENCH_SINK": job.sink,
                "PYTHONPATH": search_path,
            },
        ),
        lambda line: tell(f"  {job.name}: {line}"),
    )


def owners(group: GroupView) -> dict[int, str]:
    """The worker of every active task that runs, by partition."""
    active = (task for task in group.tasks if task.role is Role.ACTIVE and task.worker)
    return {task.task.partition: task.worker for task in active}
