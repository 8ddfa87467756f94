"""Facts about a group in whole sentences, without colours: for `sluice status` and for the log of `sluice run`."""

from __future__ import annotations

from collections.abc import Iterator

from sluice_cli.status.numbers import show_count, show_seconds
from sluice_protocol.heartbeat import FailedTask
from sluice_protocol.view import GroupView, TaskView


def grievances(group: GroupView) -> Iterator[str]:
    """Everything that waits for a person."""
    yield from (f"{status.code.value}: {status.message}" for status in group.statuses)
    for member in group.members:
        yield from (failed_sentence(member.worker, failure) for failure in member.failed)


def warming_sentence(task: TaskView) -> str:
    """`0_7 warming on worker-2: 1.2 M of 3.4 M records, 40 s left`."""
    if task.state == "running":
        return f"{task.task} is warm on {task.worker} and waits to take over"
    text = f"{task.task} warming on {task.worker}"
    if task.offset_sum is None or task.end_offset_sum is None:
        return text
    done, whole = min(task.offset_sum, task.end_offset_sum), task.end_offset_sum
    text += f": {show_count(max(0, done))} of {show_count(whole)} records"
    return text if task.eta_seconds is None else f"{text}, {show_seconds(task.eta_seconds)} left"


def failed_sentence(worker: str, failure: FailedTask) -> str:
    """Which task stopped, where, at which record, why, and what to do."""
    place = f" at {failure.topic}-{failure.partition}@{failure.offset}" if failure.topic is not None else ""
    return (
        f"{failure.task} failed on {worker}{place} ({failure.reason}): {failure.message}; `sluice resume` tries again"
    )
