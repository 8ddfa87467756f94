"""`make bench-assignor`: how long a decision takes, beside Kafka's own assignor in the same process.

Both are asked about the same group, in turns; what Kafka is timed for is the call that it makes at each rebalance,
without what comes before it (decoding, reading offsets). A row counts only if both have given the same answer. Optimal
has no peer: it is timed alone, in a process of its own, so that its memory can be stated.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Row, interleaved, medians, publish, table, tell
from bench.peers.kafka_assignor import answer_of, case_of
from bench.rebalances import ALONE, FULL, QUICK, Moment, Rebalance
from sluice_assignor import Decision, RackAwareStrategy, decide
from sluice_devkit.kafka_assignor import Answer, KafkaAssignor

SLUICE = "sluice"
KAFKA = "kafka"
HEAP = "2g"
FULL_HEAP = "14g"
ALONE_ROUNDS = 3
MANY_TIMES = 20
SLOW_MS, SLOW_ROUNDS = 1_000, 3
VERY_SLOW_MS, VERY_SLOW_ROUNDS = 10_000, 1
"""From how long a decision of Kafka's on there are fewer rounds."""
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"

_WARM_UPS = 30


class DifferentAnswerError(RuntimeError):
    """What we decided is not what Kafka decided: the times of two different things."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The medians of one rebalance, in milliseconds, and how many times as fast as Kafka we promise to be."""

    name: str
    ours: float
    kafkas: float
    needed: float

    @property
    def times(self) -> float:
        """How many times as fast as Kafka we are."""
        return self.kafkas / self.ours

    @property
    def holds(self) -> bool:
        return self.times >= self.needed


@dataclass(frozen=True, slots=True)
class Solo:
    """What Optimal took for one rebalance, on one core: the median, and the most memory that its process ever had."""

    name: str
    seconds: float
    megabytes: float
    allowed_seconds: float

    @property
    def holds(self) -> bool:
        return self.seconds <= self.allowed_seconds


class Race:
    """Kafka and ours on one group."""

    def __init__(self, rebalance: Rebalance, java: KafkaAssignor) -> None:
        self._rebalance = rebalance
        self._group, self._config = rebalance.group(), rebalance.config()
        self._kafkas_group = java.read(case_of(self._group, self._config))
        self._kafkas: Answer | None = None
        self._ours: Decision | None = None

    def run(self, engine: str, turn: int) -> float:
        """The milliseconds of one decision."""
        took = (self._decide() if engine == SLUICE else self._assign()) * 1000
        tell(f"{self._rebalance}: {engine}, round {turn + 1}: {took:,.1f} ms")
        return took

    def check(self) -> None:
        """Raises DifferentAnswerError."""
        if self._ours is None or self._kafkas is None or answer_of(self._ours) != self._kafkas:
            raise DifferentAnswerError(f"{self._rebalance}: Kafka's assignor decides something else")

    def _decide(self) -> float:
        """Python's collector is kept from walking through what belongs to the bench and to Kafka."""
        gc.collect()
        gc.freeze()
        began = time.perf_counter()
        self._ours = decide(self._group, self._config)
        took = time.perf_counter() - began
        gc.unfreeze()
        return took

    def _assign(self) -> float:
        assignment = self._kafkas_group.prepare()
        began = time.perf_counter()
        assignment.assign()
        took = time.perf_counter() - began
        self._kafkas = assignment.answer()
        return took


def compare(rebalance: Rebalance, java: KafkaAssignor, rounds: int) -> Comparison:
    """Let both decide, in turns, after a round that isn't counted. Raises DifferentAnswerError.

    Where Kafka takes its time and more than a tie is promised, fewer turns say enough, and all of them count.
    """
    race = Race(rebalance, java)
    engines = (SLUICE, KAFKA)
    first = {engine: race.run(engine, 0) for engine in engines}
    few = _few_rounds(first[KAFKA], rebalance.needed)
    if few is not None:
        further = interleaved(few - 1, engines, race.run)
        middle = medians({engine: [first[engine], *further.get(engine, ())] for engine in engines})
    else:
        middle = medians(interleaved(rounds, engines, race.run))
    race.check()
    return Comparison(str(rebalance), middle[SLUICE], middle[KAFKA], rebalance.needed)


