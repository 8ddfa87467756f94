"""Any group and any configuration, for rules that hold for all of them (hypothesis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice_assignor import AssignmentConfig, Copy, GroupState, Task, Worker
from sluice_assignor.model import MAX_LAG, RUNNING, UNKNOWN_OFFSET_SUM
from sluice_assignor.strategies import STRATEGIES
from sluice_protocol.ids import TaskId

ENDS = (0, 50, 1000, 20_000)
"""A changelog's end is one of these: below, at and above the lags that are acceptable."""


@st.composite
def groups(draw: st.DrawFn, *, may_drain: bool = True) -> GroupState:
    """Any group: roles held and copies on disk agree as little with each other as they may."""
    names = draw(st.lists(st.builds(TaskId, st.integers(0, 3), st.integers(0, 5)), max_size=14, unique=True))
    tasks = {name: draw(st.builds(Task, st.just(name), st.booleans(), st.sampled_from(ENDS))) for name in names}
    process_ids = draw(st.lists(st.uuids(), min_size=1, max_size=7, unique=True))
    holder = {name: draw(st.sampled_from([None, *process_ids])) for name in names}
    workers = {}
    for process_id in process_ids:
        active = frozenset(name for name in names if holder[name] == process_id)
        stateful = [name for name in names if tasks[name].stateful]
        idle = st.sampled_from([name for name in stateful if name not in active] or [None])
        standby = draw(st.frozensets(idle, max_size=3)) - {None}
        warmup = draw(st.frozensets(idle, max_size=2)) - standby - {None}
        copies = {name: Copy(draw(offset_sums(tasks[name]))) for name in stateful if draw(st.booleans())}
        workers[process_id] = Worker(
            process_id,
            capacity=draw(st.integers(1, 4)),
            draining=may_drain and draw(st.integers(0, 3)) == 0,
            active=active,
            standby=standby,
            warmup=warmup,
            copies=copies,
        )
    return GroupState(tasks, workers)


def offset_sums(task: Task) -> st.SearchStrategy[int]:
    end = task.end_offset_sum
    return st.sampled_from([RUNNING, UNKNOWN_OFFSET_SUM, 0, end // 2, max(0, end - 10), end, end, end + 7])


def configs(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[AssignmentConfig]:
    """Any configuration of any strategy, or with these fields."""
    return st.builds(
        AssignmentConfig,
        strategy=fields.pop("strategy", st.sampled_from(sorted(STRATEGIES))),
        acceptable_recovery_lag=st.sampled_from([0, 10, 100, 10_000, MAX_LAG]),
        max_warmup_replicas=st.sampled_from([1, 2, 3, 100]),
        num_standby_replicas=st.integers(0, 3),
        **fields,
    )


def for_every(*inputs: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`given` without a deadline: a busy machine is no counterexample."""
    examples = 50 * len(STRATEGIES)
    return lambda rule: settings(deadline=None, max_examples=examples)(given(*inputs)(rule))


def staying(group: GroupState) -> list[Worker]:
    return [worker for worker in group.workers.values() if not worker.draining]
