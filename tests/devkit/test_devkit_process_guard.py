"""What a guard started never outlives the guard's parent, whatever it does to hide."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sluice_devkit.process_guard import ProcessGuard

PARENT = """
import signal, sys, time
from sluice_devkit.process_guard import ProcessGuard
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell's `&` has it ignored
guard = ProcessGuard()
child = guard.start([sys.executable, "-c", sys.argv[1]], output=sys.stdout.buffer)
print("started", child.pid, flush=True)
time.sleep(600)
"""

STAYS = "import os, time; print('here', os.getpid(), flush=True); time.sleep(600)"
HIDES = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("here", grandchild.pid, flush=True)
"""


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 10
    while is_alive(process):
        assert time.monotonic() < deadline, f"{process} still runs"
        time.sleep(0.02)


def pid_said_by(parent: subprocess.Popen[str], word: str) -> int:
    assert parent.stdout is not None
    line = next(line for line in parent.stdout if line.startswith(word))
    return int(line.split()[1])


@pytest.mark.parametrize("child", [STAYS, HIDES], ids=["child", "grandchild in its own session"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_parent(child: str, how: signal.Signals):
    with subprocess.Popen([sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE, text=True) as parent:
        process = pid_said_by(parent, "here")
        assert is_alive(process)

        parent.send_signal(how)

        wait_until_gone(process)


def test_a_parent_that_dies_right_after_the_start_leaves_nothing():
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", PARENT, STAYS], stdout=subprocess.PIPE, text=True) as parent:
            process = pid_said_by(parent, "started")
            parent.kill()
            wait_until_gone(process)


def test_close_ends_what_is_left_and_nothing_else():
    with ProcessGuard() as kept, ProcessGuard() as closed:
        survivor = kept.start([sys.executable, "-c", "import time; time.sleep(600)"])
        victim = closed.start([sys.executable, "-c", "import time; time.sleep(600)"])

        closed.close()

        assert victim.wait(5) == -signal.SIGKILL
        assert survivor.poll() is None
    assert survivor.wait(5) == -signal.SIGKILL


def test_a_stopped_process_is_ended_too():
    with ProcessGuard() as guard:
        process = guard.start([sys.executable, "-c", "import time; time.sleep(600)"])
        process.send_signal(signal.SIGSTOP)
    assert process.wait(5) == -signal.SIGKILL


def test_the_status_of_a_child_is_its_own():
    with ProcessGuard() as guard:
        assert guard.start([sys.executable, "-c", "raise SystemExit(7)"]).wait(10) == 7


def test_what_is_to_be_removed_is_removed(tmp_path: Path):
    removed, kept = tmp_path / "removed", tmp_path / "kept"
    for directory in (removed, kept):
        directory.mkdir()
        (directory / "data").write_text("x")

    with ProcessGuard(remove=[removed]):
        assert removed.exists()

    assert not removed.exists()
    assert kept.exists()
