"""What a group's committed offsets say about who worked when: the two witnesses that no part of Sluice can talk to.

`OffsetWatch` polls the committed offsets and answers how long each partition stood still: under exactly-once that is
how long its results were not visible, whoever caused it. `CommitWitness` reads `__consumer_offsets` itself, where every
commit stays with its metadata `worker@epoch`, and answers whether a partition ever had two owners. Polling can't answer
that (it misses what is overwritten), and the log can't answer the first (it dates a commit by its request, not by its
transaction's end), hence two.

Kafka's own formatter of the log is Java; the two records that we need are small enough to be parsed here.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

Partition = tuple[str, int]
"""A topic and the number of its partition."""

OFFSETS_TOPIC = "__consumer_offsets"
_REQUEST_TIMEOUT_S = 10.0
_POLL_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Advance:
    """A committed offset that was seen to have moved: when (seconds since the epoch) and to what."""

    at: float
    offset: int


@dataclass(frozen=True, slots=True)
class StandStill:
    """A time in which a partition's committed offset didn't move, in seconds since the epoch."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end - self.start


def longest_stand_still(advances: Sequence[Advance], start: float, end: float) -> StandStill:
    """The longest time without an advance that overlaps [start, end].

    A time between two advances counts in full, even where it reaches out of the window. Before the first one nothing
    is known, so the window's own start counts, and after the last one its end.
    """
    inside = [advance.at for advance in advances if start <= advance.at <= end]
    before = [advance.at for advance in advances if advance.at < start]
    after = [advance.at for advance in advances if advance.at > end]
    moments = [before[-1] if before else start, *inside, after[0] if after else end]
    still = (StandStill(left, right) for left, right in itertools.pairwise(moments))
    return max(still, key=lambda time_span: time_span.seconds)


def _client(bootstrap_servers: str, config: Mapping[str, str] | None) -> dict[str, str | int | float | bool]:
    """A broker that is killed under an observer is what it observes, and nothing to log."""
    return {"bootstrap.servers": bootstrap_servers, "log_level": 2, **(config or {})}


