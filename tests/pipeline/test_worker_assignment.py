"""The table that decides what a worker does next with a task."""

import itertools

import pytest

from sluice_pipeline.worker.assignment import Action, Held, Phase, next_action
from sluice_protocol.heartbeat import Grant, Role
from sluice_protocol.ids import Epoch, TaskId

TASK = TaskId(0, 1)


def grant(role: Role, epoch: int = 1) -> Grant:
    return Grant(TASK, role, Epoch(1, epoch))


A, S, W = Role.ACTIVE, Role.STANDBY, Role.WARMUP
P = Phase


@pytest.mark.parametrize(
    ("wanted", "role", "phase", "action"),
    [
        (None, None, None, None),
        (A, None, None, Action.TAKE_OVER),
        (S, None, None, Action.FOLLOW),
        (W, None, None, Action.FOLLOW),
        (A, A, P.RUNNING, None),
        (None, A, P.RUNNING, Action.RELEASE),
        (S, A, P.RUNNING, Action.RELEASE),
        (None, A, P.PREPARING, Action.DROP),
        (None, A, P.RESTORING, Action.STOP),
        (W, A, P.RESTORING, Action.STOP),
        (A, A, P.FAILED, None),
        (None, A, P.FAILED, Action.DROP),
        (A, W, P.FOLLOWING, Action.TAKE_OVER),
        (A, W, P.PREPARING, Action.DROP),
        (None, W, P.FOLLOWING, Action.STOP),
        (None, W, P.PREPARING, Action.DROP),
        (S, W, P.FOLLOWING, Action.REGRANT),
        (A, W, P.STOPPING, None),
        (A, A, P.RELEASING, None),
        (None, A, P.RELEASING, None),
    ],
)
def test_next_action(wanted: Role | None, role: Role | None, phase: Phase | None, action: Action | None) -> None:
    held = Held(grant(role), phase) if role is not None and phase is not None else None

    assert next_action(grant(wanted) if wanted else None, held) is action


def test_nothing_is_begun_with_a_task_on_its_way() -> None:
    for role, wanted, phase in itertools.product(Role, [None, *Role], (P.RELEASING, P.STOPPING)):
        assert next_action(grant(wanted, 2) if wanted else None, Held(grant(role), phase)) is None


def test_a_new_epoch_of_the_same_role_is_taken_over_in_place() -> None:
    assert next_action(grant(A, 2), Held(grant(A, 1), P.RUNNING)) is Action.REGRANT
