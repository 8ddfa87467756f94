"""The worker's launch contract: what a supervisor writes, `sluice worker` reads."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_cli.commands.worker import read_launch
from sluice_cli.errors import MistakeError
from sluice_cli.main import make_parser
from sluice_protocol.launch import KAFKA_CONFIG_DIRECTORY_VARIABLE, KAFKA_CONFIG_VARIABLE, WorkerLaunch

anything = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
keys = st.text(st.characters(exclude_characters="\0=@", codec="utf-8"), min_size=1, max_size=8)
something = anything.filter(bool)
pairs = st.dictionaries(keys, anything, max_size=3)
launches = st.builds(
    WorkerLaunch,
    pipeline=st.from_regex(r"[a-z_][a-z.]*:[a-z_]+", fullmatch=True),
    bootstrap_servers=anything,
    application_id=st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", fullmatch=True),
    worker=st.integers(0, 1_000).map("worker-{}".format),
    coordinator=anything,
    coordinator_ca=st.none() | anything,
    state_dir=anything,
    namespace=anything,
    incarnation=anything,
    threads=st.integers(1, 64),
    master=st.none() | anything,
    spark_conf=pairs,
    kafka_config=pairs,
    rack=st.none() | something,
    tags=st.dictionaries(keys, something, max_size=3),
    restorers=st.integers(1, 8),
    restore_bytes_per_second=st.none() | st.integers(1, 2**40),
    state_cleanup_delay_ms=st.integers(0, 2**40),
    metrics_port=st.none() | st.integers(0, 65_535),
)


def read(launch: WorkerLaunch) -> WorkerLaunch:
    return read_launch(make_parser().parse_args(launch.arguments()), launch.environment("secret"))


@given(launches)
def test_a_launch_survives_the_command_line(launch: WorkerLaunch):
    assert read(launch) == launch


def test_values_that_look_like_flags_stay_values():
    launch = WorkerLaunch("a:b", "-x", "-id", "worker-0", "--url", "--help", tags={"-t": "--u"})

    assert read(launch) == launch


def test_no_secret_is_on_the_command_line():
    launch = WorkerLaunch("a:b", "k:1", "id", "worker-0", "http://c", "/s", kafka_config={"sasl.password": "hush"})

    assert "hush" not in " ".join(launch.arguments())
    assert json.loads(launch.environment("s")[KAFKA_CONFIG_VARIABLE]) == {"sasl.password": "hush"}


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_broken_kafka_config_is_named_without_its_value(text: str):
    arguments = make_parser().parse_args(WorkerLaunch("a:b", "k:1", "id", "worker-0", "http://c", "/s").arguments())

    with pytest.raises(MistakeError, match=KAFKA_CONFIG_VARIABLE):
        read_launch(arguments, {KAFKA_CONFIG_VARIABLE: text})


def test_what_a_pod_has_no_label_for_is_not_known():
    launch = WorkerLaunch("a:b", "k:1", "id", "worker-0", "http://c", "/s", rack="", tags={"zone": "", "team": "x"})

    assert (read(launch).rack, read(launch).tags) == (None, {"team": "x"})


def test_settings_in_files_win_over_those_of_the_object(tmp_path: Path):
    (tmp_path / "sasl.password").write_text("hush")
    (tmp_path / "..data").mkdir()
    launch = WorkerLaunch(
        "a:b", "k:1", "id", "worker-0", "http://c", "/s", kafka_config={"sasl.password": "", "a": "b"}
    )
    environment = {**launch.environment("s"), KAFKA_CONFIG_DIRECTORY_VARIABLE: str(tmp_path)}

    arguments = make_parser().parse_args(launch.arguments())
    assert read_launch(arguments, environment).kafka_config == {"sasl.password": "hush", "a": "b"}


def test_a_directory_of_settings_that_is_not_there_is_named(tmp_path: Path):
    arguments = make_parser().parse_args(WorkerLaunch("a:b", "k:1", "id", "worker-0", "http://c", "/s").arguments())

    with pytest.raises(MistakeError, match=KAFKA_CONFIG_DIRECTORY_VARIABLE):
        read_launch(arguments, {KAFKA_CONFIG_DIRECTORY_VARIABLE: str(tmp_path / "nowhere")})


def test_a_wrong_worker_name_is_named():
    arguments = make_parser().parse_args(WorkerLaunch("a:b", "k:1", "id", "wrk", "http://c", "/s").arguments())

    with pytest.raises(MistakeError, match="'wrk' is not of the form worker-N"):
        read_launch(arguments, {})
