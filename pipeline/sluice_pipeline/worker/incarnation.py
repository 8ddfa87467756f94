"""One membership of a worker: its id, its producers, its loops. A fatal producer error ends it for good."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sluice_pipeline.engine.evaluation import Evaluation
from sluice_pipeline.observer import Observer
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.plan import SubtopologyPlan, TopologyPlan
from sluice_pipeline.source.batch import RecordSource
from sluice_pipeline.transaction import KafkaUnavailableError, ProducerDeadError, Transactions
from sluice_pipeline.worker.events import WorkerEvent
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_pipeline.worker.task_loop import LoopSettings, TaskLoop
from sluice_protocol.heartbeat import HeartbeatAnswer
from sluice_protocol.ids import JOIN, Epoch, transactional_id
from sluice_protocol.launch import WorkerLaunch

SourceFactory = Callable[[SubtopologyPlan], RecordSource]


@dataclass(slots=True)
class Incarnation:
    """What lasts as long as a membership."""

    member_id: str
    loops: Mapping[int, TaskLoop]
    epoch: Epoch = JOIN
    answer: HeartbeatAnswer | None = None

    def stop_loops(self, deadline: float) -> TaskLoop | None:
        """Stop every loop and wait for it, until `deadline` (monotonic); the one that did not stop, if there is one."""
        for loop in self.loops.values():
            loop.stop()
        for loop in self.loops.values():
            loop.join(max(0.0, deadline - time.monotonic()))
        hung = next((loop for loop in self.loops.values() if loop.is_alive()), None)
        if hung is None:
            for loop in self.loops.values():
                loop.close_what_never_ran()
        return hung


@dataclass(frozen=True, slots=True)
class Incarnations:
    """Makes incarnations of one worker process."""

    launch: WorkerLaunch
    plan: TopologyPlan
    evaluations: Mapping[int, Evaluation]
    source_factory: SourceFactory
    offsets: Offsets
    on_event: Callable[[WorkerEvent], None]
    observer: Observer
    metrics: WorkerMetrics

    def begin(self) -> Incarnation:
        """Fence whoever had our transactional ids, for every subtopology, and start loops; then it may join.

        Raises KafkaUnavailableError, ProducerDeadError.
        """
        self.metrics.incarnations.inc()
        transactions = [self._transactions(part) for part in self.plan.subtopologies]
        try:
            with ThreadPoolExecutor(len(transactions)) as pool:
                list(pool.map(Transactions.initialise, transactions))
        except (KafkaUnavailableError, ProducerDeadError):
            for producer in transactions:
                producer.close()
            raise
        parts = zip(self.plan.subtopologies, transactions, strict=True)
        return Incarnation(str(uuid.uuid4()), {part.id: self._loop(part, producer) for part, producer in parts})

    def _transactions(self, part: SubtopologyPlan) -> Transactions:
        launch = self.launch
        name = transactional_id(launch.application_id, launch.worker, part.id)
        return Transactions(
            launch.bootstrap_servers, launch.kafka_config, launch.application_id, name, self.offsets, self.observer
        )

    def _loop(self, part: SubtopologyPlan, producer: Transactions) -> TaskLoop:
        dead_letter_topic = self.plan.description().dead_letter_topic
        loop = TaskLoop(
            LoopSettings(self.launch.worker, part.id, dead_letter_topic, part.source.repartition),
            self.source_factory(part),
            self.evaluations[part.id],
            producer,
            self.offsets,
            self.on_event,
            self.observer,
            self.metrics,
        )
        loop.start()
        return loop
