"""A restorer process: one consumer that follows the changelogs of all its tasks and applies them to their stores.

One sorted write batch per store and call. The end of a restore is recognised by one of two facts: everything up to
the log end (read *uncommitted*, after the predecessor let go or was fenced) was passed, or the partition's end was
reached while the last stable offset was already past that log end. End-of-partition alone may come too early,
since commit markers are written after `commit_transaction` returns; positions alone may never come, since aborted
and compacted tails move nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from sluice_pipeline import clients
from sluice_pipeline.restore.messages import (
    Command,
    Event,
    Failed,
    Finish,
    Finished,
    Follow,
    Opened,
    Progress,
    Stop,
    Stopped,
)
from sluice_pipeline.state.directory import StateDirectoryError, TaskDirectory, directory_size
from sluice_pipeline.state.store import Store, StoreError
from sluice_protocol.ids import TaskId

log = logging.getLogger(__name__)

_RECORDS_A_CALL = 5_000
_IDLE_SECONDS = 0.01
_REPORT_SECONDS = 0.1
_ENDS_SECONDS = 1.0
_SIZE_SECONDS = 5.0
_UNKNOWN = -1
_NICENESS = 5
"""Copies are for later; batches are for now, and where both want the processor, batches go first (KIP-441)."""


@dataclass(slots=True)
class _Changelog:
    """One store's changelog partition and how far it has been read."""

    task: TaskId
    store: Store
    topic: str
    partition: int
    end: int = _UNKNOWN
    target: int | None = None
    stable_past_target: bool = False
    done: bool = False


@dataclass(slots=True)
class _Task:
    """One task that this process holds open."""

    directory: TaskDirectory
    changelogs: list[_Changelog]
    finishing: bool = False
    records: int = 0
    size_in_bytes: int = 0
    applied_bytes: int = 0
    rate: float = 0.0
    reported_at: float = 0.0
    reported_records: int = 0
    sized_at: float = 0.0
    at_end: bool = False
    news: bool = True


@dataclass(slots=True)
class _Throttle:
    """A budget of bytes per second for copies that nobody waits for."""

    bytes_per_second: int | None
    free_at: float = 0.0

    def spend(self, size: int, now: float) -> None:
        """Account for what was applied."""
        if self.bytes_per_second:
            self.free_at = max(self.free_at, now) + size / self.bytes_per_second

    def wait_seconds(self, now: float) -> float:
        """How long to leave the consumer alone."""
        return max(0.0, self.free_at - now)


