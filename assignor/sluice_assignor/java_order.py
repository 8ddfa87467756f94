"""The orders of Java's collections, as far as Kafka's decisions hang on them.

Three of them can be seen in an assignment: a UUID compares as two *signed* longs (ids that begin with 8…f come before
those that begin with 0…7), a PriorityQueue is not stable and keeps an element where it is when its key changes, and a
HashSet is walked in the order of its buckets. Python's UUID, heapq and set all differ, so they are spelt out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import le
from typing import Any, TypeVar
from uuid import UUID

from sluice_protocol.ids import TaskId

_LONG = 1 << 64
_INT_MASK = (1 << 32) - 1
_SMALLEST_TABLE = 16


Element = TypeVar("Element")
Key = TypeVar("Key", bound=tuple[Any, ...])


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
    mask = _table_for(len(added)) - 1
    return sorted(added, key=lambda element: hash_of_element(element) & mask)


class Buckets:
    """`hash_set_order` of numbers whose hashes are known, for many sets of them."""

    def __init__(self, hashes: Sequence[int]) -> None:
        self._hashes = hashes
        self._by_table: dict[int, list[int]] = {}

    def in_order(self, added: Sequence[int]) -> list[int]:
        table = _table_for(len(added))
        buckets = self._by_table.get(table)
        if buckets is None:
            buckets = self._by_table[table] = [code & (table - 1) for code in self._hashes]
        return sorted(added, key=buckets.__getitem__)


def poll(slots: list[Key]) -> Key:
    """java.util.PriorityQueue.poll on its slots, which need not be in order, and whose keys may be equal.

    Adding is heapq's heappush. Python's heappop takes another way down where keys are equal or out of order. Raises
    IndexError when there is nothing to take.
    """
    first = slots[0]
    _fill(slots, 0)
    return first


def remove(slots: list[Key], key: Key) -> None:
    """java.util.PriorityQueue.remove of the first slot with this key. Raises ValueError when there is none."""
    _fill(slots, slots.index(key))


def is_in_order(slots: list[Key]) -> bool:
    """Is no slot before its parent?"""
    return all(map(le, slots, slots[1::2])) and all(map(le, slots, slots[2::2]))


def _fill(slots: list[Key], slot: int) -> None:
    """Close the gap at a slot with the last element."""
    last = slots.pop()
    if slot == len(slots):
        return
    place = _sift_down(slots, slot, last)
    if place == slot:
        _sift_up(slots, slot, last)


def _sift_down(slots: list[Key], slot: int, key: Key) -> int:
    size = len(slots)
    while (child := 2 * slot + 1) < size:
        if child + 1 < size and slots[child + 1] < slots[child]:
            child += 1
        if key <= slots[child]:
            break
        slots[slot] = slots[child]
        slot = child
    slots[slot] = key
    return slot


def _sift_up(slots: list[Key], slot: int, key: Key) -> None:
    while slot > 0:
        parent = (slot - 1) // 2
        if key >= slots[parent]:
            break
        slots[slot] = slots[parent]
        slot = parent
    slots[slot] = key


def _table_for(count: int) -> int:
    table = _SMALLEST_TABLE
    while count * 4 > table * 3:
        table *= 2
    return table


def _spread(code: int) -> int:
    return code ^ (code >> 16)


def _halves(process_id: UUID) -> tuple[int, int]:
    return process_id.int >> 64, process_id.int & (_LONG - 1)


def _signed(half: int) -> int:
    return half - _LONG if half >= _LONG // 2 else half
