"""The loop of one subtopology on one worker: read, evaluate, commit, store; and between two batches, change tasks.

The order of effects is fixed: the Kafka transaction commits first, RocksDB is written after it. A crash in between
leaves the stores behind their changelogs, where a restore finds what is missing; the other way round, a store would
hold what never happened.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sluice_pipeline.codecs.state import StateEncodingError
from sluice_pipeline.engine.evaluation import Evaluation, Outcome, StoreUpdate, TransformationFailingError
from sluice_pipeline.observer import Observer, Step
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.source.batch import Batch, OffsetOutOfRangeError, Partition, RecordSource, Rejected
from sluice_pipeline.state.directory import TaskDirectory
from sluice_pipeline.state.store import StoreError
from sluice_pipeline.transaction import ProducerDeadError, TransactionAbortedError, Transactions
from sluice_pipeline.worker.dead_letters import dead_letter_headers
from sluice_pipeline.worker.events import (
    LoopCrashed,
    LoopEvent,
    LoopStopped,
    ProducerDied,
    TaskBroke,
    TaskReleased,
    TaskStopped,
)
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_protocol.heartbeat import FailedTask
from sluice_protocol.ids import Epoch, TaskId

log = logging.getLogger(__name__)

MAX_BATCH = 200_000
FIRST_BATCH = 10_000
"""The first batch after a task came is small, so that it is seen to run and may be taken away again soon."""

_BATCH_SECONDS = 1.0
_IDLE_SECONDS = 0.02
_RETRY_SECONDS = 0.2
_PURGE_SECONDS = 30.0
_RECOMMIT_SECONDS = 86_400.0


@dataclass(slots=True)
class RunningTask:
    """A task that this loop runs. `directory` is None when it keeps no state."""

    id: TaskId
    epoch: Epoch
    directory: TaskDirectory | None
    positions: dict[Partition, int]


@dataclass(frozen=True, slots=True)
class _Add:
    task: RunningTask
    commit_first: bool


@dataclass(frozen=True, slots=True)
class _Release:
    task: TaskId


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What a loop is told once."""

    worker: str
    subtopology: int
    dead_letter_topic: str | None
    purge_source: bool


