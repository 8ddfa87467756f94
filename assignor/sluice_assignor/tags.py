"""Standbys on workers that differ in their tags (KIP-708), so that no zone or cluster takes all copies with it.

Which keys count is configured; all of those count the same. A copy makes everybody who shares a value with its worker
unfit for the next one, key by key, until a key has no value left that a copy could differ in: then the key is heeded no
more. What finds no worker in this way goes to the least loaded ones, after all other tasks, in the order of Kafka's
HashMap. From nine subtopologies with more than 248 partitions on that map has bins that are trees; their order is not
replayed, so that there some of those standbys may stand elsewhere than Kafka's, as many on each worker.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.java_order import hash_of_task, hash_set_order
from sluice_assignor.model import Degradation, Wish
from sluice_assignor.standby import place_standbys


class Tags:
    """The tags of the workers that may receive tasks, as far as they count."""

    def __init__(self, numbering: Numbering, keys: Collection[str]) -> None:
        self._numbering = numbering
        self._workers = numbering.staying
        self._of = {
            worker: {key: value for key, value in numbering.workers[worker].tags.items() if key in keys}
            for worker in self._workers
        }
        self._all = {worker: numbering.workers[worker].tags for worker in self._workers}
        values = {pair for tags in self._of.values() for pair in tags.items()}
        self._value_counts = Counter(key for key, _ in values)

    def place_standbys(self, tasks: Sequence[int], replicas: int, draft: Draft) -> list[int]:
        """Add up to `replicas` standbys of each task; the tasks of which some copies share tags are returned."""
        holders = draft.active_holders()
        queue = [draft.by_load(worker) for worker in self._workers]
        heapq.heapify(queue)
        missing = {task: self._place_apart(task, holders[task], replicas, draft, queue) for task in tasks}
        left = [task for task in tasks if missing[task]]
        for task in self._in_kafkas_order(tasks):
            if missing[task]:
                place_standbys([task], missing[task], draft, self._workers)
        return left

    def why_not_apart(self, tasks: Sequence[int]) -> Iterator[Degradation]:
        """What to say of tasks of which some copies share tags."""
        if tasks:
            first = self._numbering.tasks[tasks[0]].id
            others = f" and of {len(tasks) - 1} more tasks" if len(tasks) > 1 else ""
            yield Degradation(
                Wish.TAGS,
                f"there are too few workers that differ in their tags for all copies of task {first}{others}",
            )

    def are_alike(self, one: int, other: int) -> bool:
        """Has the other worker the same value in every tag that the one has?"""
        return self._all[one].items() <= self._all[other].items()

    def may_move(self, draft: Draft, source: int, destination: int, task: int) -> bool:
        """Would the copies of the task differ in as many tags afterwards?"""
        others = [worker for worker in self._workers if worker != source and draft.holds(worker, task)]
        return self._distinct([*others, destination]) >= self._distinct([*others, source])

    def _distinct(self, workers: Sequence[int]) -> int:
        return len({pair for worker in workers for pair in self._all[worker].items()})

    def _place_apart(self, task: int, active: int, replicas: int, draft: Draft, queue: list[tuple[float, int]]) -> int:
        """Place as many standbys as differ from each other and the active; return how many are missing."""
        unfit: dict[str, set[str]] = {}
        chosen: list[int] = []
        newest: int | None = active
        while newest is not None and len(chosen) < replicas:
            self._set_apart_from(newest, unfit, copies=1 + len(chosen))
            newest = self._poll(queue, lambda worker: not draft.holds(worker, task) and self._is_fit(worker, unfit))
            if newest is not None:
                draft.standby[newest].add(task)
                chosen.append(newest)
        for worker in chosen:
            heapq.heappush(queue, draft.by_load(worker))
        return replicas - len(chosen)

    def _set_apart_from(self, worker: int, unfit: dict[str, set[str]], copies: int) -> None:
        for key, value in self._of[worker].items():
            if self._value_counts[key] <= copies:
                unfit[key] = set()
            else:
                unfit.setdefault(key, set()).add(value)

    def _is_fit(self, worker: int, unfit: dict[str, set[str]]) -> bool:
        tags = self._of[worker]
        return not any(tags.get(key) in values for key, values in unfit.items())

    def _poll(self, queue: list[tuple[float, int]], may_take: Callable[[int], bool]) -> int | None:
        """Take the least loaded of those out that may take the task."""
        passed = []
        found = None
        while queue and found is None:
            entry = heapq.heappop(queue)
            if may_take(entry[1]):
                found = entry[1]
            else:
                passed.append(entry)
        for entry in passed:
            heapq.heappush(queue, entry)
        return found

    def _in_kafkas_order(self, tasks: Sequence[int]) -> list[int]:
        return hash_set_order(tasks, lambda task: hash_of_task(self._numbering.tasks[task].id))