def _few_rounds(kafkas_ms: float, needed: float) -> int | None:
    """How many rounds are enough, if fewer than usual are."""
    if kafkas_ms > VERY_SLOW_MS and needed >= MANY_TIMES:
        return VERY_SLOW_ROUNDS
    if kafkas_ms > SLOW_MS and needed > 1:
        return SLOW_ROUNDS
    return None


def warm_up(java: KafkaAssignor) -> None:
    """Let the JVM compile what it will be timed for."""
    for racks in RackAwareStrategy:
        small = Rebalance(40, 8, Moment.SCALE_OUT, 1, racks)
        group = java.read(case_of(small.group(), small.config()))
        for _ in range(_WARM_UPS):
            group.prepare().assign()


def run_alone(rebalance: Rebalance, allowed_seconds: float) -> Solo:
    """Time Optimal in a fresh process on one core."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seconds, megabytes = pool.apply(measure_optimal, (rebalance,))
    tell(f"{rebalance}: Optimal alone: {seconds:.2f} s, {megabytes:,.0f} MB")
    return Solo(f"Optimal alone, {rebalance}", seconds, megabytes, allowed_seconds)


def measure_optimal(rebalance: Rebalance) -> tuple[float, float]:
    """The median seconds of a decision, and the most megabytes that this process has ever had."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    group, config = rebalance.group(), rebalance.config("Optimal")
    took = []
    for _ in range(ALONE_ROUNDS):
        gc.collect()
        began = time.perf_counter()
        decide(group, config)
        took.append(time.perf_counter() - began)
    return statistics.median(took), _peak_megabytes()


def _peak_megabytes() -> float:
    """The kernel's high-water mark of this program; `ru_maxrss` would count what its parent had before the `exec`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (kilobytes,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return kilobytes / 1024


def rows(comparisons: Iterable[Comparison], solos: Iterable[Solo]) -> list[Row]:
    """All figures, each with its unit."""
    beside = [Row(it.name, round(it.ours, 3), round(it.kafkas, 3), "ms") for it in comparisons]
    seconds = [Row(it.name, round(it.seconds, 3), None, "s") for it in solos]
    memory = [Row(f"{it.name}, memory", round(it.megabytes), None, "MB") for it in solos]
    return [*beside, *(row for pair in zip(seconds, memory, strict=True) for row in pair)]


def report(comparisons: Sequence[Comparison], solos: Sequence[Solo]) -> str:
    """The tables for people: how many times as fast, and whether that is what was promised."""
    beside = table(
        ["tasks x workers", "Sluice ms", "Kafka ms", "times as fast", "promised", ""],
        [(it.name, it.ours, it.kafkas, it.times, it.needed, _verdict(it.holds)) for it in comparisons],
    )
    alone = table(
        ["on one core", "s", "allowed", "MB", ""],
        [(it.name, it.seconds, it.allowed_seconds, it.megabytes, _verdict(it.holds)) for it in solos],
    )
    return f"{beside}\n\n{alone}"


def _verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"


def with_figures(document: str, figures: str) -> str:
    """The document with these figures in place of those that it had. Raises ValueError when it has no place for any."""
    before, _, rest = document.partition(BEGIN)
    _, marked, after = rest.partition(END)
    if not marked:
        raise ValueError(f"the document has no lines {BEGIN.strip()!r} and {END.strip()!r} to write between")
    return f"{before}{BEGIN}```text\n{figures}\n```\n{END}{after}"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the bench."""
    parser = argparse.ArgumentParser(prog="bench.assignor", description=__doc__)
    parser.set_defaults(full=False)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="full", action="store_false", help="what takes under 3 minutes (the default)")
    size.add_argument("--full", action="store_true", help="also what takes Kafka minutes, and 14 GB of memory")
    parser.add_argument("--rounds", type=int, default=5, help="how often both take a turn")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--document", type=Path, help="put the tables into this document, between its two marks")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the bench."""
    options = parse()
    java = KafkaAssignor(heap=FULL_HEAP if options.full else HEAP)
    warm_up(java)
    comparisons = [compare(rebalance, java, options.rounds) for rebalance in (FULL if options.full else QUICK)]
    solos = [run_alone(rebalance, allowed) for rebalance, allowed in ALONE]
    figures = report(comparisons, solos)
    print(f"\n{figures}", flush=True)
    if options.document is not None:
        options.document.write_text(with_figures(options.document.read_text(), figures))
    publish(rows(comparisons, solos), options.json)


if __name__ == "__main__":
    main()