class TaskLoop(threading.Thread):
    """Runs the active tasks of one subtopology until stopped, or until its producer dies."""

    def __init__(
        self,
        settings: LoopSettings,
        source: RecordSource,
        evaluation: Evaluation,
        transactions: Transactions,
        offsets: Offsets,
        on_event: Callable[[LoopEvent], None],
        observer: Observer,
        metrics: WorkerMetrics,
    ) -> None:
        super().__init__(name=f"loop-{settings.subtopology}", daemon=True)
        self._settings = settings
        self._source = source
        self._evaluation = evaluation
        self._transactions = transactions
        self._offsets = offsets
        self._on_event = on_event
        self._observer = observer
        self._metrics = metrics
        self._commands: queue.SimpleQueue[_Add | _Release | _Stop] = queue.SimpleQueue()
        self._waiting: _Add | _Release | _Stop | None = None
        self._tasks: dict[int, RunningTask] = {}
        self._limit = FIRST_BATCH
        self._rate = 0.0
        self._purged_at = self._recommitted_at = time.monotonic()
        self.working_since: float | None = None
        """When the present turn began, for whoever watches for a hung loop; None while idle."""
        self.records = 0
        self.busy_seconds = 0.0

    # --- from the worker's thread

    def add(self, task: RunningTask, *, commit_first: bool) -> None:
        """Run a task from its positions on; `commit_first` when the group has no offset of it yet."""
        self._commands.put(_Add(task, commit_first))

    def release(self, task: TaskId) -> None:
        """After the batch in hand: close the task's stores, and say TaskReleased."""
        self._commands.put(_Release(task))

    def stop(self) -> None:
        """After the batch in hand: close everything, and say LoopStopped."""
        self._commands.put(_Stop())

    def close_what_never_ran(self) -> None:
        """Once the loop has ended: close the stores of tasks that it was given and never took.

        A producer that dies while one task is taken leaves those behind it; their locks would outlive the membership.
        """
        left = [] if self._waiting is None else [self._waiting]
        while not self._commands.empty():
            left.append(self._commands.get())
        for command in left:
            if isinstance(command, _Add) and command.task.directory is not None:
                command.task.directory.close()

    # --- the loop

    def run(self) -> None:
        """Thread entry."""
        last = self._run()
        try:
            self._end()
        except Exception as error:  # whatever happens, the worker hears that this loop is gone
            log.exception("closing the loop of subtopology %d", self._settings.subtopology)
            last = LoopCrashed(self._settings.subtopology, f"{type(error).__name__} while closing: {error}")
        self._on_event(last)

    def _run(self) -> LoopEvent:
        try:
            while self._obey():
                if self._tasks:
                    self._turn()
        except ProducerDeadError as error:
            return ProducerDied(self._settings.subtopology, str(error))
        except Exception as error:  # the process ends on it: it may not go on with a loop missing
            log.exception("loop of subtopology %d", self._settings.subtopology)
            return LoopCrashed(self._settings.subtopology, f"{type(error).__name__}: {error}")
        return LoopStopped(self._settings.subtopology)

    def _end(self) -> None:
        self.working_since = None
        for task in self._tasks.values():
            if task.directory is not None:
                task.directory.close()
        self._tasks.clear()
        self._source.close()
        self._transactions.close()

    def _obey(self) -> bool:
        """Carry out what was asked; wait for it when there is nothing to run. False = stop."""
        while True:
            try:
                command = self._waiting or self._commands.get(block=not self._tasks)
            except queue.Empty:
                return True
            self._waiting = None
            if isinstance(command, _Stop):
                return False
            if isinstance(command, _Add):
                self._add(command)
            else:
                self._release(command.task)

    def _add(self, command: _Add) -> None:
        task = command.task
        self._tasks[task.id.partition] = task
        if command.commit_first:
            self._commit_positions([task])
        self._source.assign(task.positions)
        self._limit = FIRST_BATCH

    def _release(self, task_id: TaskId) -> None:
        task = self._tasks.pop(task_id.partition, None)
        if task is None:
            self._on_event(TaskReleased(task_id, None))
            return
        self._source.unassign(task.positions.keys())
        self._on_event(TaskReleased(task_id, self._close(task)))

    def _close(self, task: RunningTask) -> Mapping[str, int]:
        if task.directory is None:
            return {}
        boundaries = task.directory.boundaries()
        task.directory.close()
        self._observer.reached(Step.RELEASED)
        return boundaries

    def _turn(self) -> None:
        try:
            batch = self._source.read(self._limit, _IDLE_SECONDS)
        except OffsetOutOfRangeError as error:
            self._stop_task(
                error.partition, "OffsetOutOfRange", f"{error}; its next record is gone from the log", topic=error.topic
            )
            return
        self._maintain()
        if batch is None:
            return
        started = self.working_since = time.monotonic()
        self._process(batch)
        self.working_since = None
        self._account(batch, batch.read_seconds + time.monotonic() - started)

    def _account(self, batch: Batch, seconds: float) -> None:
        self.records += batch.records
        self.busy_seconds += seconds
        self._metrics.batch(self._settings.subtopology, batch.records, seconds)
        if batch.is_full:
            self._rate = batch.records / max(seconds, 0.001)
        if self._rate:
            self._limit = int(min(MAX_BATCH, max(FIRST_BATCH, self._rate * _BATCH_SECONDS)))
        else:
            self._limit = MAX_BATCH if batch.records < FIRST_BATCH else FIRST_BATCH

    # --- one batch

    def _process(self, batch: Batch) -> None:
        try:
            outcome, ends = self._evaluate(batch)
        except TransformationFailingError as error:
            self._stop_tasks_of(batch, "TransformationFailing", str(error))
            return
        except StateEncodingError as error:  # a restore would bring the same values back
            self._stop_tasks_of(batch, "StateUnreadable", str(error))
            return
        except StoreError as error:
            self._break_tasks({partition for _, partition in batch.starts}, str(error))
            return
        if not ends:
            return
        try:
            delivered = self._commit(outcome, ends)
        except TransactionAbortedError as error:
            log.warning("%s; reading again from the last commit", error)
            self._metrics.aborted(self._settings.subtopology)
            self._source.rewind({where: batch.starts[where] for where in ends})
            self._pause(_RETRY_SECONDS)
            return
        self._store(outcome.updates, delivered)
        for (topic, partition), end in ends.items():
            self._tasks[partition].positions[topic, partition] = end

    def _pause(self, seconds: float) -> None:
        """Wait, unless there is something to do; that stays first in the order."""
        if self._waiting is None:
            with contextlib.suppress(queue.Empty):
                self._waiting = self._commands.get(timeout=seconds)

    def _evaluate(self, batch: Batch) -> tuple[Outcome, dict[Partition, int]]:
        """Compute the batch. Where records may not be dead-lettered, their tasks stop and are left out of it."""
        stores = {p: task.directory.stores for p, task in self._tasks.items() if task.directory is not None}
        rows, stopped = batch.rows, self._stop_if_asked(batch.rejected)
        if stopped:
            rows = rows.without_partitions(stopped)
        outcome = self._evaluation.evaluate(rows, stores)
        raised = self._stop_if_asked(outcome.rejected)
        if raised:
            stopped |= raised
            outcome = self._evaluation.evaluate(rows.without_partitions(stopped), stores)
        outcome.rejected = [*batch.rejected, *outcome.rejected]
        self._metrics.dropped(self._settings.subtopology, null_keys=outcome.null_keys, tombstones=batch.tombstones)
        return outcome, {where: end for where, end in batch.ends.items() if where[1] in self._tasks}

    def _stop_if_asked(self, rejected: Iterable[Rejected]) -> set[int]:
        if self._settings.dead_letter_topic is not None:
            return set()
        stopped: set[int] = set()
        for one in rejected:
            record = one.record
            if record.partition not in stopped:
                stopped.add(record.partition)
                self._stop_task(
                    record.partition, "RecordRejected", f"{one.reason}", topic=record.topic, offset=record.offset
                )
        return stopped

    def _commit(self, outcome: Outcome, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        self._transactions.begin()
        for update in outcome.updates:
            self._transactions.produce_to(update.changelog, update.partition, update.keys, update.values)
        for records in outcome.records:
            self._transactions.produce(records.topic, records.keys, records.values, records.timestamps)
        self._produce_dead_letters(outcome.rejected)
        return self._transactions.commit({where: (end, self._witness(where[1])) for where, end in ends.items()})

    def _produce_dead_letters(self, rejected: Iterable[Rejected]) -> None:
        topic = self._settings.dead_letter_topic
        for one in rejected:
            if topic is not None:
                self._transactions.produce_with_headers(
                    topic, one.record.key, one.record.value, dead_letter_headers(one, self._settings.subtopology)
                )
                self._metrics.dead_letter(self._settings.subtopology)

    def _witness(self, partition: int) -> str:
        """Who commits, and by which grant: read by tests and people, independently of the coordinator."""
        return f"{self._settings.worker}@{self._tasks[partition].epoch}"

    def _store(self, updates: Iterable[StoreUpdate], delivered: Mapping[Partition, int]) -> None:
        broken: dict[int, str] = {}
        for update in updates:
            directory = self._tasks[update.partition].directory
            if directory is None or update.partition in broken:
                continue
            try:
                directory.stores[update.store].write(
                    zip(update.keys, update.values, strict=True), delivered[update.changelog, update.partition]
                )
            except StoreError as error:
                broken[update.partition] = str(error)
        for partition, message in broken.items():
            self._break_tasks({partition}, message)
        self._observer.reached(Step.STORED)

    # --- tasks that can't go on

    def _stop_tasks_of(self, batch: Batch, reason: str, message: str) -> None:
        for partition in {partition for _, partition in batch.starts}:
            self._stop_task(partition, reason, message)

    def _stop_task(
        self, partition: int, reason: str, message: str, *, topic: str | None = None, offset: int | None = None
    ) -> None:
        """The task stays here, stopped, until somebody resumes it."""
        task = self._tasks.pop(partition, None)
        if task is None:
            return
        self._source.unassign(task.positions.keys())
        if task.directory is not None:
            task.directory.close()
        failed = FailedTask(task.id, reason, message, topic, partition if topic else None, offset)
        self._on_event(TaskStopped(task.id, failed))

    def _break_tasks(self, partitions: Iterable[int], message: str) -> None:
        """The tasks' stores can't be trusted: close them; the worker restores and goes on from the committed offset."""
        for partition in partitions:
            task = self._tasks.pop(partition, None)
            if task is None:
                continue
            self._source.unassign(task.positions.keys())
            if task.directory is not None:
                task.directory.close()
            self._on_event(TaskBroke(task.id, message))

    # --- now and then

    def _maintain(self) -> None:
        now = time.monotonic()
        if now - self._recommitted_at >= _RECOMMIT_SECONDS:
            self._recommitted_at = now
            self._commit_positions(self._tasks.values())  # Kafka forgets offsets that nobody commits
        if self._settings.purge_source and now - self._purged_at >= _PURGE_SECONDS:
            self._purged_at = now
            self._offsets.delete_before(
                {where: offset for task in self._tasks.values() for where, offset in task.positions.items()}
            )

    def _commit_positions(self, tasks: Iterable[RunningTask]) -> None:
        positions = {
            where: (offset, self._witness(where[1])) for task in tasks for where, offset in task.positions.items()
        }
        while positions:
            try:
                self._transactions.begin()
                self._transactions.commit(positions)
            except TransactionAbortedError as error:
                log.warning("%s; trying again", error)
                self._pause(_RETRY_SECONDS)
            else:
                return
