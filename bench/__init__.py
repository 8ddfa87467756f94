"""Benches: Sluice next to Kafka Streams and Spark's own stateful query, on the same broker, records and cores.

A figure is only ever printed when it was measured in the same run.
"""
