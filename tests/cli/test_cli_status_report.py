"""What `sluice status` prints, word by word."""

import textwrap
from dataclasses import replace

import pytest

from sluice_cli.running.view import LocalView, ProcessView
from sluice_cli.status.numbers import show_bytes, show_count, show_percent, show_seconds
from sluice_cli.status.report import report
from sluice_cli.status.text import plain
from sluice_protocol.heartbeat import FailedTask, Load, Role, Status, StatusCode
from sluice_protocol.ids import Epoch, TaskId
from sluice_protocol.view import GroupView, MemberView, PlannedMoveView, TaskView

NOW_MS = 1_700_000_000_000
EPOCH = Epoch(2, 17)


def a_process(name: str, pid: int | None, state: str = "running") -> ProcessView:
    return ProcessView(name, state, restarts=0, log=f"/run/logs/{name}.log", pid=pid)


def a_member(worker: str, state: str = "stable", heard_ms: int = 1_000) -> MemberView:
    return MemberView(
        worker, f"member of {worker}", f"process of {worker}", "x-1", EPOCH, 2, state, state.startswith("drain"),
        NOW_MS - heard_ms, Load(12_345, 402), restored_bytes=3_400_000,
    )  # fmt: skip


def a_task(task: str, role: Role, worker: str, state: str = "running", **numbers: int) -> TaskView:
    return TaskView(TaskId.parse(task), role, worker, state, True, EPOCH, **numbers)


LOCAL = LocalView(
    "orders", 77, 5, 2, False,
    a_process("coordinator", 78), (a_process("worker-0", 1234), a_process("worker-1", 56)), "http://127.0.0.1:1",
)  # fmt: skip
GROUP = GroupView(
    "orders", EPOCH, "reconciling", "abcd", None,
    (a_member("worker-0"), a_member("worker-1", "reconciling", 200)),
    (
        a_task("0_7", Role.WARMUP, "worker-1", "restoring", offset_sum=1_200_000, end_offset_sum=3_400_000,
               lag=2_200_000, rate=55_000, eta_seconds=40),
        a_task("0_7", Role.ACTIVE, "worker-0"),
        a_task("0_10", Role.ACTIVE, "worker-0", lag=0),
    ),
    pending_moves=1,
)  # fmt: skip


def shown(local: LocalView, group: GroupView | None, *, wide: bool = False) -> str:
    return plain(report(local, group, NOW_MS, wide=wide)) + "\n"


def test_a_group_on_its_way():
    assert shown(LOCAL, GROUP) == textwrap.dedent("""\
        orders: reconciling at epoch 2.17, 2 of 2 workers run, 1 move to go

        WORKER    STATE         PID  TASKS      LOAD  BUSY    HEARD
        worker-0  stable       1234      2  12.3 k/s  40 %  1 s ago
        worker-1  reconciling    56      0  12.3 k/s  40 %  0 s ago

        TASK  ROLE    WORKER    STATE        LAG   ETA
        0_7   active  worker-0  running        -     -
        0_7   warmup  worker-1  restoring  2.2 M  40 s
        0_10  active  worker-0  running        0     -

        0_7 warming on worker-1: 1.2 M of 3.4 M records, 40 s left
        """)


def test_planned_moves_come_with_their_reasons():
    why = "0_8 is number 1 in line to warm up on worker-1, 3,400 offsets left; until then worker-0 has it"
    group = replace(GROUP, planned=(PlannedMoveView(TaskId(0, 8), "worker-1", why),))

    assert shown(LOCAL, group).endswith(f"40 s left\nplanned: {why}\n")


def test_wide_shows_offsets_epochs_and_restores():
    text = shown(LOCAL, GROUP, wide=True)

    assert (
        "worker-0  stable       1234      2  12.3 k/s  40 %  1 s ago  2.17          0    3.4 MB  process of worker-0"
    ) in text
    assert "0_7   warmup  worker-1  restoring  2.2 M  40 s   1200000  3400000  55.0 k/s  2.17" in text


def test_a_coordinator_that_is_away_leaves_the_processes():
    local = replace(LOCAL, coordinator_url=None)

    assert shown(local, None) == textwrap.dedent("""\
        orders: coordinator not reachable, 2 of 2 workers run

        WORKER    STATE     PID  TASKS  LOAD  BUSY  HEARD
        worker-0  running  1234      -     -     -      -
        worker-1  running    56      -     -     -      -
        """)


def test_what_is_wrong_is_said_in_sentences():
    member = replace(
        a_member("worker-0"),
        failed=(FailedTask(TaskId(1, 3), "TRANSFORMATION", "division by zero", "orders-in", 3, 4711),),
    )
    waiting = replace(a_task("0_1", Role.ACTIVE, "", "waiting"), stateful=False)
    group = replace(
        GROUP,
        members=(member,),
        tasks=(waiting,),
        statuses=(Status(StatusCode.MISSING_SOURCE_TOPICS, "topic orders-in doesn't exist; create it"),),
    )
    crashed = replace(a_process("worker-1", None, "waiting"), restarts=3, last_exit="exit code 1", restart_in_ms=3_200)

    assert shown(replace(LOCAL, workers=(LOCAL.workers[0], crashed)), group).splitlines()[-4:] == [
        "worker-1 died (exit code 1, restarted 3 times before) and is started again in 4 s; "
        "its log: /run/logs/worker-1.log",
        "MISSING_SOURCE_TOPICS: topic orders-in doesn't exist; create it",
        "1_3 failed on worker-0 at orders-in-3@4711 (TRANSFORMATION): division by zero; `sluice resume` tries again",
        "1 task waits for a worker",
    ]


def test_a_scale_in_says_who_leaves():
    local = replace(LOCAL, desired=1)
    group = replace(GROUP, members=(GROUP.members[0], a_member("worker-1", "draining")), tasks=())

    text = shown(local, group)

    assert text.startswith("orders: reconciling at epoch 2.17, 2 workers run, 1 of them leaving, 1 move to go\n")
    assert "worker-1  draining" in text


def test_a_warm_up_that_is_hot_or_on_its_way_out_isnt_said_to_be_warming():
    hot = a_task("0_1", Role.WARMUP, "worker-1", "running", offset_sum=5, end_offset_sum=5, lag=0, eta_seconds=0)
    going = a_task("0_2", Role.WARMUP, "worker-1", "releasing", offset_sum=5, end_offset_sum=5, lag=0, eta_seconds=0)

    text = shown(LOCAL, replace(GROUP, tasks=(hot, going)))

    assert text.splitlines()[-1] == "0_1 is warm on worker-1 and waits to take over"
    assert "warming" not in text


@pytest.mark.parametrize(
    ("shown_value", "text"),
    [
        (show_count(0), "0"),
        (show_count(999), "999"),
        (show_count(1_000), "1.0 k"),
        (show_count(999_949), "999.9 k"),
        (show_count(999_999), "1.0 M"),
        (show_count(3_400_000_000), "3.4 G"),
        (show_seconds(0), "0 s"),
        (show_seconds(119), "119 s"),
        (show_seconds(120), "2 min"),
        (show_seconds(10_000), "2 h"),
        (show_seconds(200_000), "2 d"),
        (show_bytes(512), "512 B"),
        (show_bytes(3_400_000), "3.4 MB"),
        (show_percent(402), "40 %"),
    ],
)
def test_numbers_have_units(shown_value: str, text: str):
    assert shown_value == text
