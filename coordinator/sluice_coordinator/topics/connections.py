"""Connections of Kafka's admin client, one a cluster and way of talking to it, however many applications use it.

Each client has threads and sockets of its own to every broker: with one an application, an operator of fifty would keep
fifty times as many as it needs. A connection is closed when nobody uses it any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

REQUEST_SECONDS = 10.0
_FRESH_SECONDS = 10.0
"""An older error says nothing about why something fails now."""


class InvalidKafkaConfigError(Exception):
    """librdkafka makes no client of these settings; the message is its own, and may repeat a value."""


class _LastError:
    """What a client's connections have said last. Of its own, or client and connection would hold on to each other."""

    def __init__(self) -> None:
        self._said: tuple[float, KafkaError] | None = None

    def take(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._said = time.monotonic(), error

    def fresh(self) -> KafkaError | None:
        said = self._said
        return said[1] if said is not None and time.monotonic() - said[0] < _FRESH_SECONDS else None


class AdminConnection:
    """An admin client, and why it fails when it does. May be used in any thread."""

    def __init__(self, bootstrap_servers: str, kafka_config: Mapping[str, str]) -> None:
        """Raises InvalidKafkaConfigError."""
        self.bootstrap_servers = bootstrap_servers
        self._last_error = _LastError()
        settings: dict[str, Any] = {
            "log_level": 0,  # what it would say goes into our own messages
            **kafka_config,
            "bootstrap.servers": bootstrap_servers,
            "socket.timeout.ms": int(REQUEST_SECONDS * 1000),
            "error_cb": self._last_error.take,
        }
        try:
            self.client = AdminClient(settings)
        except KafkaException as error:
            raise InvalidKafkaConfigError(error.args[0].str().strip()) from None
        except (AttributeError, TypeError, ValueError) as error:  # what the Python client takes for itself
            raise InvalidKafkaConfigError(str(error)) from None

    def last_error(self) -> KafkaError | None:
        """What a connection to a broker has said a moment ago: a time-out alone tells nobody what to mend."""
        self.client.poll(0)
        return self._last_error.fresh()


class AdminConnections:
    """Those that are in use."""

    def __init__(self) -> None:
        self._open: WeakValueDictionary[tuple[str, frozenset[tuple[str, str]]], AdminConnection] = WeakValueDictionary()
        self._lock = threading.Lock()

    def to(self, bootstrap_servers: str, kafka_config: Mapping[str, str]) -> AdminConnection:
        """The one that there is, else a new one. Raises InvalidKafkaConfigError."""
        key = bootstrap_servers, frozenset(kafka_config.items())
        with self._lock:
            connection = self._open.get(key)
            if connection is None:
                connection = self._open[key] = AdminConnection(bootstrap_servers, kafka_config)
            return connection

    def __len__(self) -> int:
        return len(self._open)
