"""Creates the topics of the quickstart and writes orders: python examples/quickstart/orders.py [COUNT]."""

import json
import random
import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = "localhost:9092"
TOPICS = ("orders", "totals-by-customer", "totals-by-country", "big-orders")


def main(count: int) -> None:
    """Kafka creates nothing by itself here: Sluice creates its internal topics, and yours are yours."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    missing = set(TOPICS) - admin.list_topics(timeout=10).topics.keys()
    if missing:
        for created in admin.create_topics([NewTopic(topic, 4, 1) for topic in sorted(missing)]).values():
            created.result(10)
    # Java's default partitioner, so that equal keys meet whoever writes them.
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "partitioner": "murmur2_random"})
    for _ in range(count):
        order = {"amount": round(random.uniform(1, 100), 2), "country": random.choice(("DE", "FR", "IT"))}
        producer.produce("orders", json.dumps(order), f"customer-{random.randrange(1000)}")
        producer.poll(0)
    producer.flush(30)
    print(f"{count} orders written")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
