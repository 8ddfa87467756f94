"""The records that every engine reads: one loader, one feeder, one reader of the results.

JSON values of about 137 bytes, keyed by user as Java's default partitioner places them. They follow from the seed
alone, so that the truth is known while loading and every result can be compared with it, key by key.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.ground import Ground

Totals = dict[str, tuple[int, int]]
"""Count and sum of prices by user."""

_NOTE = "x" * 36
_VALUE = '{"user":"%s","item":%d,"price":%d,"qty":%d,"ts":%d,"country":"DE","note":"' + _NOTE + '"}'
_RESULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """A loaded topic and what counting and summing it must give."""

    topic: str
    records: int
    truth: Totals


def user_name(number: int) -> str:
    """The key of a record."""
    return f"user-{number:07d}"


def value_of(user: str, index: int) -> bytes:
    """The JSON value of the record with this index."""
    return (_VALUE % (user, index, index % 1000, index % 7, 1_700_000_000_000 + index)).encode()


def users(records: int, keys: int, seed: int = 7) -> Iterator[str]:
    """The users of so many records: every one at least once where there are enough records, then at random."""
    chance = random.Random(seed)
    first = list(range(min(keys, records)))
    chance.shuffle(first)
    yield from map(user_name, first)
    for _ in range(records - len(first)):
        yield user_name(chance.randrange(keys))


def load(ground: Ground, topic: str, records: int, keys: int, partitions: int) -> Load:
    """Create the topic and fill it."""
    ground.create_topic(topic, partitions)
    sender = producer(ground, linger_ms=20)
    truth: Totals = {}
    for index, user in enumerate(users(records, keys)):
        count, total = truth.get(user, (0, 0))
        truth[user] = (count + 1, total + index % 1000)
        _produce(sender, topic, user, value_of(user, index))
    sender.flush()
    return Load(topic, records, truth)


def producer(ground: Ground, linger_ms: int) -> Producer:
    """A producer that places keys as Java's does."""
    return Producer(
        {
            **ground.client,
            "partitioner": "murmur2_random",
            "linger.ms": linger_ms,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 500_000,
            "enable.idempotence": True,
        }
    )


def _produce(sender: Producer, topic: str, user: str, value: bytes) -> None:
    while True:
        try:
            sender.produce(topic, value, user)
        except BufferError:
            sender.poll(0.1)
        else:
            return


class Feeder:
    """Produces records at a steady rate in a thread, over all keys in turn, until closed."""

    def __init__(self, ground: Ground, topic: str, rate: int, keys: int) -> None:
        self._producer = producer(ground, linger_ms=5)
        self._topic, self._rate, self._keys = topic, rate, keys
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        began, sent, chance = time.monotonic(), 0, random.Random(1)
        while not self._stopping.wait(0.01):
            due = int((time.monotonic() - began) * self._rate)
            for index in range(sent, due):
                user = user_name(chance.randrange(self._keys))
                _produce(self._producer, self._topic, user, value_of(user, index))
            sent = due
            self._producer.poll(0)


def read_result(ground: Ground, topic: str, partitions: int) -> Totals:
    """The last count and total of every user in an output topic, read committed. Raises TimeoutError."""
    consumer = Consumer(
        {
            **ground.client,
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    result: Totals = {}
    ended: set[int] = set()
    deadline = time.monotonic() + _RESULT_SECONDS
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} was not read to its end within {_RESULT_SECONDS:.0f} s")
        for message in consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                row = json.loads(message.value() or b"{}")
                result[(message.key() or b"").decode()] = (row["count"], row["total"])
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
    consumer.close()
    return result


class WrongResultError(AssertionError):
    """An engine's result is not the truth: its figures are worth nothing."""


def check_result(engine: str, result: Totals, truth: Totals) -> None:
    """Compare key by key. Raises WrongResultError naming the first difference."""
    if result == truth:
        return
    user = next(user for user in sorted(truth.keys() | result.keys()) if truth.get(user) != result.get(user))
    raise WrongResultError(
        f"{engine}: {user} has (count, total) {result.get(user)}, it should be {truth.get(user)}; "
        f"{_counted(result)} records counted, {_counted(truth)} loaded"
    )


def _counted(totals: Totals) -> int:
    return sum(count for count, _ in totals.values())
