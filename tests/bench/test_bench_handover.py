"""Which gap belongs to which kind of task, and what becomes of the gaps."""

import pytest
from bench.groups import are_balanced
from bench.handover import COLD, WARM, Gaps, gap_rows, gaps_table, sort_gaps, summed_up
from bench.restore import parse as parse_restore

from sluice_devkit.offsets import StandStill

STILL = {0: StandStill(0, 0.1), 1: StandStill(0, 0.2), 2: StandStill(5, 5.4)}


def test_tasks_that_changed_their_worker_are_told_from_those_that_stayed() -> None:
    moved, stayed = sort_gaps(STILL, {0: "a", 1: "a", 2: "a"}, {0: "a", 1: "b", 2: "a"}, gone=None)

    assert moved == pytest.approx((200,))
    assert stayed == pytest.approx((100, 400))


def test_a_task_whose_worker_is_gone_has_moved_even_to_a_successor_of_its_name() -> None:
    moved, stayed = sort_gaps(STILL, {0: "a", 1: "b", 2: "b"}, {0: "a", 1: "b", 2: "a"}, gone="b")

    assert moved == pytest.approx((200, 400))
    assert stayed == pytest.approx((100,))


@pytest.mark.parametrize(
    ("owners", "workers", "balanced"),
    [
        ({0: "a", 1: "a", 2: "b"}, 2, True),
        ({0: "a", 1: "a", 2: "a"}, 1, True),
        ({0: "a", 1: "a", 2: "a"}, 2, False),
        ({0: "a", 1: "b"}, 2, False),
        ({}, 0, False),
    ],
)
def test_a_group_is_balanced_when_every_task_runs_and_no_worker_has_two_more(
    owners: dict[int, str], workers: int, balanced: bool
) -> None:
    assert are_balanced(owners, workers, 3) is balanced


def test_runs_of_a_scenario_are_summed_up_with_the_slowest_end() -> None:
    runs = [Gaps(WARM, (1.0,), (2.0,), 10, 5.0), Gaps(COLD, (9.0,), (), 10, 1.0), Gaps(WARM, (3.0,), (), 20, 4.0)]

    assert summed_up(runs) == [Gaps(WARM, (1.0, 3.0), (2.0,), 20, 5.0), Gaps(COLD, (9.0,), (), 10, 1.0)]


def test_a_figure_of_the_peer_stands_only_where_it_was_measured() -> None:
    mine = [Gaps(WARM, (100.0, 300.0), (50.0,), 10, 5.0), Gaps(COLD, (900.0,), (), 10, 1.0)]

    rows = gap_rows(mine, [Gaps(WARM, (800.0, 3200.0), (3200.0,), 10, 120.0)])

    assert [(row.name, row.ours, row.peer, row.unit) for row in rows] == [
        ("warm scale-out, moved p50", 100, 800, "ms"),
        ("warm scale-out, moved max", 300, 3200, "ms"),
        ("warm scale-out, stayed p50", 50, 3200, "ms"),
        ("warm scale-out, stayed max", 50, 3200, "ms"),
        ("cold scale-out, moved p50", 900, None, "ms"),
        ("cold scale-out, moved max", 900, None, "ms"),
    ]


def test_the_table_counts_the_tasks_of_each_kind() -> None:
    text = gaps_table("Sluice", [Gaps(WARM, (100.0, 300.0), (), 125_000, 12.34)])

    assert text.splitlines()[1].split() == ["warm", "scale-out", "2", "100", "300", "0", "-", "-", "125,000", "12.3"]


def test_the_restore_bench_takes_its_size_from_the_command_line() -> None:
    options = parse_restore(["--records", "1000", "--rounds", "1"])

    assert (options.records, options.rounds, options.json) == (1000, 1, None)
