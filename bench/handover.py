"""`make bench-handover`: how long a partition stands still while tasks change their worker.

The committed offset of every partition is polled every few milliseconds while records arrive at a steady rate over
keys that have state. A partition's gap is the longest time in which its offset stood still: under exactly-once that
is how long its results were not visible. Tasks that moved and tasks that stayed are told apart.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import percentile
from bench.ground import Ground, Job, prepared_ground
from bench.groups import NO_WARM_UPS, Group, SluiceGroup, StreamsGroup
from bench.harness import Row, publish, table, tell
from bench.ours import STORE
from bench.records import Feeder, load
from sluice_devkit.offsets import OffsetWatch, StandStill
from sluice_protocol.ids import changelog_topic

SOURCE = "purchases"
ACCEPTABLE_RECOVERY_LAG = 10_000
STEADY, WARM, SCALE_IN, KILLED, COLD = "nothing happens", "warm scale-out", "scale-in", "kill -9", "cold scale-out"

_POLL_SECONDS = 0.015
_STEADY_SECONDS = 6.0
_AFTERMATH_SECONDS = 2.0
_KILL_SEEN_SECONDS = 0.5
_DRAIN_SECONDS = 300.0
_BALANCED_SECONDS = 300.0


class NotMovingError(RuntimeError):
    """A group did not process what it should have by now."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """What one scenario did to the partitions: milliseconds that each stood still, and how long until all was over."""

    scenario: str
    moved: tuple[float, ...]
    stayed: tuple[float, ...]
    changelog_records: int
    seconds: float


def sort_gaps(
    stand_stills: Mapping[int, StandStill], before: Mapping[int, str], after: Mapping[int, str], gone: str | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The milliseconds of the partitions that moved and of those that stayed.

    A task whose worker is gone has moved, even where the worker's successor of the same name took it.
    """
    moved = {p for p in stand_stills if before.get(p) != after.get(p) or (gone is not None and before.get(p) == gone)}
    ms = {partition: still.seconds * 1000 for partition, still in stand_stills.items()}
    return (
        tuple(ms[partition] for partition in sorted(moved)),
        tuple(ms[partition] for partition in sorted(ms.keys() - moved)),
    )


class Stage:
    """One group under a steady feed, and what is measured about it."""

    def __init__(self, ground: Ground, job: Job, group: Group, watch: OffsetWatch) -> None:
        self._ground, self._job, self._group, self._watch = ground, job, group, watch

    def wait_drained(self, records: int) -> None:
        """Wait until the preloaded records are done."""
        if not self._watch.wait_for(lambda: self._watch.total() >= records, _DRAIN_SECONDS):
            raise NotMovingError(f"{self._job.name} did {self._watch.total()} of {records} records")

    def wait_fed(self) -> None:
        """Wait until records arrive in every partition."""
        self._wait_moving(time.time())

    def steady(self) -> Gaps:
        """Nothing happens: the least that can be seen."""
        return self._measure(STEADY, lambda: time.sleep(_STEADY_SECONDS))

    def scale(self, scenario: str, count: int, gone: int | None = None) -> Gaps:
        """Scale and wait for balance."""

        def act() -> None:
            self._group.scale(count)
            self._group.wait_balanced(count, _BALANCED_SECONDS)

        return self._measure(scenario, act, gone)

    def kill(self, number: int) -> Gaps:
        """Kill a worker and wait until every task of it runs again."""

        def act() -> None:
            killed_at = time.time()
            self._group.kill(number)
            self._wait_moving(killed_at + _KILL_SEEN_SECONDS)

        return self._measure(KILLED, act, number)

    def rest(self, count: int) -> None:
        """Bring the group back to so many workers without looking."""
        self._group.scale(count)
        self._group.wait_balanced(count, _BALANCED_SECONDS)

    def _measure(self, scenario: str, act: Callable[[], object], gone: int | None = None) -> Gaps:
        before, began = self._group.owners(), time.time()
        act()
        over = time.time()
        time.sleep(_AFTERMATH_SECONDS)
        self._wait_moving(over)
        stand_stills = self._watch.stand_stills(began, over + _AFTERMATH_SECONDS)
        by_partition = {partition: still for (_, partition), still in stand_stills.items()}
        worker = None if gone is None else self._group.worker(gone)
        moved, stayed = sort_gaps(by_partition, before, self._group.owners(), worker)
        tell(f"{self._job.name}: {scenario}: moved {_rounded(moved)} ms, stayed {_rounded(stayed)} ms")
        return Gaps(scenario, moved, stayed, self._changelog_records(), over - began)

    def _wait_moving(self, since: float) -> None:
        if not self._watch.wait_for_advance(since, _BALANCED_SECONDS):
            raise NotMovingError(f"{self._job.name}: a partition stood still for {_BALANCED_SECONDS:.0f} s")

    def _changelog_records(self) -> int:
        sizes = self._ground.sizes(changelog_topic(self._job.name, STORE))
        return sum(sizes.values()) // len(sizes)


def _rounded(values: Sequence[float]) -> list[int]:
    return sorted(round(value) for value in values)


GroupFactory = Callable[[Ground, Job, OffsetWatch, int], Group]


def sluice_group(ground: Ground, job: Job, watch: OffsetWatch, lag: int) -> Group:
    """Ours; it needs no watch to know when it is balanced."""
    del watch
    return SluiceGroup(ground, job, lag)


