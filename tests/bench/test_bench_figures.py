"""Rates, percentiles, tables and rows: what the benches make of their samples."""

import json
from pathlib import Path

import pytest
from bench.figures import NothingMeasuredError, percentile, rate_after_warm_up, totals
from bench.harness import Row, comparison, interleaved, medians, publish, table
from bench.pipeline import parse
from bench.records import WrongResultError, check_result, users, value_of

from sluice_devkit.offsets import Advance


def test_advances_of_partitions_are_summed_in_the_order_of_time() -> None:
    advances = {("in", 0): [Advance(1.0, 10), Advance(3.0, 20)], ("in", 1): [Advance(2.0, 5)]}

    assert totals(advances) == [Advance(1.0, 10), Advance(2.0, 15), Advance(3.0, 25)]


def test_the_rate_counts_from_the_first_sample_past_the_warm_up_to_the_first_complete_one() -> None:
    done = [Advance(0.0, 10), Advance(10.0, 30), Advance(12.0, 70), Advance(14.0, 100), Advance(20.0, 100)]

    assert rate_after_warm_up(done, 100) == pytest.approx(70 / 4)


@pytest.mark.parametrize("done", [[], [Advance(1.0, 99)], [Advance(1.0, 10), Advance(2.0, 100)]])
def test_a_topic_drained_in_one_step_or_not_at_all_has_no_rate(done: list[Advance]) -> None:
    with pytest.raises(NothingMeasuredError):
        rate_after_warm_up(done, 100)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2.0), (0.99, 4.0), (0.25, 1.0), (0.0, 1.0), (1.0, 4.0)])
def test_a_percentile_is_a_value_that_was_seen(share: float, expected: float) -> None:
    assert percentile([3.0, 1.0, 4.0, 2.0], share) == expected


def test_engines_take_turns_and_each_round_begins_with_another() -> None:
    ran: list[str] = []

    figures = interleaved(3, ["a", "b"], lambda engine, turn: ran.append(f"{engine}{turn}") or float(turn))

    assert ran == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert figures == {"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0, 2.0]}
    assert medians(figures) == {"a": 1.0, "b": 1.0}


def test_columns_align_and_numbers_stand_to_the_right() -> None:
    text = table(["", "records/s"], [("ours", 1_234_567.0), ("theirs", None), ("few", 0.123456)])

    assert text.splitlines() == ["        records/s", "ours    1,234,567", "theirs          -", "few         0.123"]


def test_rows_are_published_as_json_with_their_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row("drain vs x", 150.0, 100.0, "records/s"), Row("pause", 3.0, None, "ms")]

    publish(rows, tmp_path / "rows.json")

    assert json.loads((tmp_path / "rows.json").read_text()) == [
        {"name": "drain vs x", "ours": 150.0, "peer": 100.0, "unit": "records/s", "ratio": 1.5},
        {"name": "pause", "ours": 3.0, "peer": None, "unit": "ms", "ratio": None},
    ]
    assert comparison(rows) in capsys.readouterr().out


def test_benches_share_a_file_and_each_replaces_its_own_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    for ours in (1.0, 2.0):
        publish([Row("drain", ours, None, "records/s")], file)
        publish([Row("restore", ours, None, "records/s")], file)

    assert [(row["name"], row["ours"]) for row in json.loads(file.read_text())] == [("drain", 2.0), ("restore", 2.0)]


def test_records_follow_from_the_seed_and_hold_every_key() -> None:
    first = list(users(1000, 100))

    assert first == list(users(1000, 100))
    assert len(set(first)) == 100
    assert len(set(users(10, 100))) == 10


def test_values_are_json_of_about_137_bytes() -> None:
    value = value_of("user-0000007", 123_456)

    assert json.loads(value)["price"] == 456
    assert 130 <= len(value) <= 145


def test_a_wrong_result_names_the_first_difference() -> None:
    truth = {"a": (1, 5), "b": (2, 7)}
    check_result("x", dict(truth), truth)

    with pytest.raises(
        WrongResultError, match=r"x: b has .* \(3, 7\), it should be \(2, 7\); 4 records counted, 3 loaded"
    ):
        check_result("x", {"a": (1, 5), "b": (3, 7)}, truth)


def test_an_unknown_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--engines", "sluice,flink"])

    assert "'flink' is none of" in capsys.readouterr().err
