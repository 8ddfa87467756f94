"""Everything stays with whoever has it: for when nothing can be decided (after Kafka's FallbackPriorTaskAssignor).

Without the ends of the changelogs nobody knows who is caught up, so that moving a task would be a guess. A task that
nobody runs is given out all the same, or it would stand still for as long as the ends can't be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.model import RUNNING, Decision, GroupState
from sluice_assignor.moves import first_owners
from sluice_assignor.threads import place_least_active
from sluice_protocol.ids import TaskId


def keep_prior_owners(group: GroupState, max_warmup_replicas: int, *, follow_up: bool) -> Decision:
    """Keep every role that is held; give tasks that nobody runs to the copy that has read furthest, else evenly.

    A draining worker receives nothing, so when all drain those tasks stay with nobody.
    """
    numbering = Numbering.of(group)
    draft = Draft(numbering)
    for task, worker in numbering.holders.items():
        draft.active[worker].add(task)
    if numbering.staying:
        _give_out_unheld(draft, numbering)
    _keep_copies(draft, numbering, max_warmup_replicas)
    kept = draft.assignment(numbering)
    return Decision(target=kept, next=kept, moves=first_owners(draft, numbering), follow_up=follow_up)


def _give_out_unheld(draft: Draft, numbering: Numbering) -> None:
    furthest = _furthest_copies(draft, numbering)
    for task, worker in furthest.items():
        draft.active[worker].add(task)
    given = numbering.holders.keys() | furthest.keys()
    rest = [task for task in range(len(numbering.tasks)) if task not in given]
    place_least_active(rest, draft, numbering.staying)


def _furthest_copies(draft: Draft, numbering: Numbering) -> dict[int, int]:
    """For each unheld task of which there is a copy: the worker that has read most of it; of equals the least busy."""
    readers: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for worker in numbering.staying:
        busy = draft.active_load(worker)
        for task_id, copy in numbering.workers[worker].copies.items():
            task = numbering.task_numbers.get(task_id)
            if task is None or task in numbering.holders or not numbering.tasks[task].stateful:
                continue
            read = inf if copy.offset_sum == RUNNING else copy.offset_sum
            if read > 0:
                readers[task].append((-read, busy, worker))
    return {task: min(copies)[2] for task, copies in readers.items()}


def _keep_copies(draft: Draft, numbering: Numbering, max_warmup_replicas: int) -> None:
    slots = max_warmup_replicas
    for number, worker in enumerate(numbering.workers):
        for task in _known_stateful(worker.standby, numbering):
            if not draft.holds(number, task):
                draft.standby[number].add(task)
        for task in _known_stateful(worker.warmup, numbering):
            if slots and not draft.holds(number, task):
                draft.warmup[number].add(task)
                slots -= 1


def _known_stateful(task_ids: Iterable[TaskId], numbering: Numbering) -> list[int]:
    known = (numbering.task_numbers.get(task_id) for task_id in task_ids)
    return sorted(task for task in known if task is not None and numbering.tasks[task].stateful)
