"""Optimal: the least state to restore and the least traffic between racks that a balanced group can have; ours.

The target is the optimum of one min-cost flow for actives with state, one for those without, and one for standbys given
the actives. So no task moves without need: from 4 to 5 workers 100 tasks make 20 moves, where a fresh round robin makes
80. The flow needs a solver, which the rest of the assignor does not: it is loaded when the strategy is used.
"""

from __future__ import annotations

from sluice_assignor.errors import MissingSolverError
from sluice_assignor.model import AssignmentConfig, Decision, GroupState


def optimal(group: GroupState, config: AssignmentConfig) -> Decision:
    """Place, then step. Raises MissingSolverError where the extra `assignor` is not installed."""
    try:
        from sluice_assignor.optimum.decision import decide_optimum  # noqa: PLC0415
    except ModuleNotFoundError as error:
        package = (error.name or "ortools").partition(".")[0]
        raise MissingSolverError(
            f"the strategy Optimal needs the package {package}, which is not installed; install it with: "
            "pip install 'sluice[assignor]', or choose another strategy"
        ) from error
    return decide_optimum(group, config)
