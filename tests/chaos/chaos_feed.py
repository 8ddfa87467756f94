"""Input that flows while things break: numbered records of many users, each sent exactly once."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

from confluent_kafka import Producer

TOPIC = "events"
USERS = 400
TEAMS = 15


class Feeder(threading.Thread):
    """Sends records at a steady rate until told to finish; an idempotent producer outlives the broker's restarts."""

    def __init__(self, bootstrap_servers: str, rate: int, seed: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,  # never give up: the broker comes back
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._chance = random.Random(seed)
        self._rate = rate
        self._finishing = threading.Event()
        self._failures: list[str] = []
        self.sent = 0

    def run(self) -> None:
        """Thread entry."""
        started = time.monotonic()
        while not self._finishing.wait(0.02):
            due = int((time.monotonic() - started) * self._rate)
            while self.sent < due:
                self._send()
            self._producer.poll(0)

    def finish(self) -> int:
        """Stop; gives the number of records once all of them are in Kafka."""
        self._finishing.set()
        self.join()
        left = self._producer.flush(60)
        assert not left, f"{left} records did not reach the broker"
        assert not self._failures, self._failures[:3]
        return self.sent

    def _send(self) -> None:
        user = self._chance.randrange(USERS)
        value = {"id": self.sent, "team": f"team-{user % TEAMS}"}
        self._producer.produce(TOPIC, json.dumps(value), f"user-{user}", on_delivery=self._delivered)
        self.sent += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failures.append(f"{message.key()}: {error}")
