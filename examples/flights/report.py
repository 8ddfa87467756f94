"""How a demo ends: the results beside a plain PySpark batch, the facts, and a failure if something didn't hold."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from facts import Pause, cold_moves, longest_unmoved, pauses
from feed import Feeder
from lag import count_records
from rich.table import Table
from story import ACCEPTABLE_RECOVERY_LAG, APPLICATION, DemoFailedError, Phase, console
from truth import OUTPUTS, Comparison, batch, compare, read_topic
from watcher import Watcher

from sluice_devkit.offsets import CommitWitness, OffsetCommit
from sluice_protocol.ids import dead_letter_topic

_SUBTOPOLOGIES = 3
"""All of them stateful."""


def conclude(
    bootstrap_servers: str,
    feeder: Feeder,
    watcher: Watcher,
    phases: list[Phase],
    witness: CommitWitness,
    further: Mapping[str, str] | None = None,
) -> None:
    """Compare, print the facts (`further` ones last), and raise DemoFailedError if something didn't hold."""
    console.rule("comparing with a plain PySpark batch over the same CSV", align="left")
    wanted = batch()
    read = {topic: read_topic(bootstrap_servers, topic) for topic in OUTPUTS}
    results = [compare(topic, read[topic][0], wanted[topic]) for topic in OUTPUTS]
    commits, violations = witness.commits(), witness.check()
    cold = cold_moves(watcher.moves, dict.fromkeys(range(_SUBTOPOLOGIES), True), ACCEPTABLE_RECOVERY_LAG)
    dead = count_records(bootstrap_servers, dead_letter_topic(APPLICATION))
    facts = Table(title="facts", title_justify="left", show_header=False)
    facts.add_row("records in", f"{feeder.sent:,}, of them broken on purpose {feeder.broken}")
    facts.add_row("records out", f"{sum(count for _, count in read.values()):,}")
    facts.add_row("dead letters", f"{dead}")
    for number, part in enumerate(phases):
        _add_phase(facts, part, commits, is_first=number == 0)
    planned = [move for move in watcher.moves if move.planned and move.source is not None]
    facts.add_row("moves", f"{len(planned)} planned, {len(cold)} of them cold")
    facts.add_row("warm-ups", f"{len(watcher.warm_ups.lags)} seen, {watcher.warm_ups.falling()} with falling lag")
    restored, size = watcher.restored
    facts.add_row("restored", f"{restored:,} records, {size / 1e6:,.1f} MB")
    facts.add_row("commit witness", f"{len(commits):,} commits, {len(violations)} violations")
    for name, fact in (further or {}).items():
        facts.add_row(name, fact)
    for result in results:
        facts.add_row(f"result of {result.topic}", _result(result))
    console.print(facts)
    _judge(results, violations=len(violations), cold=len(cold), falling=watcher.warm_ups.falling(),
           dead_letters_right=dead == feeder.broken)  # fmt: skip


def _add_phase(facts: Table, part: Phase, commits: list[OffsetCommit], *, is_first: bool) -> None:
    facts.add_row(f"{part.name}: time to converge", f"{part.seconds:.1f} s")
    found = pauses(commits, part.start_ms, part.end_ms)
    if found:
        facts.add_row(f"{part.name}: pause per move", _pauses(found))
    unmoved = longest_unmoved(commits, part.start_ms, part.end_ms)
    if unmoved and not is_first:
        facts.add_row(f"{part.name}: tasks that stay", f"at most {max(unmoved):,} ms without a commit")


def _pauses(found: list[Pause]) -> str:
    times = sorted(pause.milliseconds for pause in found)
    return f"p50 {statistics.median(times):,.0f} ms, max {times[-1]:,} ms ({len(times)} partitions)"


def _result(result: Comparison) -> str:
    if not result.differences:
        return f"[bold green]equal[/], {result.keys:,} keys"
    return f"[bold red]{len(result.differences):,} of {result.keys:,} keys differ[/], first {result.differences[0]}"


def _judge(results: list[Comparison], *, violations: int, cold: int, falling: int, dead_letters_right: bool) -> None:
    problems = [f"{result.topic} differs in {len(result.differences)} keys" for result in results if result.differences]
    if violations:
        problems.append(f"{violations} commits break single ownership")
    if cold:
        problems.append(f"{cold} planned moves were cold")
    if not falling:
        problems.append("no warm-up with a falling lag was seen")
    if not dead_letters_right:
        problems.append("the dead-letter topic doesn't hold the records that were broken on purpose")
    if problems:
        raise DemoFailedError("; ".join(problems))
