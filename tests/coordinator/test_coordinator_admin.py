"""What is said when Kafka can't be used: what to mend, as far as the connection itself has told."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sluice_coordinator.topics.admin import KafkaRefusedError, KafkaUnreachableError, unreachable

WHERE = "kafka:9092"


def test_silence_is_told_by_the_request_that_was_not_answered():
    error = unreachable(WHERE, None, "no answer in time")

    assert isinstance(error, KafkaUnreachableError)
    assert str(error) == "Kafka at kafka:9092 does not answer: no answer in time"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError._TRANSPORT, KafkaUnreachableError, "does not answer: it says so"),
        (KafkaError._AUTHENTICATION, KafkaRefusedError, "refuses the credentials: it says so"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaRefusedError, "refuses the credentials: it says so"),
        (KafkaError._SSL, KafkaRefusedError, "TLS with Kafka at kafka:9092 fails (the certificate of a private CA"),
    ],
)
def test_what_the_connection_has_said_tells_more(code: int, kind: type[Exception], words: str):
    error = unreachable(WHERE, KafkaError(code, "it says so"), "no answer in time")

    assert isinstance(error, kind)
    assert words in str(error)
    assert str(error).endswith(": it says so")
