"""Who takes a task over for now: the least loaded of the workers that may.

Kafka keeps all workers in a priority queue by load, polls until one fits, and puts back those that it passed. While a
movement is carried out the load of a worker *inside* the queue may change, and then the queue may answer with a worker
that is not the least loaded. To give Kafka's answer there are two queues with the same face: `LeastLoaded` looks at the
few that fit only, and gives up as soon as its answer could differ from Kafka's; `Replay` does what Kafka does, slot by
slot, and is slow. `movement` tries the first and falls back on the second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush
from typing import Protocol

from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.java_order import Buckets, hash_of, is_in_order, poll, remove


class OrderUnknown(Exception):  # noqa: N818 - it is a signal between two rooms, not a mistake
    """The slots of Kafka's queue decide here, and this queue does not keep them."""


class Candidates(Protocol):
    """The workers that may take tasks over, by load."""

    def poll(self, fitting: Sequence[int]) -> int | None:
        """Take out the first of those, in order, who may take the task; None when there is nobody."""

    def put_back(self, *workers: int) -> None:
        """Put those back who had a part in a movement, one by one, where their loads belong now."""


class LeastLoaded:
    """The plain minimum, which is Kafka's answer as long as no load has changed inside its queue.

    A poll that finds nobody takes everybody out and puts all back, so that order is restored.
    """

    def __init__(self, draft: Draft, numbering: Numbering) -> None:
        self._draft = draft
        self._loads = [draft.load(worker) for worker in range(len(numbering.workers))]
        self._polled: int | None = None
        self._may_be_out_of_order = False

    def poll(self, fitting: Sequence[int]) -> int | None:
        if not fitting:
            self._may_be_out_of_order = False
            return None
        if len(fitting) == 1:
            self._polled = fitting[0]
        elif self._may_be_out_of_order:
            raise OrderUnknown
        else:
            self._polled = min(fitting, key=self._loads.__getitem__)
        return self._polled

    def put_back(self, *workers: int) -> None:
        for worker in workers:
            load = self._draft.load(worker)
            if worker == self._polled:
                self._polled = None
            elif load != self._loads[worker]:
                self._may_be_out_of_order = True
            self._loads[worker] = load


class Replay:
    """Kafka's queue itself, with its slots, and its set of those that were passed.

    While the slots are in order, Python's own heap moves them as Java's does, only faster: no two keys are equal.
    """

    def __init__(self, draft: Draft, numbering: Numbering) -> None:
        self._draft = draft
        self._keys = [draft.by_load(worker) for worker in range(len(numbering.workers))]
        self._buckets = Buckets([hash_of(worker.process_id) for worker in numbering.workers])
        self._slots: list[tuple[float, int]] = []
        self._inside: set[int] = set()
        self._in_order = True
        self.put_back(*numbering.staying)

    def poll(self, fitting: Sequence[int]) -> int | None:
        passed: list[int] = []
        found = self._pass_until(frozenset(fitting), passed)
        if found is not None:
            self._inside.remove(found)
        if not self._slots:
            self._in_order = True
        for worker in self._buckets.in_order(passed):
            heappush(self._slots, self._keys[worker])
        return found

    def _pass_until(self, fitting: Collection[int], passed: list[int]) -> int | None:
        slots, poll_next = self._slots, heappop if self._in_order else poll
        while slots:
            worker = poll_next(slots)[1]
            if worker in fitting:
                return worker
            passed.append(worker)
        return None

    def put_back(self, *workers: int) -> None:
        for worker in workers:
            self._change_key(worker)
        for worker in workers:
            if worker in self._inside:
                remove(self._slots, self._keys[worker])
            self._inside.add(worker)
            heappush(self._slots, self._keys[worker])
        self._in_order = self._in_order or is_in_order(self._slots)

    def _change_key(self, worker: int) -> None:
        """A load that changes inside the queue does so in its slot; nobody makes way for it."""
        old, new = self._keys[worker], self._draft.by_load(worker)
        self._keys[worker] = new
        if worker in self._inside and new != old:
            self._slots[self._slots.index(old)] = new
            self._in_order = self._in_order and is_in_order(self._slots)
