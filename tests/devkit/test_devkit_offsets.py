"""The witnesses' pure parts: the format of the offsets log, single ownership, stand-stills."""

import struct

import pytest

from sluice_devkit.offsets import (
    EPOCH_FELL,
    NO_OWNER,
    OFFSET_FELL,
    TWO_OWNERS,
    Advance,
    OffsetCommit,
    Owner,
    StandStill,
    UnreadableCommitError,
    check,
    commits_by_partition,
    group_partition,
    longest_stand_still,
    parse_commit,
)

KEY = struct.pack(">hh6sh2si", 1, 6, b"orders", 2, b"in", 3)
WHEN = 1_700_000_000_123
VALUES = {
    0: struct.pack(">hqh5sq", 0, 42, 5, b"a@1.7", WHEN),
    1: struct.pack(">hqh5sqq", 1, 42, 5, b"a@1.7", WHEN, -1),
    2: struct.pack(">hqh5sq", 2, 42, 5, b"a@1.7", WHEN),
    3: struct.pack(">hqih5sq", 3, 42, -1, 5, b"a@1.7", WHEN),
    4: struct.pack(">hqiB5sqB", 4, 42, 9, 6, b"a@1.7", WHEN, 0),
}


@pytest.mark.parametrize("version", VALUES)
def test_every_version_of_a_commit_is_read(version: int) -> None:
    commit = parse_commit(KEY, VALUES[version], position=5)

    assert commit == OffsetCommit("orders", "in", 3, 42, "a@1.7", WHEN, 5)


def test_a_long_metadata_has_a_length_of_several_bytes() -> None:
    text = "w" * 300
    value = struct.pack(">hqi", 4, 1, -1) + bytes([(301 & 0x7F) | 0x80, 301 >> 7]) + text.encode()
    value += struct.pack(">qB", WHEN, 0)

    commit = parse_commit(KEY, value)

    assert commit is not None
    assert (commit.metadata, commit.timestamp_ms) == (text, WHEN)


def test_the_nul_that_confluent_kafka_sends_with_metadata_is_no_part_of_it() -> None:
    commit = parse_commit(KEY, struct.pack(">hqih6sq", 3, 42, -1, 6, b"a@1.7\0", WHEN))

    assert commit is not None
    assert commit.metadata == "a@1.7"


def test_other_records_of_the_log_are_skipped() -> None:
    group_metadata = struct.pack(">hh6s", 2, 6, b"orders")

    assert parse_commit(group_metadata, b"\x00\x03") is None
    assert parse_commit(KEY, None) is None


@pytest.mark.parametrize("value", [b"\x00\x03\x00", VALUES[2][:-9], VALUES[4][:16], struct.pack(">hq", 9, 1)])
def test_a_record_in_no_known_format_is_named(value: bytes) -> None:
    with pytest.raises(UnreadableCommitError, match="__consumer_offsets at 8"):
        parse_commit(KEY, value, position=8)


@pytest.mark.parametrize(("group", "code"), [("", 0), ("orders", -1008770331), ("größe", 98762257), ("a", 97)])
def test_a_group_is_where_javas_hash_code_puts_it(group: str, code: int) -> None:
    assert group_partition(group, 50) == abs(code) % 50


def test_the_smallest_hash_code_goes_to_partition_0() -> None:
    assert group_partition("polygenelubricants", 50) == 0


def commits(*rows: str) -> list[OffsetCommit]:
    """One commit a row, `partition offset metadata`, in this order."""
    parts = [row.split() for row in rows]
    return [OffsetCommit("g", "in", int(p), int(o), m, 0, at) for at, (p, o, m) in enumerate(parts)]


def rules(*rows: str) -> list[str]:
    return [violation.rule for violation in check(commits(*rows))]


@pytest.mark.parametrize(
    ("rows", "broken"),
    [
        (["0 5 a@1.1", "0 9 a@1.1", "0 9 a@1.1"], []),
        (["0 5 a@1.1", "1 2 b@1.1", "0 7 a@1.1"], []),
        (["0 5 a@1.1", "0 7 b@1.2", "0 9 a@1.3"], []),
        (["0 5 a@1.9", "0 7 b@2.1"], []),
        (["0 5 a@1.1", "0 4 a@1.1"], [OFFSET_FELL]),
        (["0 5 a@1.2", "0 6 a@1.1"], [EPOCH_FELL]),
        (["0 5 a@2.1", "0 6 b@1.9"], [EPOCH_FELL]),
        (["0 5 a@1.1", "0 6 b@1.1"], [TWO_OWNERS]),
        (["0 5 a@1.1", "0 7 b@1.2", "0 9 a@1.1"], [EPOCH_FELL]),
        (["0 5 a@1.1", "0 7 b@1.2", "0 9 a@1.2"], [TWO_OWNERS]),
        (["0 5 a@1.2", "0 3 b@1.1"], [OFFSET_FELL, EPOCH_FELL]),
        (["0 5 nobody"], [NO_OWNER]),
    ],
)
def test_single_ownership(rows: list[str], broken: list[str]) -> None:
    assert rules(*rows) == broken


def test_a_violation_says_who_committed_what_and_where() -> None:
    (violation,) = check(commits("0 5 a@1.2", "0 6 b@1.1"))

    assert str(violation) == "in-0: 'b@1.1' committed 6 at 1 after 'a@1.2' committed 5 at 0; epochs only grow"


@pytest.mark.parametrize("metadata", ["", "a", "a@", "@1.2", "a@1", "a@1.x", "a@-1.2"])
def test_metadata_of_any_other_form_has_no_owner(metadata: str) -> None:
    assert Owner.parse(metadata) is None


def test_a_workers_name_may_hold_anything_but_the_last_at() -> None:
    assert Owner.parse("host@worker-0@3.14") == Owner("host@worker-0", (3, 14))


def test_commits_are_grouped_in_the_order_of_the_log() -> None:
    grouped = commits_by_partition(commits("0 5 a@1.1", "1 2 b@1.1", "0 7 a@1.1"))

    assert {p: [c.offset for c in found] for p, found in grouped.items()} == {("in", 0): [5, 7], ("in", 1): [2]}


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ([], (10, 20)),
        ([5], (5, 20)),
        ([12, 13], (13, 20)),
        ([12, 19], (12, 19)),
        ([4, 11, 19], (11, 19)),
        ([1, 11, 30], (11, 30)),
        ([1, 30], (1, 30)),
        ([30], (10, 30)),
    ],
)
def test_the_longest_stand_still_counts_in_full_between_two_advances(
    moments: list[float], expected: tuple[float, float]
) -> None:
    advances = [Advance(at, offset) for offset, at in enumerate(moments)]

    assert longest_stand_still(advances, 10, 20) == StandStill(*expected)
