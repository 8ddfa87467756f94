"""Where standbys go: each to the least loaded worker that has no copy of the task (Kafka's default standby assignor).

Load counts every role. When there are more replicas than workers, the rest is left out: two copies on one worker
protect from nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from sluice_assignor.draft import Draft


def place_standbys(tasks: Sequence[int], replicas: int, draft: Draft, workers: Sequence[int]) -> None:
    """Add up to `replicas` standbys of each task, task by task."""
    active, standby, capacity = draft.active, draft.standby, draft.capacity
    held = [draft.count(worker) for worker in range(len(capacity))]
    queue = [draft.by_load(worker) for worker in workers]
    heapq.heapify(queue)
    for task in tasks:
        missing = replicas
        passed = []
        while missing and queue:
            worker = queue[0][1]
            if task in active[worker] or task in standby[worker]:
                passed.append(heapq.heappop(queue))
            else:
                standby[worker].add(task)
                held[worker] += 1
                heapq.heapreplace(queue, (held[worker] / capacity[worker], worker))
                missing -= 1
        for entry in passed:
            heapq.heappush(queue, entry)
