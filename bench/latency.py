"""End-to-end latency at a low rate: from the call that produces a record to its result at a read-committed consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.ground import Ground, Job
from bench.records import producer, value_of

RATE = 10
_WARM_UP_SECONDS = 10
_START_SECONDS = 120.0
_LAST_RESULT_SECONDS = 30.0


class ResultMissingError(RuntimeError):
    """A record was produced and its result never came."""


@dataclass(slots=True)
class _Sink:
    """Notes when each key is first seen in a topic."""

    ground: Ground
    topic: str
    partitions: int
    seen: dict[bytes, float] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        consumer = Consumer(
            {
                **self.ground.client,
                "group.id": f"{self.topic}-latency",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(self.partitions)])
        while not self.stopping.is_set():
            message = consumer.poll(0.1)
            at = time.perf_counter()
            if message is not None and message.error() is None:
                with self.changed:
                    self.seen.setdefault(message.key() or b"", at)
                    self.changed.notify_all()
        consumer.close()


def measure_latency(ground: Ground, job: Job, seconds: int) -> list[float]:
    """Produce RATE records a second, each of a user of its own; milliseconds until each result was visible.

    Begins when the engine has answered a first record; then some seconds warm it up and are not counted. Raises
    ResultMissingError.
    """
    watch = _Sink(ground, job.sink, job.partitions)
    thread = threading.Thread(target=watch.run, name="latency-sink", daemon=True)
    thread.start()
    try:
        sender = producer(ground, linger_ms=0)
        _await_results(watch, _send(sender, job.source, ["ready"]), _START_SECONDS)
        _await_results(watch, _send(sender, job.source, _names("warm-up", _WARM_UP_SECONDS)), _LAST_RESULT_SECONDS)
        sent = _send(sender, job.source, _names("latency", seconds))
        _await_results(watch, sent, _LAST_RESULT_SECONDS)
    finally:
        watch.stopping.set()
        thread.join()
    return [(watch.seen[user] - at) * 1000 for user, at in sent.items()]


def _names(kind: str, seconds: int) -> list[str]:
    return [f"{kind}-{index:06d}" for index in range(seconds * RATE)]


def _send(sender: Producer, topic: str, users: Sequence[str]) -> dict[bytes, float]:
    """Send a record of each user at the rate; when each was sent."""
    sent, pause, began = {}, threading.Event(), time.perf_counter()
    for index, user in enumerate(users):
        pause.wait(max(0.0, began + index / RATE - time.perf_counter()))
        sent[user.encode()] = time.perf_counter()
        sender.produce(topic, value_of(user, index), user)
        sender.poll(0)
    sender.flush()
    return sent


def _await_results(watch: _Sink, sent: dict[bytes, float], timeout: float) -> None:
    with watch.changed:
        watch.changed.wait_for(lambda: sent.keys() <= watch.seen.keys(), timeout)
        missing = len(sent.keys() - watch.seen.keys())
    if missing:
        raise ResultMissingError(f"{missing} of {len(sent)} records had no result in {watch.topic} in {timeout:.0f} s")
