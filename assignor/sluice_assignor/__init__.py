"""Where tasks live: pure functions from the state of a group to a decision. No I/O, no clock.

from sluice_assignor import AssignmentConfig, GroupState, decide
"""

from sluice_assignor.decide import decide
from sluice_assignor.errors import InvalidConfigError, InvalidGroupError
from sluice_assignor.model import (
    Assignment,
    AssignmentConfig,
    Copy,
    Decision,
    Degradation,
    GroupState,
    Move,
    MoveReason,
    RackAwareStrategy,
    Task,
    Wish,
    Worker,
)

__all__ = [
    "Assignment",
    "AssignmentConfig",
    "Copy",
    "Decision",
    "Degradation",
    "GroupState",
    "InvalidConfigError",
    "InvalidGroupError",
    "Move",
    "MoveReason",
    "RackAwareStrategy",
    "Task",
    "Wish",
    "Worker",
    "decide",
]