@dataclass(slots=True)
class Restorer:
    """The loop of the process. `connection` brings commands and takes events."""

    connection: Connection
    consumer: Consumer
    throttle: _Throttle
    _tasks: dict[TaskId, _Task] = field(default_factory=dict)
    _changelogs: dict[tuple[str, int], _Changelog] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _ends_at: float = 0.0

    def run(self) -> None:
        """Serve until the worker closes the pipe (it ends or dies)."""
        try:
            while True:
                self._obey(wait=None if not self._tasks else 0.0)
                self._read()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            for task in self._tasks.values():
                task.directory.close()

    def _obey(self, wait: float | None) -> None:
        while self.connection.poll(wait):
            command: Command = self.connection.recv()
            if isinstance(command, Follow):
                self._follow(command)
            elif isinstance(command, Finish):
                self._finish(command)
            else:
                self._stop(command)
            wait = 0.0

    # --- commands

    def _follow(self, command: Follow) -> None:
        task = command.identity.task
        try:
            directory = TaskDirectory(Path(command.directory), command.identity, command.max_age_seconds)
        except (StateDirectoryError, StoreError, OSError) as error:
            self._tell(Failed(task, str(error)))
            return
        wiped = directory.wiped_because
        changelogs = []
        for identity in command.identity.stores:
            store = directory.stores[identity.name]
            start, end = command.log_starts[identity.name], command.log_ends[identity.name]
            if store.boundary and not start <= store.boundary <= end:
                wiped = f"it stands at {store.boundary} and the changelog holds {start} to {end}"
                store = directory.restart_store(identity.name)
            store.boundary = max(store.boundary, start)
            changelogs.append(_Changelog(task, store, identity.changelog, task.partition, end=_UNKNOWN))
        self._tasks[task] = _Task(directory, changelogs)
        for changelog in changelogs:
            self._changelogs[changelog.topic, changelog.partition] = changelog
        for topic in {changelog.topic for changelog in changelogs} - self._known:
            clients.know_topic(self.consumer, topic)
            self._known.add(topic)
        self.consumer.incremental_assign([_position(changelog) for changelog in changelogs])
        self._tell(Opened(task, wiped))

    def _finish(self, command: Finish) -> None:
        task = self._tasks.get(command.task)
        if task is None:
            return
        for changelog in task.changelogs:
            name = changelog.store.path.name
            changelog.target, changelog.stable_past_target = command.ends[name], False
            changelog.done = changelog.store.boundary >= command.ends[name]
        task.finishing = True
        self._prefer_finishing()
        self._close_if_finished(command.task)

    def _stop(self, command: Stop) -> None:
        if command.task in self._tasks:
            self._tell(Stopped(command.task, self._close(command.task)))

    def _close(self, task_id: TaskId) -> Mapping[str, int]:
        task = self._tasks.pop(task_id)
        for changelog in task.changelogs:
            del self._changelogs[changelog.topic, changelog.partition]
        self.consumer.incremental_unassign([_position(changelog) for changelog in task.changelogs])
        boundaries = task.directory.boundaries()
        for changelog in task.changelogs:
            changelog.store = None  # type: ignore[assignment]  # a reference would keep the files open
        task.directory.close()
        self._prefer_finishing()
        return boundaries

    def _prefer_finishing(self) -> None:
        """While a task is about to run, everything else stands still: somebody waits for that one."""
        finishing = any(task.finishing for task in self._tasks.values())
        others = [
            _position(changelog) for task in self._tasks.values() if not task.finishing for changelog in task.changelogs
        ]
        if others:
            (self.consumer.pause if finishing else self.consumer.resume)(others)
        urgent = [_position(c) for task in self._tasks.values() if task.finishing for c in task.changelogs]
        if urgent:
            self.consumer.resume(urgent)

    # --- reading

    def _read(self) -> None:
        now = time.monotonic()
        finishing = [task for task in self._tasks.values() if task.finishing]
        pause = 0.0 if finishing else self.throttle.wait_seconds(now)
        messages = [] if pause else self.consumer.consume(_RECORDS_A_CALL, 0.0)
        if messages:
            self._apply(messages)
        for task in finishing:
            self._check_ends(task)
        self._report()
        if not messages and self._tasks:
            self._obey(wait=min(pause, _REPORT_SECONDS) if pause else _IDLE_SECONDS)

    def _apply(self, messages: list[Message]) -> None:
        updates: dict[tuple[str, int], dict[bytes, bytes | None]] = {}
        boundaries: dict[tuple[str, int], int] = {}
        ended: list[tuple[str, int]] = []
        current: dict[bytes, bytes | None] = {}
        last: tuple[str, int] | None = None
        counts: dict[tuple[str, int], int] = {}
        for message in messages:
            where = (message.topic(), message.partition())
            if message.error() is not None:
                self._note(message, where, boundaries, ended)
                continue
            if where != last:
                current, last = updates.setdefault(where, {}), where  # type: ignore[assignment,arg-type]
            key = message.key()
            if key is not None:
                current[key] = message.value()
            boundaries[where] = message.offset() + 1  # type: ignore[operator,index]
            counts[where] = counts.get(where, 0) + 1  # type: ignore[arg-type,index]
        size = 0
        for where, boundary in boundaries.items():
            size += self._write(where, updates.get(where, {}), boundary, counts.get(where, 0))
        for where in ended:
            self._reached_end(where)
        self.throttle.spend(size, time.monotonic())

    def _note(
        self, message: Message, where: tuple[object, object], boundaries: dict[tuple[str, int], int],
        ended: list[tuple[str, int]],
    ) -> None:  # fmt: skip
        error = message.error()
        topic, partition = where
        if not isinstance(topic, str) or not isinstance(partition, int) or error is None:
            log.warning("changelog consumer: %s", error)
        elif error.code() == KafkaError._PARTITION_EOF:
            offset = message.offset()
            boundaries[topic, partition] = max(boundaries.get((topic, partition), 0), offset or 0)
            ended.append((topic, partition))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._lost(topic, partition)
        elif not error.retriable():
            log.warning("changelog %s-%s: %s", topic, partition, error)

    def _lost(self, topic: str, partition: int) -> None:
        """The offset is no longer in the log (compacted away while we stood still): from scratch."""
        changelog = self._changelogs.get((topic, partition))
        if changelog is None:
            return
        low, _ = self.consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=5.0)
        directory = self._tasks[changelog.task].directory
        changelog.store = directory.restart_store(changelog.store.path.name)
        changelog.store.boundary = low
        self._read_again(changelog)

    def _write(self, where: tuple[str, int], update: dict[bytes, bytes | None], boundary: int, count: int) -> int:
        changelog = self._changelogs.get(where)
        if changelog is None:
            return 0
        task = self._tasks[changelog.task]
        boundary = max(boundary, changelog.store.boundary)
        if not update and boundary == changelog.store.boundary:
            return 0
        try:
            changelog.store.write(sorted(update.items()), boundary)
        except StoreError as error:
            self._close(changelog.task)
            self._tell(Failed(changelog.task, str(error)))
            return 0
        size = sum(map(len, update)) + sum(len(value) for value in update.values() if value is not None)
        task.records += count
        task.applied_bytes += size
        changelog.end = max(changelog.end, boundary) if changelog.end != _UNKNOWN else _UNKNOWN
        if changelog.target is not None and boundary >= changelog.target:
            changelog.done = True
        return size

    def _reached_end(self, where: tuple[str, int]) -> None:
        changelog = self._changelogs.get(where)
        if changelog is None:
            return
        changelog.end = changelog.store.boundary
        if changelog.target is not None and changelog.stable_past_target:
            changelog.done = True
        task = self._tasks[changelog.task]
        if all(part.end == part.store.boundary for part in task.changelogs) and not task.at_end:
            task.at_end = task.news = True

    def _check_ends(self, task: _Task) -> None:
        for changelog in task.changelogs:
            if changelog.done or changelog.stable_past_target or changelog.target is None:
                continue
            partition = TopicPartition(changelog.topic, changelog.partition)
            _, stable = self.consumer.get_watermark_offsets(partition, timeout=5.0, cached=False)
            if stable >= changelog.target:
                changelog.stable_past_target = True
                self._read_again(changelog)
        self._close_if_finished(task.changelogs[0].task)

    def _read_again(self, changelog: _Changelog) -> None:
        """Ask for the partition anew, so that the next end-of-partition is of a fetch made after now."""
        self.consumer.incremental_unassign([TopicPartition(changelog.topic, changelog.partition)])
        self.consumer.incremental_assign([_position(changelog)])

    def _close_if_finished(self, task_id: TaskId) -> None:
        task = self._tasks[task_id]
        if task.finishing and all(changelog.done for changelog in task.changelogs):
            self._report_task(task_id, task, time.monotonic())
            self._tell(Finished(task_id, self._close(task_id)))

    # --- reporting

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._ends_at >= _ENDS_SECONDS:
            self._ends_at = now
            self._refresh_ends()
        for task_id, task in self._tasks.items():
            moved = task.records != task.reported_records
            if task.news or (moved and now - task.reported_at >= _REPORT_SECONDS):
                self._report_task(task_id, task, now)

    def _refresh_ends(self) -> None:
        for changelog in self._changelogs.values():
            partition = TopicPartition(changelog.topic, changelog.partition)
            try:
                _, stable = self.consumer.get_watermark_offsets(partition, timeout=1.0, cached=False)
            except Exception as error:
                log.warning("end of %s-%d: %s", changelog.topic, changelog.partition, error)
                return
            if changelog.end != stable:
                self._tasks[changelog.task].news = True
            changelog.end = max(stable, changelog.store.boundary)
            if changelog.end > changelog.store.boundary:
                self._tasks[changelog.task].at_end = False

    def _report_task(self, task_id: TaskId, task: _Task, now: float) -> None:
        elapsed = now - task.reported_at
        if 0 < elapsed < 10 * _ENDS_SECONDS:
            recent = (task.records - task.reported_records) / elapsed
            task.rate = recent if not task.rate else 0.7 * task.rate + 0.3 * recent
        if now - task.sized_at >= _SIZE_SECONDS:
            task.sized_at, task.size_in_bytes = now, directory_size(task.directory.path)
        task.reported_at, task.reported_records, task.news = now, task.records, False
        ends = [changelog.end for changelog in task.changelogs]
        self._tell(
            Progress(
                task_id,
                sum(changelog.store.boundary for changelog in task.changelogs),
                _UNKNOWN if _UNKNOWN in ends else sum(ends),
                round(task.rate),
                task.records,
                task.applied_bytes,
                task.size_in_bytes,
            )
        )

    def _tell(self, event: Event) -> None:
        self.connection.send(event)


def _position(changelog: _Changelog) -> TopicPartition:
    return TopicPartition(changelog.topic, changelog.partition, changelog.store.boundary)


def main() -> None:
    """Entry point of the process; the worker passes the pipe's descriptor."""
    parser = argparse.ArgumentParser(prog="sluice-restorer")
    parser.add_argument("--descriptor", type=int, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--bytes-per-second", type=int)
    arguments = parser.parse_args()
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when we end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s restorer: %(message)s")
    kafka_config = json.loads(os.environ.get("SLUICE_KAFKA_CONFIG", "{}"))
    consumer = Consumer(clients.consumer(arguments.bootstrap, kafka_config, **{"enable.partition.eof": True}))
    Restorer(Connection(arguments.descriptor), consumer, _Throttle(arguments.bytes_per_second)).run()


if __name__ == "__main__":
    main()
