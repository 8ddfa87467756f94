"""Fencing a worker: calling init_transactions for every transactional id that it may use.

Kafka then refuses whatever an earlier producer of the id still sends, and aborts its open transaction (measured: 55 ms,
0.5 s with an open one). Kafka's admin client has no call for it, so it is done with producers that live for this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from threading import Thread

from confluent_kafka import KafkaException, Producer

_INIT_SECONDS = 10.0
_ATTEMPTS = 3


class FencingError(Exception):
    """At least one id may not be fenced."""


class Fencer:
    """Fences on one cluster; every call blocks, and has a time-out."""

    def __init__(
        self, bootstrap_servers: str, kafka_config: Mapping[str, str], *, transaction_timeout_ms: int = 10_000,
        check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`check` is called right before each act, and raises OSError if this process may not act any more."""
        self._check = check
        self._settings = {
            "log_level": 0,  # what it would say comes back as an error
            **kafka_config,
            "bootstrap.servers": bootstrap_servers,
            "transaction.timeout.ms": transaction_timeout_ms,
        }

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Return when no earlier producer of any id can commit any more. Raises FencingError."""
        unfenced = dict.fromkeys(transactional_ids, "it was not tried to the end")
        threads = [Thread(target=self._fence_one, args=(one, unfenced), daemon=True) for one in transactional_ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if unfenced:
            raise FencingError("; ".join(f"{one}: {problem}" for one, problem in sorted(unfenced.items())))

    def _fence_one(self, transactional_id: str, unfenced: dict[str, str]) -> None:
        """Only what is known to be fenced is taken out of `unfenced`."""
        try:
            producer = Producer({**self._settings, "transactional.id": transactional_id})
        except KafkaException as error:
            unfenced[transactional_id] = str(error.args[0].str())
            return
        problem = _init(producer, self._check)
        if problem is None:
            del unfenced[transactional_id]
        else:
            unfenced[transactional_id] = problem
        with contextlib.suppress(KafkaException):  # a producer that was refused says so once more
            producer.close()


def _init(producer: Producer, check: Callable[[], None]) -> str | None:
    """Why it failed, None if it didn't."""
    problem = None
    for _ in range(_ATTEMPTS):
        try:
            check()
            producer.init_transactions(_INIT_SECONDS)
        except OSError as error:
            return str(error)
        except KafkaException as error:
            problem = str(error.args[0].str())
            if not error.args[0].retriable():
                return problem
        else:
            return None
    return problem
