from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sluice_pipeline.codecs.murmur2 import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # from UtilsTest of Kafka's clients
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_own_tests(key: bytes, expected: int):
    assert murmur2(key) == expected % 2**32


@pytest.mark.kafka
def test_librdkafka_sends_keys_to_the_same_partitions(kafka, topics):
    topic = topics.create("keys", partitions=7)
    keys = [b"x" * length + bytes([length % 256]) for length in range(64)]
    sent: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic, b"", key, on_delivery=lambda _error, message: sent.update({message.key(): message.partition()})
        )
    producer.flush(30)

    assert sent == {key: partition_of(key, 7) for key in keys}
