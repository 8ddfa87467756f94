"""What the assignor is told of the members."""

from __future__ import annotations

from uuid import UUID

import pytest
from coordinator_simulation import COUNTS, END

from sluice_coordinator.group.members import Member
from sluice_coordinator.group.placing import TaskPlan, group_state
from sluice_protocol.heartbeat import RUNNING, HeartbeatRequest, TaskCopy
from sluice_protocol.ids import JOIN, TaskId

STATELESS, STATEFUL = TaskId(0, 0), TaskId(1, 0)
PLAN = TaskPlan(COUNTS, (1, 1))


def a_member(slot: int, *copies: TaskCopy) -> Member:
    request = HeartbeatRequest(
        f"member {slot}", f"worker-{slot}", str(UUID(int=slot)), "x-1", JOIN, 1, COUNTS.hash(), 2, copies=copies
    )
    return Member(request, heard_ms=0, epoch=JOIN)


def state_bytes(*members: Member, ends: dict[TaskId, int] | None) -> int | None:
    return group_state(members, (), PLAN, ends, {}, ()).tasks[STATEFUL].state_bytes


@pytest.mark.parametrize("offset_sum", [RUNNING, END])
def test_a_whole_copy_says_how_big_the_state_of_its_task_is(offset_sum: int):
    whole = a_member(0, TaskCopy(STATEFUL, offset_sum, END, size_bytes=5_000))

    assert state_bytes(whole, ends={STATEFUL: END}) == 5_000


def test_the_largest_of_the_whole_copies_counts():
    running = a_member(0, TaskCopy(STATEFUL, RUNNING, END, size_bytes=5_000))
    standby = a_member(1, TaskCopy(STATEFUL, END, END, size_bytes=6_000))

    assert state_bytes(running, standby, ends={STATEFUL: END}) == 6_000


def test_a_part_of_a_copy_says_nothing_of_the_whole():
    part = a_member(0, TaskCopy(STATEFUL, END - 1, END, size_bytes=5_000))

    assert state_bytes(part, ends={STATEFUL: END}) is None
    assert state_bytes(part, ends=None) is None


def test_a_task_without_state_has_no_size():
    leftover = a_member(0, TaskCopy(STATELESS, RUNNING, size_bytes=5_000))

    assert group_state([leftover], (), PLAN, {}, {}, ()).tasks[STATELESS].state_bytes is None
