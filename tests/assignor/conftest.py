"""What the assignor's tests share: Kafka's own assignor, started once, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice_devkit.kafka_assignor_process import KafkaAssignorProcess


@pytest.fixture(scope="session")
def kafka_assignor() -> Iterator[KafkaAssignorProcess]:
    with KafkaAssignorProcess() as process:
        yield process
