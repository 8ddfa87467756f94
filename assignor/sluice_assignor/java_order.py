"""The orders of Java's collections, as far as Kafka's decisions hang on them.

Three of them can be seen in an assignment: a UUID compares as two *signed* longs (ids that begin with 8…f come before
those that begin with 0…7), a PriorityQueue is not stable and keeps an element where it is when its key changes, and a
HashSet is walked in the order of its buckets. Python's UUID, heapq and set all differ, so they are spelt out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar
from uuid import UUID

from sluice_protocol.ids import TaskId

_LONG = 1 << 64
_INT_MASK = (1 << 32) - 1
_SMALLEST_TABLE = 16


Element = TypeVar("Element")


def process_order(process_id: UUID) -> tuple[int, int]:
    """The sort key of a process id: Java's UUID.compareTo."""
    most, least = _halves(process_id)
    return _signed(most), _signed(least)


def hash_of(process_id: UUID) -> int:
    """UUID.hashCode as HashMap spreads it over its buckets."""
    most, least = _halves(process_id)
    folded = most ^ least
    return _spread((folded >> 32) ^ (folded & _INT_MASK))


def hash_of_task(task: TaskId) -> int:
    """TaskId.hashCode of a task without a named topology, as HashMap spreads it over its buckets."""
    return _spread((31**3 + 31**2 * task.subtopology + 31 * task.partition) & _INT_MASK)


def hash_set_order(added: Sequence[Element], hash_of_element: Callable[[Element], int]) -> list[Element]:
    """The order in which a HashSet is walked that these elements were added to one by one."""
    table = _SMALLEST_TABLE
    while len(added) * 4 > table * 3:
        table *= 2
    return sorted(added, key=lambda element: hash_of_element(element) & (table - 1))


class PriorityQueue(Generic[Element]):
    """java.util.PriorityQueue slot by slot.

    Keys are asked for at each comparison, not kept: an element whose key changed stays where it is until it is removed
    and added again, and until then decides where others go.
    """

    def __init__(self, key: Callable[[Element], tuple[float, int]]) -> None:
        self._key = key
        self._slots: list[Element] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def add(self, element: Element) -> None:
        self._slots.append(element)
        self._sift_up(len(self._slots) - 1)

    def poll(self) -> Element:
        """Take the first element out. Raises IndexError when there is none."""
        first = self._slots[0]
        self._fill(0)
        return first

    def remove(self, element: Element) -> None:
        """Take this element out. Raises ValueError when it is not in the queue."""
        self._fill(self._slots.index(element))

    def drain(self) -> Iterator[Element]:
        """Poll until nothing is left."""
        while self._slots:
            yield self.poll()

    def _fill(self, slot: int) -> None:
        """Close the gap at a slot with the last element."""
        last = self._slots.pop()
        if slot == len(self._slots):
            return
        self._slots[slot] = last
        self._sift_down(slot)
        if self._slots[slot] is last:
            self._sift_up(slot)

    def _sift_up(self, slot: int) -> None:
        slots, key_of, element = self._slots, self._key, self._slots[slot]
        key = key_of(element)
        while slot > 0:
            parent = (slot - 1) // 2
            if key >= key_of(slots[parent]):
                break
            slots[slot] = slots[parent]
            slot = parent
        slots[slot] = element

    def _sift_down(self, slot: int) -> None:
        slots, key_of, element = self._slots, self._key, self._slots[slot]
        key, size = key_of(element), len(slots)
        while (child := 2 * slot + 1) < size:
            child_key = key_of(slots[child])
            if child + 1 < size and (sibling_key := key_of(slots[child + 1])) < child_key:
                child, child_key = child + 1, sibling_key
            if key <= child_key:
                break
            slots[slot] = slots[child]
            slot = child
        slots[slot] = element


def _spread(code: int) -> int:
    return code ^ (code >> 16)


def _halves(process_id: UUID) -> tuple[int, int]:
    return process_id.int >> 64, process_id.int & (_LONG - 1)


def _signed(half: int) -> int:
    return half - _LONG if half >= _LONG // 2 else half
