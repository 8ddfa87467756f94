"""State directories: whose they are, who has them open, and when a copy may be trusted."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sluice_pipeline.state.directory import (
    StateDirectory,
    StateDirectoryError,
    StoreIdentity,
    TaskDirectory,
    TaskIdentity,
)
from sluice_pipeline.state.store import Store
from sluice_protocol.ids import TaskId

TASK = TaskId(0, 1)
DAY = 86_400.0
IDENTITY = TaskIdentity("orders", TASK, (StoreIdentity("totals", "orders-totals-changelog", "topic-id", 4),))


def a_copy(path: Path, identity: TaskIdentity = IDENTITY) -> TaskDirectory:
    return TaskDirectory(path / "0_1", identity, DAY)


def filled(path: Path) -> None:
    copy = a_copy(path)
    copy.stores["totals"].write([(b"k", b"v")], 7)
    copy.close()


def test_a_store_keeps_its_values_and_its_boundary(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.write([(b"a", b"1"), (b"b", b"2")], 10)
    store.write([(b"a", None)], 12)
    store.close()

    again = Store(tmp_path / "s")

    assert again.boundary == 12
    assert again.get([b"a", b"b", b"boundary"]) == [None, b"2", None]
    assert list(again.items()) == [(b"b", b"2")]


def test_a_store_opened_again_has_its_bloom_filter_and_cache(tmp_path: Path) -> None:
    Store(tmp_path / "s").close()
    Store(tmp_path / "s").close()

    log = (tmp_path / "s" / "LOG").read_text()

    assert "filter_policy: bloomfilter" in log
    assert "capacity : 67108864" in log


def test_a_restart_finds_its_copy(tmp_path: Path) -> None:
    filled(tmp_path)

    again = a_copy(tmp_path)

    assert not again.wiped_because
    assert again.boundaries() == {"totals": 7}


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, application_id="payments"),
        replace(IDENTITY, encoding=99),
        replace(IDENTITY, stores=(replace(IDENTITY.stores[0], topic_id="created-again"),)),
        replace(IDENTITY, stores=(replace(IDENTITY.stores[0], partitions=8),)),
        replace(IDENTITY, stores=(*IDENTITY.stores, replace(IDENTITY.stores[0], name="second"))),
    ],
)
def test_a_copy_of_something_else_is_restored_from_scratch(tmp_path: Path, other: TaskIdentity) -> None:
    filled(tmp_path)

    copy = a_copy(tmp_path, other)

    assert copy.wiped_because
    assert set(copy.boundaries().values()) == {0}


def test_a_copy_that_may_miss_deletions_is_restored_from_scratch(tmp_path: Path) -> None:
    filled(tmp_path)
    long_ago = time.time() - 2 * DAY
    os.utime(tmp_path / "0_1" / "task.json", (long_ago, long_ago))

    assert "deletions" in a_copy(tmp_path).wiped_because


def test_a_task_directory_is_open_in_one_place(tmp_path: Path) -> None:
    held = a_copy(tmp_path)

    with pytest.raises(StateDirectoryError, match="open in another process"):
        a_copy(tmp_path)

    held.close()
    a_copy(tmp_path).close()


def test_a_state_directory_belongs_to_one_process_and_keeps_its_id(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path, "orders")

    with pytest.raises(StateDirectoryError, match="in use by another worker process"):
        StateDirectory(tmp_path, "orders")

    first.close()
    assert StateDirectory(tmp_path, "orders").process_id == first.process_id


def test_a_state_directory_of_another_application_is_refused_by_name(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "orders").close()

    with pytest.raises(StateDirectoryError, match=r"belongs to application 'orders'.*'payments'"):
        StateDirectory(tmp_path, "payments")


def test_every_copy_on_the_disk_is_found_with_its_boundaries(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "orders")
    filled(tmp_path)
    (tmp_path / "not-a-task").mkdir()

    assert state.tasks() == [TASK]
    found = state.inspect(TASK)
    assert found is not None
    assert found.boundaries == {"totals": 7}
    assert found.size_bytes > 0


def test_a_directory_that_is_open_is_not_removed(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "orders")
    held = a_copy(tmp_path)

    with pytest.raises(StateDirectoryError, match="open in another process"):
        state.remove(TASK)

    held.close()
    state.remove(TASK)
    assert state.tasks() == []
