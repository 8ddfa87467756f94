"""`sluice describe` of a person's module, from the directory where they stand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PIPELINE = """
import sluice

topology = sluice.Topology("orders")
orders = topology.stream("orders-in", key="customer string", value="amount double, country string")
orders.group_by("customer").aggregate("spent", total=sluice.sum_("amount")).to("spent-out")
"""


def describe(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice_cli", "describe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=60, check=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(PIPELINE)
    return tmp_path


def test_text_is_for_people_and_json_for_programs(directory: Path):
    text, as_json, name = (describe(directory, "orders:topology", "--output", kind) for kind in ("text", "json", "id"))

    assert [answer.stderr for answer in (text, as_json, name)] == ["", "", ""]
    assert "orders-in" in text.stdout
    assert "orders-spent-changelog" in json.dumps(json.loads(as_json.stdout))
    assert name.stdout == "orders\n"


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        ("nowhere:topology", "there is no module 'nowhere'"),
        ("orders:nothing", "module orders has no 'nothing'; it has orders:topology"),
        ("orders", "is not of the form module:attribute"),
    ],
)
def test_a_wrong_name_is_one_sentence(directory: Path, pipeline: str, sentence: str):
    answer = describe(directory, pipeline)

    assert answer.returncode == 2
    assert answer.stderr.startswith("sluice describe: ")
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_run_takes_the_name_from_the_topology_and_says_what_is_wrong_with_it(directory: Path):
    command = [sys.executable, "-m", "sluice_cli", "run", "orders:nothing", "--bootstrap", "127.0.0.1:1"]

    answer = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=60, check=False)

    assert answer.returncode == 2
    assert answer.stderr.startswith("sluice run: ")
    assert "module orders has no 'nothing'" in answer.stderr
    assert not (directory / ".sluice").exists()
