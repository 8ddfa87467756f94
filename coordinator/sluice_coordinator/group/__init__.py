"""Who is a member, who holds which task, and what happens next (after KIP-1071): a pure core.

    group = Group(GroupConfig(...), Recorded(...), now_ms)
    effects = group.handle(Tick(), now_ms)

Events in, effects out, both plain data; the clock is an argument. Nothing in here does I/O.
"""

from sluice_coordinator.group.config import GroupConfig, Recorded
from sluice_coordinator.group.core import Group

__all__ = ["Group", "GroupConfig", "Recorded"]
