"""Who takes a task over for now: the least loaded of the workers that may.

Kafka keeps all workers in a priority queue by load, polls until one fits, and puts back those that it passed. While a
movement is carried out the load of a worker *inside* the queue may change, and then the queue may answer with a worker
that is not the least loaded. To give Kafka's answer there are two queues with the same face: `LeastLoaded` looks at the
few that fit only, and gives up as soon as its answer could differ from Kafka's; `Replay` does what Kafka does, slot by
slot, and is slow. `movement` tries the first and falls back on the second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.java_order import PriorityQueue, hash_of, hash_set_order

MayTake = Callable[[int], bool]


class OrderUnknown(Exception):  # noqa: N818 - it is a signal between two rooms, not a mistake
    """The slots of Kafka's queue decide here, and this queue does not keep them."""


class Candidates(Protocol):
    """The workers that may take tasks over, by load."""

    def poll(self, ready: Collection[int], may_take: MayTake) -> int | None:
        """Take out the first of those who are ready and may take the task; None when there is nobody."""

    def put_back(self, *workers: int) -> None:
        """Put those back who had a part in a movement, one by one, where their loads belong now."""


class LeastLoaded:
    """The plain minimum, which is Kafka's answer as long as no load has changed inside its queue.

    A poll that finds nobody takes everybody out and puts all back, so that order is restored.
    """

    def __init__(self, draft: Draft, numbering: Numbering) -> None:
        self._draft = draft
        self._counts = {worker: draft.count(worker) for worker in numbering.staying}
        self._polled: int | None = None
        self._may_be_out_of_order = False

    def poll(self, ready: Collection[int], may_take: MayTake) -> int | None:
        fitting = [worker for worker in ready if may_take(worker)]
        if not fitting:
            self._may_be_out_of_order = False
            return None
        if self._may_be_out_of_order and len(fitting) > 1:
            raise OrderUnknown
        self._polled = min(fitting, key=self._draft.by_load)
        return self._polled

    def put_back(self, *workers: int) -> None:
        for worker in workers:
            count = self._draft.count(worker)
            if worker == self._polled:
                self._polled = None
            elif count != self._counts[worker]:
                self._may_be_out_of_order = True
            self._counts[worker] = count


class Replay:
    """Kafka's queue itself, with its slots, and its set of those that were passed."""

    def __init__(self, draft: Draft, numbering: Numbering) -> None:
        self._draft = draft
        self._keys = [draft.by_load(worker) for worker in range(len(numbering.workers))]
        self._hashes = [hash_of(worker.process_id) for worker in numbering.workers]
        self._queue: PriorityQueue[int] = PriorityQueue(self._keys.__getitem__)
        self._inside: set[int] = set()
        self.put_back(*numbering.staying)

    def poll(self, ready: Collection[int], may_take: MayTake) -> int | None:
        passed: list[int] = []
        found = None
        for worker in self._queue.drain():
            if worker in ready and may_take(worker):
                found = worker
                break
            passed.append(worker)
        self._inside.difference_update(passed, () if found is None else (found,))
        self.put_back(*hash_set_order(passed, self._hashes.__getitem__))
        return found

    def put_back(self, *workers: int) -> None:
        for worker in workers:
            self._keys[worker] = self._draft.by_load(worker)
        for worker in workers:
            if worker in self._inside:
                self._queue.remove(worker)
            self._inside.add(worker)
            self._queue.add(worker)
