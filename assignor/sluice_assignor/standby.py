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
    queue = [draft.by_load(worker) for worker in workers]
    heapq.heapify(queue)
    for task in tasks:
        missing = replicas
        polled = []
        while missing and queue:
            worker = heapq.heappop(queue)[1]
            polled.append(worker)
            if not draft.holds(worker, task):
                draft.standby[worker].add(task)
                missing -= 1
        for worker in polled:
            heapq.heappush(queue, draft.by_load(worker))
