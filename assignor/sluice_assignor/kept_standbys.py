"""Where standbys go when they are to stay: with whoever stands by, then with whoever has a caught-up copy.

What is left goes as everybody's standbys go: to the least loaded. In the end they are balanced over threads, which
moves one only if its worker is two tasks a thread ahead.
"""

from __future__ import annotations

from collections import defaultdict

from sluice_assignor.copies import Copies
from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.standby import place_standbys
from sluice_assignor.threads import balance_over_threads


def keep_standbys(draft: Draft, numbering: Numbering, copies: Copies, replicas: int) -> None:
    """Add up to `replicas` standbys of each task with state to a draft that has all actives."""
    missing: dict[int, list[int]] = defaultdict(list)
    for task in numbering.stateful:
        kept = _near_state(task, draft, numbering, copies)[:replicas]
        for worker in kept:
            draft.standby[worker].add(task)
        missing[replicas - len(kept)].append(task)
    for count, tasks in sorted(missing.items()):
        place_standbys(tasks, count, draft, numbering.staying)
    balance_over_threads(draft.standby, draft, numbering.staying)


def _near_state(task: int, draft: Draft, numbering: Numbering, copies: Copies) -> list[int]:
    """Those who stand by come first; then the caught-up, among them who ran the task until now; then the warming."""

    def by_state(worker: int) -> tuple[bool, bool, int]:
        stands_by = numbering.tasks[task].id in numbering.workers[worker].standby
        return not stands_by, not copies.is_ready(worker, task), worker

    near = (worker for worker in copies.of(task) if copies.is_ready_or_warming(worker, task))
    return sorted((worker for worker in near if not draft.holds(worker, task)), key=by_state)
