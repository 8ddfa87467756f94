"""What the assignor's bench makes of its measurements, and that it measures two equal decisions."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.assignor import BEGIN, END, Comparison, Solo, parse, report, rows, with_figures
from bench.peers.kafka_assignor import case_of
from bench.rebalances import ALONE, FULL, QUICK, RACKS, Moment, Rebalance
from bench.rebalances import END as END_OFFSET

from sluice_assignor import RackAwareStrategy
from sluice_assignor.model import RUNNING

ROOT = Path(__file__).parents[2]
COMPARISON = Comparison("100 x 10, scale-out", 0.5, 50.0, needed=20)
SOLO = Solo("Optimal alone, 100 x 10, scale-out", 0.25, 120.4, allowed_seconds=0.5)

ONE_COMPARISON = """
from bench.assignor import KafkaAssignor, Moment, RackAwareStrategy, Rebalance, compare
rebalance = Rebalance(40, 8, Moment.SCALE_OUT, 1, RackAwareStrategy.MIN_TRAFFIC)
compared = compare(rebalance, KafkaAssignor(), rounds=1)
print(compared.name, compared.ours > 0, compared.kafkas > 0)
"""


def test_both_are_timed_on_a_group_on_which_they_agree() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_COMPARISON], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )

    assert done.stdout.splitlines() == ["40 x 8, scale-out, 1 standby, min_traffic True True"], done.stderr


def test_a_scale_out_has_one_new_worker_in_five_and_the_rest_caught_up() -> None:
    group = Rebalance(50, 10, Moment.SCALE_OUT, standbys=1).group()

    held = {id_: worker.active for id_, worker in group.workers.items() if worker.active}
    assert len(held) == 8
    assert sum(map(len, held.values())) == 50
    for worker in group.workers.values():
        assert worker.copies.keys() == worker.active | worker.standby
        assert {worker.copies[task].offset_sum for task in worker.active} <= {RUNNING}
        assert {worker.copies[task].offset_sum for task in worker.standby} <= {END_OFFSET}


def test_the_same_numbers_make_the_same_group() -> None:
    rebalance = Rebalance(50, 10, Moment.STEADY, threads=2)

    assert rebalance.group() == rebalance.group()


def test_kafka_is_asked_about_the_same_group() -> None:
    rebalance = Rebalance(20, 3, Moment.STEADY, 1, RackAwareStrategy.BALANCE_SUBTOPOLOGY)
    group = rebalance.group()

    case = case_of(group, rebalance.config())

    assert [client["rack"] for client in case["clients"]] == [worker.rack for worker in group.workers.values()]
    assert {rack for client in case["clients"] for rack in [client["rack"]]} == set(RACKS)
    assert (len(case["tasks"]), case["config"]["strategy"]) == (20, "balance_subtopology")
    assert sum(len(client["offsets"]) for client in case["clients"]) == 40


def test_names_tell_all_rows_apart() -> None:
    names = [str(rebalance) for rebalance in (*FULL, *(alone for alone, _ in ALONE))]

    assert len(set(names)) == len(names)
    assert set(QUICK) < set(FULL)


def test_rows_carry_their_units() -> None:
    assert [(row.name, row.ours, row.peer, row.ratio, row.unit) for row in rows([COMPARISON], [SOLO])] == [
        ("100 x 10, scale-out", 0.5, 50.0, 0.01, "ms"),
        ("Optimal alone, 100 x 10, scale-out", 0.25, None, None, "s"),
        ("Optimal alone, 100 x 10, scale-out, memory", 120, None, None, "MB"),
    ]


def test_the_report_says_what_holds() -> None:
    slow = Comparison("6,000 x 2", 20.0, 19.0, needed=1)

    lines = report([COMPARISON, slow], [SOLO]).splitlines()

    assert lines[1].split()[-5:] == ["0.5", "50", "100", "20", "holds"]
    assert lines[2].split()[-5:] == ["20", "19", "0.95", "1", "MISSED"]
    assert lines[-1].split()[-4:] == ["0.25", "0.5", "120", "holds"]


def test_figures_replace_those_that_a_document_had() -> None:
    document = f"# Title\n{BEGIN}old\n{END}the rest\n"

    assert with_figures(document, "new") == f"# Title\n{BEGIN}```text\nnew\n```\n{END}the rest\n"


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the document has no lines"):
        with_figures("# Title\n", "new")


def test_the_quick_set_is_the_default() -> None:
    assert (parse([]).full, parse(["--quick"]).full, parse(["--full"]).full) == (False, False, True)
