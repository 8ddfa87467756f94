"""Start of a worker process: claim the directory, start Spark, build the topology, work until told to end."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from prometheus_client import start_http_server

from sluice_jvm.jars import SPARK_KAFKA, JarsNotResolvedError, resolve
from sluice_jvm.java import JavaNotFoundError
from sluice_jvm.launch import JvmStartError
from sluice_pipeline.dsl import TopologyError, load_topology
from sluice_pipeline.engine.session import Engine, is_local, start_engine
from sluice_pipeline.observer import Observer, Unwatched
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.plan import SubtopologyPlan, TopologyPlan
from sluice_pipeline.source.batch import RecordSource
from sluice_pipeline.source.consumer_source import ConsumerSource
from sluice_pipeline.source.spark_source import (
    KafkaReader,
    SparkSource,
    UntranslatableSettingsError,
    require_translatable,
)
from sluice_pipeline.state.directory import StateDirectory, StateDirectoryError
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_pipeline.worker.worker import EXIT_REFUSED, Worker
from sluice_protocol.launch import WorkerLaunch

log = logging.getLogger(__name__)

_MISTAKES = (
    StateDirectoryError,
    TopologyError,
    JavaNotFoundError,
    JarsNotResolvedError,
    JvmStartError,
    UntranslatableSettingsError,
)
_SOURCE_PATIENCE_SECONDS = 0.0


def run_worker(launch: WorkerLaunch, secret: str, observer: Observer | None = None) -> int:
    """Run one worker until it is asked to end; returns the exit code (2 and 3: a person has to act; 70: try again)."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s %(levelname)s {launch.worker}: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.ERROR)
    try:
        state = StateDirectory(Path(launch.state_dir), launch.application_id)
        topology = load_topology(launch.pipeline)
        engine = _start_engine(launch)
    except _MISTAKES as error:
        log.error("%s", error)  # noqa: TRY400 - a person's mistake is no traceback
        return EXIT_REFUSED
    try:
        plan = topology.build(engine.spark, application_id=launch.application_id)
    except TopologyError as error:
        log.error("%s", error)  # noqa: TRY400
        engine.stop()
        return EXIT_REFUSED
    return _work(launch, secret, plan, engine, state, observer or Unwatched())


def _start_engine(launch: WorkerLaunch) -> Engine:
    master = _master(launch)
    if is_local(master):
        return start_engine(master, launch.threads, launch.spark_conf)
    require_translatable(launch.kafka_config)
    return start_engine(master, launch.threads, launch.spark_conf, jars=resolve(SPARK_KAFKA))


def _master(launch: WorkerLaunch) -> str:
    return launch.master or f"local[{launch.threads}]"


def _work(
    launch: WorkerLaunch, secret: str, plan: TopologyPlan, engine: Engine, state: StateDirectory, observer: Observer
) -> int:
    metrics = WorkerMetrics()
    if launch.metrics_port is not None:
        start_http_server(launch.metrics_port, addr="127.0.0.1", registry=metrics.registry)

    worker = Worker(launch, secret, plan, engine, state, _sources(launch, engine), observer, metrics)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.terminate())
    try:
        return worker.run()
    finally:
        engine.stop()


def _sources(launch: WorkerLaunch, engine: Engine) -> Callable[[SubtopologyPlan], RecordSource]:
    """The side of the source seam that suits the master."""
    if is_local(_master(launch)):
        return lambda plan: ConsumerSource(launch.bootstrap_servers, launch.kafka_config, plan.source)
    # Executors join no group; the prefix lets whoever may use the application's group use this one.
    reader = KafkaReader(launch.bootstrap_servers, f"{launch.application_id}-executors")
    offsets = Offsets(launch.bootstrap_servers, launch.kafka_config, reader.group, _SOURCE_PATIENCE_SECONDS)
    return lambda plan: SparkSource(engine.spark, reader, offsets, plan.source)
