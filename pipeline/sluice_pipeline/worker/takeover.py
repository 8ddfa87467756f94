"""Before a task runs or is followed here: what Kafka says about where it goes on (design, "takeover order").

The predecessor has let go or was fenced before the coordinator grants a task. Then, in this order: the group's stable
committed offsets, the changelogs' ends read uncommitted and once, restore up to them, seek, process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from sluice_pipeline.offsets import Offsets, OffsetsUnavailableError, Partition
from sluice_pipeline.plan import SubtopologyPlan, ToStore
from sluice_pipeline.state.directory import StoreIdentity, TaskIdentity
from sluice_pipeline.worker.events import NotPrepared, Prepared
from sluice_protocol.heartbeat import FailedTask
from sluice_protocol.ids import TaskId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Positions:
    """Where a task goes on in its sources; `commit_first` when the group must hear of it before any record."""

    offsets: Mapping[Partition, int]
    commit_first: bool


class CannotGoOnError(Exception):
    """What Kafka has forbids to go on without a person's decision."""

    def __init__(self, reason: str, message: str, where: Partition, offset: int | None) -> None:
        super().__init__(message)
        self.reason = reason
        self.where = where
        self.offset = offset


def choose_positions(
    committed: Mapping[Partition, int | None],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    changelog_is_empty: bool,
    offset_reset: str,
) -> Positions:
    """Decide where a task goes on. Raises CannotGoOnError.

    A changelog that holds something without a committed offset means that the offsets were lost: starting from the
    earliest would count everything twice.
    """
    chosen: dict[Partition, int] = {}
    for where, offset in committed.items():
        topic, partition = where
        if offset is None and not changelog_is_empty:
            raise CannotGoOnError(
                "CommittedOffsetLost",
                f"the group has no committed offset of {topic}-{partition}, but the task has state; set the offset "
                "with kafka-consumer-groups --reset-offsets, or reset the application, then run `sluice resume`",
                where,
                None,
            )
        if offset is not None and starts[where] <= offset <= ends[where]:
            chosen[where] = offset
            continue
        chosen[where] = _reset(where, offset, starts[where], ends[where], offset_reset)
    return Positions(chosen, commit_first=any(chosen[where] != offset for where, offset in committed.items()))


def _reset(where: Partition, offset: int | None, start: int, end: int, offset_reset: str) -> int:
    topic, partition = where
    if offset_reset == "earliest" and (offset is None or offset < start):
        return start
    if offset_reset == "latest":
        return end
    if offset is None:
        reason, what = "NoCommittedOffset", f"the group has no committed offset of {topic}-{partition}"
    else:
        reason = "OffsetOutOfRange"
        what = f"the committed offset {offset} of {topic}-{partition} lies outside of its log, {start} to {end}"
    raise CannotGoOnError(
        reason, f"{what}, and offset_reset is {offset_reset!r}; set the offset, then run `sluice resume`", where, offset
    )


def prepare(
    offsets: Offsets,
    plan: SubtopologyPlan,
    application_id: str,
    task: TaskId,
    attempt: int,
    identity: TaskIdentity | None,
) -> Prepared | NotPrepared:
    """Ask Kafka about one task; runs in a thread of its own. `identity` of the copy that is followed here, if any."""
    try:
        return _prepare(offsets, plan, application_id, task, attempt, identity)
    except OffsetsUnavailableError as error:
        return NotPrepared(task, attempt, str(error), None)
    except CannotGoOnError as error:
        topic, partition = error.where
        return NotPrepared(
            task, attempt, str(error), FailedTask(task, error.reason, str(error), topic, partition, error.offset)
        )
    except Exception as error:  # a lost event would leave the task waiting for ever
        log.exception("preparing task %s", task)
        return NotPrepared(task, attempt, f"{type(error).__name__}: {error}", None)


def _prepare(
    offsets: Offsets,
    plan: SubtopologyPlan,
    application_id: str,
    task: TaskId,
    attempt: int,
    identity: TaskIdentity | None,
) -> Prepared:
    partitions = [(topic, task.partition) for topic in plan.source.topics]
    stores = plan.stores()
    changelogs = {store.changelog: store.store for store in stores}
    committed = offsets.committed(partitions)
    logs = [(changelog, task.partition) for changelog in changelogs]
    ends = offsets.log_ends([*partitions, *logs])
    starts = offsets.log_starts([*partitions, *logs])
    empty = all(ends[log] == 0 for log in logs)
    positions = choose_positions(committed, starts, ends, empty, plan.source.offset_reset)
    if stores and identity is None:
        identity = _identity(offsets, application_id, task, stores)
    return Prepared(
        task,
        attempt,
        positions.offsets,
        positions.commit_first,
        identity,
        {changelogs[topic]: starts[topic, partition] for topic, partition in logs},
        {changelogs[topic]: ends[topic, partition] for topic, partition in logs},
    )


def _identity(offsets: Offsets, application_id: str, task: TaskId, stores: tuple[ToStore, ...]) -> TaskIdentity:
    facts = offsets.facts(store.changelog for store in stores)
    return TaskIdentity(
        application_id,
        task,
        tuple(
            StoreIdentity(store.store, store.changelog, facts[store.changelog].id, facts[store.changelog].partitions)
            for store in stores
        ),
    )
