"""`sluice status`, `scale` and `resume` as processes beside a running application of stand-ins."""

import itertools
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_in_run import stand_in_settings

from sluice_cli.local import LocalApplication

SECONDS = 30.0


@pytest.fixture
def application(tmp_path: Path) -> Iterator[LocalApplication]:
    with LocalApplication(stand_in_settings(tmp_path / ".sluice" / "orders")) as application:
        application.wait_settled(SECONDS)
        yield application


def sluice(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=60, check=False)


@pytest.mark.parametrize("place", [[], ["--application-id", "orders"], ["--run-directory", ".sluice/orders"]])
def test_status_finds_the_application_and_shows_it(application: LocalApplication, tmp_path: Path, place: list[str]):
    answer = sluice(tmp_path, "status", *place)
    lines = answer.stdout.splitlines()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert lines[0] == "orders: stable at epoch 1.1, 2 of 2 workers run"
    assert lines[2].split() == ["WORKER", "STATE", "PID", "TASKS", "LOAD", "BUSY", "HEARD"]
    assert lines[3].split()[:3] == ["worker-0", "stable", str(application.pids()["worker-0"])]


def test_status_for_programs_is_json(application: LocalApplication, tmp_path: Path):
    shown = json.loads(sluice(tmp_path, "status", "--output", "json").stdout)

    assert shown["local"]["desired"] == 2
    assert {member["worker"] for member in shown["group"]["members"]} == {"worker-0", "worker-1"}


def test_scale_waits_until_nothing_is_left_to_do(application: LocalApplication, tmp_path: Path):
    answer = sluice(tmp_path, "scale", "3", "--wait")

    assert answer.stdout == "orders: 2 → 3 workers\norders: 3 workers, nothing left to move\n"
    assert application.pids().keys() == {"coordinator", "worker-0", "worker-1", "worker-2"}
    assert sluice(tmp_path, "scale", "3").stdout == "orders: 3 workers, as before\n"


def test_resume_says_what_it_is_about(application: LocalApplication, tmp_path: Path):
    assert sluice(tmp_path, "resume").stdout == "orders: no task has failed\n"


def test_what_ran_and_was_stopped_is_one_sentence(application: LocalApplication, tmp_path: Path):
    application.stop()

    answer = sluice(tmp_path, "status", "--application-id", "orders")

    assert answer.returncode == 1
    assert answer.stderr == "sluice status: nothing runs in .sluice/orders; start it with `sluice run`\n"


def test_a_run_file_of_a_dead_supervisor_is_no_running_application(application: LocalApplication, tmp_path: Path):
    run_file = tmp_path / ".sluice" / "orders" / "run.json"
    left_behind = run_file.read_bytes()
    application.stop()
    run_file.write_bytes(left_behind)

    answer = sluice(tmp_path, "scale", "1")

    assert answer.returncode == 1
    assert answer.stderr == "sluice scale: nothing runs in .sluice/orders any more; start it again with `sluice run`\n"


def test_colours_are_for_terminals_only(application: LocalApplication, tmp_path: Path):
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "sluice_cli", "status"]
    subprocess.run(command, stdout=terminal, cwd=tmp_path, timeout=60, check=True, env={**os.environ, "TERM": "xterm"})
    coloured = os.read(ours, 65_536).decode()

    assert "\x1b[32mstable" in coloured
    assert "\x1b" not in sluice(tmp_path, "status").stdout


def test_watch_draws_again_until_interrupted(application: LocalApplication, tmp_path: Path):
    command = [sys.executable, "-m", "sluice_cli", "status", "--watch", "--interval", "50ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as watch:
        assert watch.stdout is not None
        headlines = [line for line in itertools.islice(watch.stdout, 12) if line.startswith("orders: stable")]
        watch.send_signal(signal.SIGINT)

    assert len(headlines) >= 2
    assert watch.returncode == 130
