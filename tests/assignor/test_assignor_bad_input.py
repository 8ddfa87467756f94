"""What a caller can get wrong about a group: an error that names field and value, or a rule that is written down."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from assignor_groups import END, Group, a_group

from sluice_assignor import Copy, GroupState, InvalidGroupError, Task, Worker
from sluice_assignor.model import MAX_LAG
from sluice_assignor.strategies import STRATEGIES
from sluice_protocol.ids import TaskId

A, B = UUID(int=1), UUID(int=2)
TASK = TaskId(0, 1)


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_worker_without_threads_is_refused(capacity):
    with pytest.raises(InvalidGroupError, match=f"worker {A} has {capacity} threads; it must have at least 1"):
        Worker(A, capacity)


@pytest.mark.parametrize("end", [-1, MAX_LAG + 1])
def test_an_end_that_no_changelog_can_have_is_refused(end):
    with pytest.raises(InvalidGroupError, match=f"task 0_1 has the endOffsetSum {end}; it must be from 0"):
        Task(TASK, stateful=True, end_offset_sum=end)


def test_a_state_of_less_than_nothing_is_refused():
    with pytest.raises(InvalidGroupError, match="task 0_1 has the stateBytes -1; it must be at least 0, or left out"):
        Task(TASK, stateful=True, state_bytes=-1)


@pytest.mark.parametrize("offset_sum", [-1, -4, MAX_LAG + 1])
def test_an_offset_that_no_copy_can_have_is_refused(offset_sum):
    with pytest.raises(InvalidGroupError, match=f"a copy has the offsetSum {offset_sum}; it must be from 0 to"):
        Copy(offset_sum)


def test_a_copy_of_less_than_nothing_is_refused():
    with pytest.raises(InvalidGroupError, match="a copy has the sizeBytes -1; it must be at least 0"):
        Copy(0, size_bytes=-1)


@pytest.mark.parametrize("roles", [("active", "standby"), ("active", "warmup"), ("standby", "warmup")])
def test_a_task_in_two_roles_on_one_worker_is_refused(roles):
    with pytest.raises(InvalidGroupError, match=f"worker {A} holds 0_1 in two roles"):
        Worker(A, capacity=1, **dict.fromkeys(roles, frozenset([TASK])))


def test_a_task_that_two_workers_run_is_refused():
    both = {id_: Worker(id_, capacity=1, active=frozenset([TASK])) for id_ in (A, B)}

    with pytest.raises(InvalidGroupError, match=f"task 0_1 is active on worker {A} and on worker {B}"):
        GroupState({TASK: Task(TASK, stateful=True)}, both)


def test_a_worker_under_the_id_of_another_is_refused():
    with pytest.raises(InvalidGroupError, match=f"workers has {A} under the key {B}"):
        GroupState({}, {B: Worker(A, capacity=1)})


def test_a_task_under_the_id_of_another_is_refused():
    with pytest.raises(InvalidGroupError, match="tasks has 0_1 under the key 0_0"):
        GroupState({TaskId(0, 0): Task(TASK, stateful=False)}, {})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_workers_have_of_unknown_tasks_counts_for_nothing(strategy):
    known = a_scale_out()
    more = known.running(a="7_0").standing_by(b="7_1").warming(5, b="7_2").on_disk(c="7_3")

    assert more.decide(strategy=strategy, standbys=1).decision == known.decide(strategy=strategy, standbys=1).decision


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_copies_of_tasks_without_state_count_for_nothing(strategy):
    """Not even when somebody gives such a task an end, as if it had a changelog."""
    plain = a_scale_out()
    tasks = {
        id_: task if task.stateful else replace(task, end_offset_sum=END) for id_, task in plain.state.tasks.items()
    }
    odd = (
        replace(plain, state=replace(plain.state, tasks=tasks))
        .standing_by(b="1_0")
        .warming(5, c="1_1")
        .on_disk(c="1_2")
    )

    assert odd.decide(strategy=strategy, standbys=1).decision == plain.decide(strategy=strategy, standbys=1).decision


def a_scale_out() -> Group:
    group = a_group("0_0 0_1 0_2 0_3 0_4", stateless="1_0 1_1 1_2", workers="a b c")
    return group.running(a="0_0 0_1 0_2 1_0 1_1", b="0_3 0_4 1_2").standing_by(b="0_0 0_1 0_2", a="0_3 0_4")