def streams_group(ground: Ground, job: Job, watch: OffsetWatch, lag: int) -> Group:
    """Kafka Streams."""
    return StreamsGroup(ground, job, watch, lag)


@contextlib.contextmanager
def staged(ground: Ground, make: GroupFactory, name: str, lag: int, options: argparse.Namespace) -> Iterator[Stage]:
    """An application of one worker that has done the preloaded records, under feed."""
    job = Job(name, SOURCE, ground.create_topic(f"{name}-out", options.partitions), options.partitions)
    partitions = [(SOURCE, partition) for partition in range(options.partitions)]
    with (
        OffsetWatch(ground.bootstrap_servers, name, partitions, _POLL_SECONDS) as watch,
        make(ground, job, watch, lag) as group,
    ):
        stage = Stage(ground, job, group, watch)
        stage.wait_drained(options.records)
        with Feeder(ground, SOURCE, options.rate, options.keys):
            stage.wait_fed()
            yield stage


def run_scenarios(ground: Ground, engine: str, make: GroupFactory, options: argparse.Namespace) -> list[Gaps]:
    """One application through warm scale-out, scale-in and a kill, and one that moves its tasks cold."""
    measured = []
    with staged(ground, make, f"{engine}-warm", ACCEPTABLE_RECOVERY_LAG, options) as stage:
        measured.append(stage.steady())
        for turn in range(options.rounds):
            if turn:
                stage.rest(2)
                stage.rest(1)
            measured += [stage.scale(WARM, 2), stage.scale(SCALE_IN, 1, gone=1), stage.scale(WARM, 2), stage.kill(1)]
    for turn in range(options.rounds):
        with staged(ground, make, f"{engine}-cold-{turn}", NO_WARM_UPS, options) as stage:
            measured.append(stage.scale(COLD, 2))
    return measured


def summed_up(measured: Sequence[Gaps]) -> list[Gaps]:
    """One entry a scenario: all gaps of its runs, the changelog and the time of the slowest."""
    scenarios = dict.fromkeys(gaps.scenario for gaps in measured)
    return [_sum(scenario, [gaps for gaps in measured if gaps.scenario == scenario]) for scenario in scenarios]


def _sum(scenario: str, runs: Sequence[Gaps]) -> Gaps:
    return Gaps(
        scenario,
        tuple(ms for run in runs for ms in run.moved),
        tuple(ms for run in runs for ms in run.stayed),
        max(run.changelog_records for run in runs),
        max(run.seconds for run in runs),
    )


_HEADER = ["", "moved", "p50 ms", "max ms", "stayed", "p50 ms", "max ms", "changelog/task", "over after s"]


def gaps_table(engine: str, measured: Sequence[Gaps]) -> str:
    """What was measured of one engine."""
    rows = [
        [gaps.scenario, *_figures(gaps.moved), *_figures(gaps.stayed), gaps.changelog_records, round(gaps.seconds, 1)]
        for gaps in measured
    ]
    return table([engine, *_HEADER[1:]], rows)


def _figures(gaps: Sequence[float]) -> list[int | None]:
    if not gaps:
        return [0, None, None]
    return [len(gaps), round(percentile(gaps, 0.5)), round(max(gaps))]


def gap_rows(mine: Sequence[Gaps], peers: Sequence[Gaps]) -> list[Row]:
    """p50 and worst gap of every scenario, next to the peer's where it was measured."""
    by_scenario = {gaps.scenario: gaps for gaps in peers}
    rows = []
    for gaps in mine:
        peer = by_scenario.get(gaps.scenario)
        rows += _rows(f"{gaps.scenario}, moved", gaps.moved, peer.moved if peer else ())
        rows += _rows(f"{gaps.scenario}, stayed", gaps.stayed, peer.stayed if peer else ())
    return rows


def _rows(name: str, mine: Sequence[float], peers: Sequence[float]) -> list[Row]:
    if not mine:
        return []
    p50, worst = (percentile(peers, 0.5), max(peers)) if peers else (None, None)
    return [
        Row(f"{name} p50", round(percentile(mine, 0.5)), None if p50 is None else round(p50), "ms"),
        Row(f"{name} max", round(max(mine)), None if worst is None else round(worst), "ms"),
    ]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the bench."""
    parser = argparse.ArgumentParser(prog="bench.handover", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="preloaded")
    parser.add_argument("--keys", type=int, default=250_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rate", type=int, default=5_000, help="records/s while tasks move")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peer", action="store_true", help="Kafka Streams too: 8 minutes more a round")
    parser.add_argument("--peer-only", action="store_true", help="Kafka Streams alone")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the bench."""
    options = parse()
    mine: list[Gaps] = []
    peers: list[Gaps] = []
    with prepared_ground() as ground:
        tell(f"loading {options.records:,} records over {options.keys:,} keys into {options.partitions} partitions")
        load(ground, SOURCE, options.records, options.keys, options.partitions)
        if not options.peer_only:
            mine = summed_up(run_scenarios(ground, "sluice", sluice_group, options))
            print(gaps_table("Sluice", mine), flush=True)
        if options.peer or options.peer_only:
            peers = summed_up(run_scenarios(ground, "kafka-streams", streams_group, options))
            print(gaps_table("Kafka Streams", peers), flush=True)
    publish(gap_rows(mine, peers), options.json)


if __name__ == "__main__":
    main()
