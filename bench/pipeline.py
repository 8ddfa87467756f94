"""`make bench-pipeline`: drain a preloaded topic exactly once with Sluice and its peers in turn, then their latency.

Rates are those of the committed offsets after the first quarter of the topic (Spark's are those of its batches). Every
engine has the same broker, the same records, two threads on the same cores, and its result is compared with the truth.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import ours
from bench.figures import percentile, rate_after_warm_up, totals
from bench.ground import Ground, Job, prepared_ground
from bench.harness import Row, interleaved, medians, publish, table, tell
from bench.latency import RATE, measure_latency
from bench.peers.kafka_streams import DEFAULT, TUNED, KafkaStreams
from bench.peers.spark import SparkStateful
from bench.records import Load, check_result, load, read_result
from sluice_devkit.offsets import Advance, OffsetWatch

SLUICE = "sluice"
SPARK = "spark-stateful"
STREAMS = {"kafka-streams-default": DEFAULT, "kafka-streams-tuned": TUNED}
ENGINES = (SLUICE, SPARK, *STREAMS)
LATENCY_PEER = "kafka-streams-default"

_DRAIN_SECONDS = 300.0
_POLL_SECONDS = 0.03


class NotDrainedError(RuntimeError):
    """An engine ended, or was too slow."""


class Drains:
    """Runs one engine over the loaded topic, each time as a new application with nothing known."""

    def __init__(self, ground: Ground, loaded: Load, partitions: int) -> None:
        self._ground, self._load, self._partitions = ground, loaded, partitions
        self._checked: set[str] = set()

    def run(self, engine: str, turn: int) -> float:
        """Records per second of one run. Raises NotDrainedError, WrongResultError."""
        sink = self._ground.create_topic(f"drain-{engine}-{turn}-out", self._partitions)
        job = Job(f"drain-{engine}-{turn}", self._load.topic, sink, self._partitions)
        rate = rate_after_warm_up(self._drain(engine, job), self._load.records)
        tell(f"{engine}, round {turn + 1}: {rate:,.0f} records/s")
        if engine not in self._checked:
            check_result(engine, read_result(self._ground, sink, self._partitions), self._load.truth)
            self._checked.add(engine)
        self._ground.delete_topic(sink)
        return rate

    def _drain(self, engine: str, job: Job) -> list[Advance]:
        if engine == SPARK:
            return SparkStateful(self._ground, job, self._load.records).batches(_DRAIN_SECONDS)
        with self._watch(job.name) as watch:
            if engine == SLUICE:
                with ours.counts(self._ground, job):
                    self._await_drained(engine, watch, lambda: None)
            else:
                streams = KafkaStreams(self._ground, job, STREAMS[engine])
                try:
                    self._await_drained(engine, watch, lambda: streams.failure)
                finally:
                    streams.stop()
        return totals(watch.advances())

    def _watch(self, group: str) -> OffsetWatch:
        partitions = [(self._load.topic, partition) for partition in range(self._partitions)]
        return OffsetWatch(self._ground.bootstrap_servers, group, partitions, _POLL_SECONDS)

    def _await_drained(self, engine: str, watch: OffsetWatch, failure: Callable[[], str | None]) -> None:
        records = self._load.records
        watch.wait_for(lambda: watch.total() >= records or failure() is not None, _DRAIN_SECONDS)
        if watch.total() < records:
            why = failure() or f"too slow: not done within {_DRAIN_SECONDS:.0f} s"
            raise NotDrainedError(f"{engine} committed {watch.total()} of {records} records: {why}")


def drain_rows(ground: Ground, options: argparse.Namespace) -> list[Row]:
    """Drain the topic with every engine, a few rounds in turn."""
    tell(f"loading {options.records:,} records over {options.keys:,} keys into {options.partitions} partitions")
    loaded = load(ground, "purchases", options.records, options.keys, options.partitions)
    drains = Drains(ground, loaded, options.partitions)
    figures = interleaved(options.rounds, options.engines, drains.run)
    print(rates_table(figures), flush=True)
    rates = medians(figures)
    peers = [engine for engine in rates if engine != SLUICE]
    if SLUICE not in rates:
        return []
    return [Row(f"drain vs {peer}", round(rates[SLUICE]), round(rates[peer]), "records/s") for peer in peers]


def rates_table(figures: dict[str, list[float]]) -> str:
    """Median, lowest and highest rate of each engine."""
    middle = medians(figures)
    rows = [(engine, middle[engine], min(rates), max(rates)) for engine, rates in figures.items()]
    return table(["records/s", "median", "lowest", "highest"], rows)


def latency_rows(ground: Ground, options: argparse.Namespace) -> list[Row]:
    """Latency of Sluice and of Kafka Streams with its own defaults, one after the other."""
    measured = {}
    for engine in (SLUICE, LATENCY_PEER):
        if engine in options.engines:
            tell(f"latency of {engine} at {RATE} records/s, {options.latency_seconds} s")
            measured[engine] = _latency(ground, engine, options.partitions, options.latency_seconds)
    print(latency_table(measured), flush=True)
    if len(measured) < 2:
        return []
    return [_latency_row(share, measured[SLUICE], measured[LATENCY_PEER]) for share in (0.5, 0.99)]


def latency_table(measured: dict[str, list[float]]) -> str:
    """p50, p99 and the worst of each engine."""
    rows = [(engine, percentile(ms, 0.5), percentile(ms, 0.99), max(ms)) for engine, ms in measured.items()]
    return table(["latency ms", "p50", "p99", "worst"], rows)


def _latency_row(share: float, mine: Sequence[float], peers: Sequence[float]) -> Row:
    name = f"latency p{share * 100:.0f} vs {LATENCY_PEER}"
    return Row(name, round(percentile(mine, share), 1), round(percentile(peers, share), 1), "ms")


def _latency(ground: Ground, engine: str, partitions: int, seconds: int) -> list[float]:
    name = f"latency-{engine}"
    source = ground.create_topic(f"{name}-in", partitions)
    job = Job(name, source, ground.create_topic(f"{name}-out", partitions), partitions)
    if engine == SLUICE:
        with ours.counts(ground, job):
            return measure_latency(ground, job, seconds)
    streams = KafkaStreams(ground, job, STREAMS[engine])
    try:
        return measure_latency(ground, job, seconds)
    finally:
        streams.stop()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the bench."""
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    parser.add_argument("--records", type=int, default=1_500_000)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", type=lambda text: tuple(text.split(",")), default=ENGINES, help=",".join(ENGINES))
    parser.add_argument("--latency-seconds", type=int, default=30, help="0 leaves latency out")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.engines) - set(ENGINES))
    if unknown:
        parser.error(f"--engines: {unknown[0]!r} is none of {', '.join(ENGINES)}")
    return options


def main() -> None:
    """Run the bench."""
    options = parse()
    with prepared_ground() as ground:
        rows = drain_rows(ground, options) if options.rounds else []
        if options.latency_seconds:
            rows += latency_rows(ground, options)
    publish(rows, options.json)


if __name__ == "__main__":
    main()
