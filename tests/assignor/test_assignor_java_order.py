"""Java's orders, as its own collections gave them."""

from __future__ import annotations

from heapq import heappush
from uuid import UUID

from sluice_assignor.java_order import Buckets, hash_of, hash_set_order, is_in_order, poll, process_order, remove

IDS = [
    UUID(text)
    for text in (
        "cda4f9fc-3c6d-a5d7-38a1-abcd1a6916c7",
        "fa97c643-6564-12a9-9710-cf5327ac435a",
        "8512bd13-1107-2231-0ca5-996666ceab36",
        "ca14876a-eaff-1a09-7d72-4452ccea71ff",
        "8f1099c6-c3e1-b258-0534-f45738d048ec",
        "dc3902b3-8963-dc6e-479d-679346d4ac7a",
        "53addccb-2c33-be0a-c300-0de01b2ed40e",
        "7165c8ce-36e2-f24b-8690-5269ed6f0b09",
        "24042bb3-d434-1aad-c2a0-0403ce80c4b0",
        "c59142de-ccea-2645-aa31-87853184ff27",
        "ca25e466-4f52-53a0-5e08-caa1a0817910",
        "75ff0c03-bb5d-7385-5939-36e1daca3c06",
        "df552773-e14b-0190-5844-1b5616332aca",
        "d6600224-9b19-1bf4-e34f-806fabf4a07c",
    )
]


def test_process_ids_compare_as_two_signed_longs():
    assert sorted(IDS[4:9], key=process_order) == [IDS[4], IDS[5], IDS[8], IDS[6], IDS[7]]


def test_the_lower_half_is_signed_too():
    low, high = UUID("00000000-0000-0000-8000-000000000000"), UUID(int=1)

    assert process_order(low) < process_order(high)


def test_a_set_of_twelve_is_walked_by_sixteen_buckets():
    assert hash_set_order(range(12), hash_of_number) == [0, 4, 11, 5, 9, 10, 1, 2, 3, 7, 8, 6]


def test_a_bigger_set_is_walked_by_twice_as_many():
    assert hash_set_order(range(14), hash_of_number) == [0, 13, 5, 10, 1, 2, 4, 11, 12, 9, 3, 7, 8, 6]


def test_sets_of_known_hashes_are_walked_in_the_same_order():
    buckets = Buckets([hash_of(process_id) for process_id in IDS])

    assert buckets.in_order(range(14)) == hash_set_order(range(14), hash_of_number)
    assert buckets.in_order(range(12)) == hash_set_order(range(12), hash_of_number)


class Tens(tuple[int, ...]):
    """A number that compares by its tens, so that the ones show which of the equals came."""

    def __eq__(self, other):
        return self[0] // 10 == other[0] // 10

    def __lt__(self, other):
        return self[0] // 10 < other[0] // 10

    def __le__(self, other):
        return self[0] // 10 <= other[0] // 10

    def __ge__(self, other):
        return self[0] // 10 >= other[0] // 10

    __hash__ = None


def test_a_queue_gives_equals_in_the_order_of_its_slots():
    slots: list[Tens] = []
    for number in (31, 12, 23, 14, 35, 16, 27, 18, 39, 20, 11):
        heappush(slots, Tens((number,)))

    remove(slots, next(number for number in slots if number[0] == 23))

    assert [poll(slots)[0] for _ in range(10)] == [12, 14, 18, 11, 16, 20, 27, 35, 39, 31]


def test_a_queue_whose_keys_have_changed_in_their_slots_gives_what_is_on_top():
    slots = [(1, 0), (2, 1), (3, 2), (0, 3), (5, 4)]

    assert not is_in_order(slots)
    assert [poll(slots)[1] for _ in range(5)] == [0, 1, 3, 2, 4]


def hash_of_number(number: int) -> int:
    return hash_of(IDS[number])