class OffsetWatch:
    """Polls a group's committed offsets in a thread and keeps every advance.

    Resolution is `interval` plus the time of one request (1–3 ms on loopback); `slowest_poll` says how far a busy
    machine was from it. Offsets are those of ended transactions: read uncommitted means here that a pending commit
    isn't waited for, not that it is seen.

    A consumer that never joins, and no AdminClient: the latter's list_consumer_group_offsets crashes the process when a
    broker answers NOT_COORDINATOR, as one that has just started does (librdkafka #5040).
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        partitions: Iterable[Partition],
        interval: float = 0.015,
        config: Mapping[str, str] | None = None,
    ) -> None:
        settings = _client(bootstrap_servers, config)
        self._consumer = Consumer(
            {**settings, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
        )
        self._advances: dict[Partition, list[Advance]] = {partition: [] for partition in partitions}
        self._interval = interval
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"offset-watch-{group}", daemon=True)
        self.polls = 0
        self.failed_polls = 0
        self.slowest_poll = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """End polling; what was seen stays readable."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def advances(self) -> dict[Partition, tuple[Advance, ...]]:
        """Every advance of every partition so far, oldest first."""
        with self._changed:
            return {partition: tuple(seen) for partition, seen in self._advances.items()}

    def committed(self) -> dict[Partition, int]:
        """The last offset seen of every partition that has one."""
        return {partition: seen[-1].offset for partition, seen in self.advances().items() if seen}

    def total(self) -> int:
        """The sum of the committed offsets: for topics that start at 0, the records that are done."""
        return sum(self.committed().values())

    def stand_stills(self, start: float, end: float) -> dict[Partition, StandStill]:
        """The longest stand-still of every partition that overlaps [start, end] (seconds since the epoch).

        A partition without new records stands still too: keep feeding all of them.
        """
        return {partition: longest_stand_still(seen, start, end) for partition, seen in self.advances().items()}

    def wait_for(self, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait until the predicate holds, asking it whenever an offset moved; False if it didn't in time."""
        with self._changed:
            return self._changed.wait_for(holds, timeout)

    def wait_for_advance(self, since: float, timeout: float) -> bool:
        """Wait until every partition has moved after `since`."""
        return self.wait_for(lambda: all(seen and seen[-1].at > since for seen in self._advances.values()), timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            self._poll()
            took = time.monotonic() - began
            self.slowest_poll = max(self.slowest_poll, took)
            self._stopping.wait(max(0.0, self._interval - took))
        self._consumer.close()

    def _poll(self) -> None:
        partitions = [TopicPartition(*partition) for partition in self._advances]
        try:
            offsets = self._consumer.committed(partitions, timeout=_POLL_TIMEOUT_S)
        except KafkaException:
            self.failed_polls += 1  # a broker restarting is a stand-still like any other
            return
        self.polls += 1
        self._note(time.time(), offsets)

    def _note(self, at: float, offsets: Iterable[TopicPartition]) -> None:
        with self._changed:
            for tp in offsets:
                seen = self._advances[tp.topic, tp.partition]
                if tp.offset >= 0 and (not seen or seen[-1].offset != tp.offset):
                    seen.append(Advance(at, tp.offset))
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """One committed offset as it stands in `__consumer_offsets`.

    `position` is its place in the log, which is the order of all commits of its group; `timestamp_ms` is the broker's
    clock at the request, before its transaction ended.
    """

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str
    timestamp_ms: int
    position: int = 0


class UnreadableCommitError(ValueError):
    """A record of `__consumer_offsets` that isn't in a format we know."""


def parse_commit(key: bytes, value: bytes | None, position: int = 0) -> OffsetCommit | None:
    """Read one record of `__consumer_offsets`; None for other kinds (group metadata) and for tombstones.

    Kafka's OffsetCommitKey versions 0–1 and OffsetCommitValue versions 0–4. Raises UnreadableCommitError.
    """
    if value is None:
        return None
    try:
        return _read_commit(key, value, position)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise UnreadableCommitError(
            f"{OFFSETS_TOPIC} at {position}: the commit can't be read ({error}); key {key.hex()}, value {value.hex()}"
        ) from None


def _read_commit(key: bytes, value: bytes, position: int) -> OffsetCommit | None:
    head = _Reader(key)
    if head.number("h") > 1:
        return None
    group, topic, partition = head.text(), head.text(), head.number("i")
    body = _Reader(value)
    version = body.number("h")
    if not 0 <= version <= 4:
        raise UnreadableCommitError(f"{OFFSETS_TOPIC} at {position}: OffsetCommitValue version {version} is not known")
    offset = body.number("q")
    if version >= 3:
        body.number("i")  # leader epoch
    metadata = body.compact_text() if version >= 4 else body.text()
    # confluent-kafka sends the C string's end with the metadata of transactional commits
    return OffsetCommit(group, topic, partition, offset, metadata.rstrip("\0"), body.number("q"), position)


class _Reader:
    """Kafka's primitive types, read one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        value: int = struct.unpack_from(f">{code}", self._data, self._at)[0]
        self._at += struct.calcsize(f">{code}")
        return value

    def text(self) -> str:
        return self._take(self.number("h")).decode()

    def compact_text(self) -> str:
        return self._take(self._varint() - 1).decode()

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise IndexError(f"a text of {length} bytes at {self._at} of {len(self._data)}")
        self._at += length
        return self._data[self._at - length : self._at]


@dataclass(frozen=True, slots=True)
class Violation:
    """Two commits of one partition that can't both have come from its only owner."""

    rule: str
    earlier: OffsetCommit | None
    commit: OffsetCommit

    def __str__(self) -> str:
        here = self.commit
        now = f"{here.topic}-{here.partition}: {here.metadata!r} committed {here.offset} at {here.position}"
        if self.earlier is None:
            return f"{now}; {self.rule}"
        earlier = self.earlier
        return f"{now} after {earlier.metadata!r} committed {earlier.offset} at {earlier.position}; {self.rule}"


OFFSET_FELL = "offsets only grow"
EPOCH_FELL = "epochs only grow"
TWO_OWNERS = "an epoch of a partition has one owner"
NO_OWNER = "a commit's metadata is worker@leader.group"


def check(commits: Iterable[OffsetCommit]) -> list[Violation]:
    """Every breach of single ownership in the commits of a group, in the order of the log.

    Per partition offsets and epochs never fall, and one epoch belongs to one worker. The last two together say that
    owners' intervals don't overlap: who comes back after another must come with a newer epoch.
    """
    found: list[Violation] = []
    last: dict[Partition, tuple[OffsetCommit, Owner]] = {}
    for commit in commits:
        owner = Owner.parse(commit.metadata)
        if owner is None:
            found.append(Violation(NO_OWNER, None, commit))
            continue
        partition = (commit.topic, commit.partition)
        if partition in last:
            found += [Violation(rule, last[partition][0], commit) for rule in _broken(*last[partition], commit, owner)]
        last[partition] = (commit, owner)
    return found


def _broken(earlier: OffsetCommit, previous: Owner, commit: OffsetCommit, owner: Owner) -> list[str]:
    rules = {
        OFFSET_FELL: commit.offset < earlier.offset,
        EPOCH_FELL: owner.epoch < previous.epoch,
        TWO_OWNERS: owner.epoch == previous.epoch and owner.worker != previous.worker,
    }
    return [rule for rule, broken in rules.items() if broken]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who committed: a worker in an epoch, (leader, group)."""

    worker: str
    epoch: tuple[int, int]

    @classmethod
    def parse(cls, metadata: str) -> Owner | None:
        """Read `worker@leader.group`; None if it is anything else."""
        worker, at, epoch = metadata.rpartition("@")
        leader, dot, group = epoch.partition(".")
        if not (worker and at and dot and leader.isdecimal() and group.isdecimal()):
            return None
        return cls(worker, (int(leader), int(group)))


class CommitWitness:
    """Reads every commit of one group from `__consumer_offsets`, as it was: also those overwritten since.

    Read committed, so an offset sent in a transaction that was aborted is not there. All commits of a group are in one
    partition of the log, hence in one order. The log is compacted: what a long-lived broker has cleaned is gone.
    """

    def __init__(self, bootstrap_servers: str, group: str, config: Mapping[str, str] | None = None) -> None:
        settings = _client(bootstrap_servers, config)
        self._group = group
        self._admin = AdminClient(settings)
        self._consumer = Consumer(
            {
                "isolation.level": "read_committed",
                **settings,
                "group.id": f"{group}-witness",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "enable.partition.eof": True,
            }
        )
        self._partition: int | None = None
        self._read = 0
        self._commits: list[OffsetCommit] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the broker go; what was read stays."""
        self._consumer.close()

    def commits(self, timeout: float = 30.0) -> tuple[OffsetCommit, ...]:
        """Every commit of the group that was visible when this was called, oldest first.

        `commit_transaction` returns shortly before its marker is written, so the very last one may come with the next
        call; and an open transaction hides what was committed after it began, by any group in the same partition of
        the log, until it ends. Raises TimeoutError.
        """
        partition = self._assigned(timeout)
        if partition is not None:
            self._read_to(self._stable_end(partition), time.monotonic() + timeout)
        return tuple(self._commits)

    def check(self, timeout: float = 30.0) -> list[Violation]:
        """Every breach of single ownership so far; see `check`."""
        return check(self.commits(timeout))

    def _assigned(self, timeout: float) -> int | None:
        """The group's partition, found once; None while the broker has no such topic (before its first commit)."""
        if self._partition is None:
            topic = self._admin.list_topics(timeout=timeout).topics.get(OFFSETS_TOPIC)
            if topic is not None and topic.partitions:
                self._partition = group_partition(self._group, len(topic.partitions))
                self._consumer.assign([TopicPartition(OFFSETS_TOPIC, self._partition, 0)])
        return self._partition

    def _stable_end(self, partition: int) -> int:
        request = {TopicPartition(OFFSETS_TOPIC, partition): OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        future = self._admin.list_offsets(request, isolation_level=IsolationLevel.READ_COMMITTED)
        end: int = next(iter(future.values())).result(_REQUEST_TIMEOUT_S).offset
        return end

    def _read_to(self, end: int, deadline: float) -> None:
        while self._read < end:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{OFFSETS_TOPIC}: reading the commits of group {self._group} got to {self._read} of {end} in time"
                )
            for message in self._consumer.consume(5000, 0.05):
                self._keep(message)

    def _keep(self, message: Message) -> None:
        """Note a commit, or that the end was reached: only that event says so where markers or aborts come last."""
        error, position = message.error(), message.offset()
        if position is None:
            return
        if error is None:
            self._read = position + 1
            commit = parse_commit(message.key() or b"", message.value(), position)
            if commit is not None and commit.group == self._group:
                self._commits.append(commit)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._read = position


def group_partition(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group: Java's String.hashCode, as Kafka takes it."""
    code = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def commits_by_partition(commits: Iterable[OffsetCommit]) -> dict[Partition, list[OffsetCommit]]:
    """The commits of each partition, in the order of the log."""
    grouped: dict[Partition, list[OffsetCommit]] = defaultdict(list)
    for commit in commits:
        grouped[commit.topic, commit.partition].append(commit)
    return dict(grouped)
