"""The way to a target, on which copies warm up: Kafka's step, and one that plans for the whole group."""
