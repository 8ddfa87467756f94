"""Where tasks live: pure functions from the state of a group to a decision. No I/O, no clock.

from sluice_assignor import AssignmentConfig, GroupState, decide
"""

from sluice_assignor.decide import decide
from sluice_assignor.errors import InvalidConfigError, InvalidGroupError, MissingSolverError
from sluice_assignor.explanations import explain
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
from sluice_assignor.parameters import BalancedParameters, IncrementalParameters, OptimalParameters
from sluice_assignor.simulate import Cause, Drain, Event, Join, Leave, Pace, Timeline, TimelineStep, simulate

__all__ = [
    "Assignment",
    "AssignmentConfig",
    "BalancedParameters",
    "Cause",
    "Copy",
    "Decision",
    "Degradation",
    "Drain",
    "Event",
    "GroupState",
    "IncrementalParameters",
    "InvalidConfigError",
    "InvalidGroupError",
    "Join",
    "Leave",
    "MissingSolverError",
    "Move",
    "MoveReason",
    "OptimalParameters",
    "Pace",
    "RackAwareStrategy",
    "Task",
    "Timeline",
    "TimelineStep",
    "Wish",
    "Worker",
    "decide",
    "explain",
    "simulate",
]
