"""One scale-out step by step, as text for docs/assignment.md: what `simulate` says, and not what we remember of it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from sluice_assignor import (
    Assignment,
    AssignmentConfig,
    Cause,
    GroupState,
    Join,
    MoveReason,
    Pace,
    Task,
    Timeline,
    TimelineStep,
    Worker,
    explain,
    simulate,
)
from sluice_assignor.strategies import STRATEGIES
from sluice_protocol.ids import TaskId

END = 60_000
"""A changelog's end: a copy from scratch takes a minute at 1,000 offsets a second."""

NAMES = {UUID(int=number): f"worker-{number}" for number in range(1, 6)}


def picture() -> str:
    """Twelve tasks on two workers, and a third joins."""
    timeline = _scale_out("Optimal", tasks=12, workers=2, step_when_warm=True)
    return "```text\n" + "\n".join(_lines(timeline)).rstrip() + "\n```\n"


def comparison() -> str:
    """100 tasks from 4 to 5 workers, with every strategy, at our pace and at Kafka's."""
    rows = ["| Strategy | tasks moved | when a copy is hot | at Kafka's ten-minute probes |", "|---|---|---|---|"]
    for strategy in STRATEGIES:
        warm = _scale_out(strategy, tasks=100, workers=4, step_when_warm=True)
        probing = _scale_out(strategy, tasks=100, workers=4, step_when_warm=False)
        rows.append(f"| `{strategy}` | {len(warm.moved)} | {_minutes(warm)} | {_minutes(probing)} |")
    return "\n".join(rows) + "\n"


def _scale_out(strategy: str, *, tasks: int, workers: int, step_when_warm: bool) -> Timeline:
    """Everything is at rest where the strategy places it; then one more worker joins."""
    config = AssignmentConfig(strategy, acceptable_recovery_lag=END // 100)
    names = [TaskId(number % 2, number // 2) for number in range(tasks)]
    ids = list(NAMES)[: workers + 1]
    cold = GroupState(
        {name: Task(name, stateful=True, end_offset_sum=END) for name in names},
        {id_: Worker(id_, capacity=1) for id_ in ids[:workers]},
    )
    rest = simulate(cold, config, Pace(restore_rate=END)).final
    rate = -(-(END - config.acceptable_recovery_lag) // 60)
    return simulate(rest, config, Pace(rate, step_when_warm=step_when_warm), [Join(0, Worker(ids[workers], 1))])


def _lines(timeline: Timeline) -> Iterator[str]:
    for step in timeline.steps:
        why = f"{NAMES[UUID(int=3)]} joins" if step.cause is Cause.MEMBERSHIP else step.cause.value
        yield f"{_clock(step.at_ms)}  {why}"
        for id_, name in list(NAMES.items())[:3]:
            yield f"      {name}  {_held(step.decision.next, id_)}"
        yield from (f"      · {sentence}" for sentence in _sentences(step))
        yield ""


def _held(assignment: Assignment, id_: UUID) -> str:
    active = [str(task) for task in sorted(assignment.active[id_])]
    warming = [f"({task})" for task in sorted(assignment.warmup[id_])]
    return " ".join([*active, *warming])


def _sentences(step: TimelineStep) -> Iterator[str]:
    """What happens now; of those that wait for a slot only the next."""
    for move in step.decision.moves:
        if move.reason is not MoveReason.WAITING_FOR_SLOT or move.in_line == 1:
            yield explain(move, NAMES)


def _minutes(timeline: Timeline) -> str:
    if timeline.converged_at_ms is None:
        return "never"
    return f"{timeline.converged_at_ms / 60_000:.0f} min"


def _clock(at_ms: int) -> str:
    return f"{at_ms // 60_000}:{at_ms // 1000 % 60:02d}"
