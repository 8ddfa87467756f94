"""Local mode with real processes, but stand-ins for what needs Kafka and Spark (see stand_in_*.py)."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from stand_in_run import stand_in_settings

from sluice_cli.errors import MistakeError
from sluice_cli.http_call import RefusedError
from sluice_cli.local import LocalApplication, LocalSettings
from sluice_cli.running.control_client import ControlClient
from sluice_cli.running.directory import RunDirectory, is_alive

HERE = Path(__file__).parent
GUESS = "guess"
SECONDS = 30.0


@pytest.fixture
def settings(tmp_path: Path) -> LocalSettings:
    return stand_in_settings(tmp_path / "run")


@pytest.fixture
def run(settings: LocalSettings) -> Iterator[Callable[..., LocalApplication]]:
    """Start an application with some settings changed; stopped at the end."""
    running: list[LocalApplication] = []

    def start(**changes: object) -> LocalApplication:
        application = LocalApplication(replace(settings, **changes))
        running.append(application)
        return application.start(SECONDS)

    yield start
    for application in running:
        with contextlib.suppress(MistakeError):
            application.stop()


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} didn't happen within {SECONDS:g} s"
        time.sleep(0.01)


def deaths(settings: LocalSettings) -> list[str]:
    path = settings.run_directory / "coordinator" / "gone"
    return path.read_text().splitlines() if path.exists() else []


def workers_of(application: LocalApplication) -> set[str]:
    return application.pids().keys() - {"coordinator"}


def test_all_that_is_desired_runs_and_all_of_it_ends_with_stop(run: Callable[..., LocalApplication]):
    application = run()

    view = application.wait_settled(SECONDS)
    pids = application.pids()
    application.stop()

    assert [worker.name for worker in view.workers] == ["worker-0", "worker-1"]
    assert pids.keys() == {"coordinator", "worker-0", "worker-1"}
    assert [pid for pid in pids.values() if is_alive(pid)] == []


def test_a_killed_worker_is_reported_at_once_and_replaced(
    run: Callable[..., LocalApplication], settings: LocalSettings
):
    application = run()
    incarnation = application.wait_settled(SECONDS).workers[1].incarnation

    killed = application.kill_worker(1)
    at = time.monotonic()
    eventually(lambda: deaths(settings) == [f"worker-1 {incarnation}"], "the notice of the death")
    told_after = time.monotonic() - at
    view = application.wait_settled(SECONDS)

    assert told_after < 1.0
    assert view.workers[1].pid not in (None, killed)
    assert (view.workers[1].restarts, view.workers[1].last_exit) == (1, "SIGKILL")
    assert view.workers[0].restarts == 0


def test_a_death_is_told_to_the_next_coordinator_when_there_is_none(
    run: Callable[..., LocalApplication], settings: LocalSettings
):
    application = run()
    incarnation = application.wait_settled(SECONDS).workers[0].incarnation

    application.kill_coordinator()
    application.kill_worker(0)

    eventually(lambda: deaths(settings) == [f"worker-0 {incarnation}"], "the notice of the death")


def test_the_coordinator_comes_back_at_its_address_and_the_workers_stay(run: Callable[..., LocalApplication]):
    application = run()
    application.wait_settled(SECONDS)
    before, url = application.pids(), application.coordinator().url

    application.kill_coordinator()
    group = application.wait(lambda group: len(group.members) == 2, SECONDS)
    after = application.pids()

    assert {member.worker for member in group.members} == {"worker-0", "worker-1"}
    assert application.coordinator().url == url
    assert after["coordinator"] != before["coordinator"]
    assert {name: after[name] for name in ("worker-0", "worker-1")} == {
        name: before[name] for name in ("worker-0", "worker-1")
    }


def test_a_crash_loop_is_shown_and_slowed_down_not_spun(run: Callable[..., LocalApplication]):
    started = time.monotonic()
    application = run(workers=1, environment={"STAND_IN_WORKER_SAYS": "1 out of luck"})

    eventually(lambda: application.local_view().workers[0].restarts >= 3, "the third restart")
    worker = application.local_view().workers[0]

    assert time.monotonic() - started >= 0.1 + 0.2, "pauses of 0, 100 and 200 ms"
    assert worker.last_exit == "exit code 1"
    eventually(lambda: application.local_view().workers[0].state == "waiting", "a pause")


@pytest.mark.parametrize("who", ["WORKER", "COORDINATOR"])
def test_a_mistake_of_the_person_isnt_restarted_but_said(run: Callable[..., LocalApplication], who: str):
    says = {f"STAND_IN_{who}_SAYS": "2 module orders has no attribute topology"}

    with pytest.raises(MistakeError, match="can't run: module orders has no attribute topology"):
        run(workers=1, environment=says).join(SECONDS)


def test_a_worker_that_the_coordinator_refuses_isnt_restarted_but_said(run: Callable[..., LocalApplication]):
    says = {"STAND_IN_WORKER_SAYS": "3 another topology runs under this id"}

    with pytest.raises(MistakeError, match="can't run: another topology runs under this id"):
        run(workers=1, environment=says).join(SECONDS)


def test_scaling_out_starts_workers_and_scaling_in_drains_the_highest_first(run: Callable[..., LocalApplication]):
    application = run(workers=1, environment={"STAND_IN_DRAIN_SECONDS": "0.5"})
    application.wait_settled(SECONDS)

    application.scale(3)
    application.wait_settled(SECONDS)
    assert workers_of(application) == {"worker-0", "worker-1", "worker-2"}
    at = time.monotonic()
    application.scale(2)
    application.wait(lambda group: [m.worker for m in group.members if m.draining] == ["worker-2"], SECONDS)
    application.wait_settled(SECONDS)

    assert workers_of(application) == {"worker-0", "worker-1"}
    assert time.monotonic() - at >= 0.5, "it left only when it was drained"


def test_a_scale_in_is_taken_back_in_the_middle(run: Callable[..., LocalApplication]):
    application = run(workers=3, environment={"STAND_IN_DRAIN_SECONDS": "60"})
    application.wait_settled(SECONDS)
    before = application.pids()

    application.scale(2)
    application.wait(lambda group: any(member.draining for member in group.members), SECONDS)
    application.scale(3)
    application.wait(lambda group: not any(member.draining for member in group.members), SECONDS)
    application.wait_settled(SECONDS)

    assert application.pids() == before


def test_a_drain_that_a_new_coordinator_doesnt_know_is_asked_for_again(run: Callable[..., LocalApplication]):
    application = run(environment={"STAND_IN_DRAIN_SECONDS": "1"})
    application.wait_settled(SECONDS)

    application.scale(1)
    application.wait(lambda group: any(member.draining for member in group.members), SECONDS)
    application.kill_coordinator()
    application.wait_settled(SECONDS)

    assert workers_of(application) == {"worker-0"}


def test_scaling_to_nothing_and_back(run: Callable[..., LocalApplication]):
    application = run(environment={"STAND_IN_DRAIN_SECONDS": "60"})
    application.wait_settled(SECONDS)

    application.scale(0)
    application.wait_settled(SECONDS)
    assert workers_of(application) == set()
    application.scale(1)
    application.wait_settled(SECONDS)

    assert workers_of(application) == {"worker-0"}


def test_a_deaf_worker_is_killed_after_the_timeout(run: Callable[..., LocalApplication]):
    application = run(workers=1, environment={"STAND_IN_WORKER_DEAF": "1"}, stop_timeout_ms=300)
    application.wait_settled(SECONDS)
    pids = application.pids()

    at = time.monotonic()
    application.stop()

    assert 0.3 <= time.monotonic() - at < 5
    assert [pid for pid in pids.values() if is_alive(pid)] == []


def test_the_desired_number_survives_the_supervisor_until_the_flag_changes(run: Callable[..., LocalApplication]):
    application = run(workers=1)
    application.scale(2)
    application.stop()

    again = run(workers=1)
    assert again.local_view().desired == 2
    again.stop()

    assert run(workers=3).local_view().desired == 3


def test_two_supervisors_dont_share_a_run_directory(run: Callable[..., LocalApplication], settings: LocalSettings):
    run()

    with pytest.raises(
        MistakeError, match=rf"orders already runs in {settings.run_directory} \(supervisor {os.getpid()}\)"
    ):
        run()


def test_the_control_api_wants_the_secret(run: Callable[..., LocalApplication], settings: LocalSettings):
    run()
    directory = RunDirectory(settings.run_directory)
    client = ControlClient.of(directory)

    assert (settings.run_directory / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(RefusedError, match="the secret is not the one of this run directory"):
        replace(client, secret=GUESS).scale(5)
    assert client.view().desired == 2


def test_a_killed_supervisor_takes_everything_along_and_its_directory_is_taken_over(
    run: Callable[..., LocalApplication], settings: LocalSettings
):
    directory = RunDirectory(settings.run_directory)
    supervisor = subprocess.Popen([sys.executable, str(HERE / "stand_in_run.py"), str(directory.path)])
    eventually((directory.path / "run.json").exists, "the start")
    view = ControlClient.of(directory).wait(lambda view: view.settled)
    pids = [view.coordinator.pid, *(worker.pid for worker in view.workers)]

    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    application = run()  # waits for the guard of the dead one
    alive = [pid for pid in pids if pid is not None and is_alive(pid)]

    assert len(pids) == 3
    assert alive == []
    assert application.wait_settled(SECONDS).desired == 2
