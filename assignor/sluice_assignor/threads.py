"""Balance over threads: no worker does more per thread than it must (KIP-441, "Defining balance").

Placement deals tasks out one by one and looks at threads only here. A task moves when its worker stays at least as
loaded as the one that takes it becomes, so that a move never just swaps who is ahead, and sweeping comes to an end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from sluice_assignor.draft import Draft, Role

MayTakeOver = Callable[[int, int], bool]
"""May tasks of the first worker go to the second?"""


def _always(source: int, destination: int) -> bool:
    return True


def balance_over_threads(
    role: Role, draft: Draft, workers: Sequence[int], may_take_over: MayTakeOver = _always
) -> None:
    """Move tasks of one role (one of the draft's own) between workers until a whole sweep moves nothing."""
    while _sweep(role, draft, workers, may_take_over):
        pass


def place_least_active(tasks: Sequence[int], draft: Draft, workers: Sequence[int]) -> None:
    """Give each task to the worker that runs the fewest per thread; for tasks without state, which move for free."""
    queue = [(draft.active_load(worker), worker) for worker in workers]
    heapq.heapify(queue)
    for task in tasks:
        worker = queue[0][1]
        draft.active[worker].add(task)
        heapq.heapreplace(queue, (draft.active_load(worker), worker))


def _sweep(role: Role, draft: Draft, workers: Sequence[int], may_take_over: MayTakeOver) -> bool:
    moved = False
    lightest = _lightest(draft, workers)
    for source in workers:
        if lightest > _load_after_giving(draft, source):
            continue
        for destination in workers:
            if destination == source or not may_take_over(source, destination):
                continue
            if _shift(role, draft, source, destination):
                moved = True
                lightest = _lightest(draft, workers)
    return moved


def _lightest(draft: Draft, workers: Sequence[int]) -> float:
    return min(_load_after_taking(draft, worker) for worker in workers)


def _shift(role: Role, draft: Draft, source: int, destination: int) -> bool:
    """Move what balance asks for from one worker to another, first tasks first."""
    if not _is_heavier(draft, source, destination):
        return False
    moved = False
    for task in sorted(role[source]):
        if not _is_heavier(draft, source, destination):
            break
        if not draft.holds(destination, task):
            role[source].remove(task)
            role[destination].add(task)
            moved = True
    return moved


def _is_heavier(draft: Draft, source: int, destination: int) -> bool:
    return _load_after_giving(draft, source) >= _load_after_taking(draft, destination)


def _load_after_giving(draft: Draft, worker: int) -> float:
    return (draft.count(worker) - 1) / draft.capacity[worker]


def _load_after_taking(draft: Draft, worker: int) -> float:
    return (draft.count(worker) + 1) / draft.capacity[worker]
