"""What the flags of `sluice run` make of its workers."""

from pathlib import Path

import pytest

from sluice_cli.commands.run import read_settings
from sluice_cli.errors import MistakeError
from sluice_cli.local import LocalSettings
from sluice_cli.main import make_parser
from sluice_protocol.launch import WorkerLaunch


def read(*flags: str) -> LocalSettings:
    command = ["run", "a:b", "--bootstrap", "k:1", "--application-id", "orders", *flags]
    return read_settings(make_parser().parse_args(command))


def launches(*flags: str) -> list[WorkerLaunch]:
    settings = read(*flags)
    return [settings.worker(f"worker-{slot}", "x-1", "http://c:1") for slot in range(4)]


def test_racks_are_given_out_in_turn():
    assert [launch.rack for launch in launches("--racks", "a, b,c")] == ["a", "b", "c", "a"]


def test_the_values_of_each_tag_are_given_out_in_turn():
    made = launches("--tag", "zone=a,b", "--tag", "cluster=x")

    assert [launch.tags for launch in made] == [{"zone": zone, "cluster": "x"} for zone in "abab"]


def test_workers_have_neither_unless_told():
    assert {(launch.rack, *launch.tags) for launch in launches()} == {(None,)}


def test_a_tag_without_values_is_refused():
    with pytest.raises(MistakeError, match="--tag zone= has no value; give at least one, as in zone=a,b"):
        read("--tag", "zone=")


def test_what_only_one_strategy_reads_reaches_the_coordinator(tmp_path: Path):
    arguments = read("--optimal-subtopology-spread", "7").coordinator_arguments(0)

    assert "--optimal-subtopology-spread=7" in arguments
