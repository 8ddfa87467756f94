"""Loading the input topic: a part at once, the rest at a steady rate, until told to hurry up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from confluent_kafka import Producer
from data import Record

TOPIC = "flights"
_ROOM_SECONDS = 0.1


class Feeder(threading.Thread):
    """Sends what is left of the records at a steady rate in a thread of its own."""

    def __init__(self, bootstrap_servers: str, records: Iterator[Record], rate: int) -> None:
        super().__init__(name="feeder", daemon=True)
        # Java's default partitioner, so that a record lies where its key's state is.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "log_level": 2,  # the broker ends before this does, which is no news
            }
        )
        self._records = records
        self._rate = rate
        self._hurry = threading.Event()
        self.sent = 0
        self.broken = 0

    def load(self, count: int) -> None:
        """Send so many records at once, before the thread starts."""
        for _ in range(count):
            self._send(next(self._records))
        self._producer.flush()

    def run(self) -> None:
        """Thread entry."""
        started, before = time.monotonic(), self.sent
        for record in self._records:
            self._send(record)
            ahead = (self.sent - before) / self._rate - (time.monotonic() - started)
            if ahead > 0.01:
                self._hurry.wait(ahead)
        self._producer.flush()

    def finish(self) -> None:
        """Send the rest as fast as it goes, and return when it is in Kafka."""
        self._hurry.set()
        self.join()

    def _send(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, record.value, record.key)
                break
            except BufferError:  # the broker is slower than we are
                self._producer.poll(_ROOM_SECONDS)
        self._producer.poll(0)
        self.sent += 1
        self.broken += record.broken
