"""Where a task goes on: from the committed offsets and the logs, never from a guess."""

import pytest

from sluice_pipeline.worker.takeover import CannotGoOnError, Positions, choose_positions

T = ("orders", 3)


def chosen(
    committed: int | None, *, reset: str = "earliest", empty: bool = True, log: tuple[int, int] = (10, 50)
) -> Positions:
    return choose_positions({T: committed}, {T: log[0]}, {T: log[1]}, empty, reset)


def test_the_committed_offset_decides() -> None:
    assert chosen(20, empty=False) == Positions({T: 20}, commit_first=False)


@pytest.mark.parametrize(("reset", "start"), [("earliest", 10), ("latest", 50)])
def test_without_offset_and_state_the_policy_decides_and_is_committed_first(reset: str, start: int) -> None:
    assert chosen(None, reset=reset) == Positions({T: start}, commit_first=True)


def test_state_without_a_committed_offset_is_never_a_start_from_earliest() -> None:
    with pytest.raises(CannotGoOnError, match=r"orders-3.*has state.*sluice resume") as raised:
        chosen(None, empty=False)

    assert raised.value.reason == "CommittedOffsetLost"


@pytest.mark.parametrize(
    ("committed", "reset", "reason"),
    [
        (None, "error", "NoCommittedOffset"),
        (5, "error", "OffsetOutOfRange"),
        (60, "error", "OffsetOutOfRange"),
        (60, "earliest", "OffsetOutOfRange"),
    ],
)
def test_what_policy_cannot_mend_is_named(committed: int | None, reset: str, reason: str) -> None:
    with pytest.raises(CannotGoOnError, match="orders-3") as raised:
        chosen(committed, reset=reset)

    assert (raised.value.reason, raised.value.offset) == (reason, committed)


def test_an_offset_below_the_log_start_follows_the_policy() -> None:
    assert chosen(5, reset="earliest", empty=False) == Positions({T: 10}, commit_first=True)
    assert chosen(5, reset="latest", empty=False) == Positions({T: 50}, commit_first=True)


def test_an_empty_log_is_no_special_case() -> None:
    assert chosen(0, log=(0, 0)) == Positions({T: 0}, commit_first=False)
