"""When the next step is due, and what it is (KIP-441, "Probing rebalances", without having to wait for them).

A change of membership or of topics wants a step at once; a copy that became hot, a task that recovered or the probing
interval wants one as soon as every member has reached the last. Before each step the ends of the changelogs are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sluice_assignor import AssignmentConfig, Decision, Degradation, GroupState
from sluice_coordinator.group.config import Racks
from sluice_coordinator.group.members import Member
from sluice_coordinator.group.placing import Step, TaskPlan, group_state, step_of
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId

Decide = Callable[[GroupState, AssignmentConfig], Decision]


class Stepping:
    """`step` is the last one that was decided, or what adopted members hold."""

    def __init__(self, config: AssignmentConfig, probing_interval_ms: int, decide: Decide) -> None:
        self._config = config
        self._probing_interval_ms = probing_interval_ms
        self._decide = decide
        self.step = Step()
        self.end_offset_sums: Mapping[TaskId, int] = {}
        self.degraded: tuple[Degradation, ...] = ()
        self.probe_at_ms: int | None = None
        self._membership_changed = False
        self._is_wanted = False
        self._is_fetching = False
        self._judged_hot: frozenset[tuple[str, TaskId]] = frozenset()

    @property
    def is_deciding(self) -> bool:
        """Is a step due, or on its way?"""
        return self._membership_changed or self._is_wanted or self._is_fetching

    def want_at_once(self) -> None:
        """Who is there, or what there is to do, has changed."""
        self._membership_changed = True

    def want(self) -> None:
        """Something has become better."""
        self._is_wanted = True

    def notice_hot_copies(self, member: Member) -> None:
        """A copy that is waited for may be hot: the ends are read again, then the assignor judges.

        One that was judged hot and not used is left to the probing interval, or it would be judged for ever.
        """
        if self._hot_copies([member]) - self._judged_hot:
            self.want()

    def probe(self, now_ms: int) -> None:
        """Want a step if the probing interval has passed."""
        if self.probe_at_ms is not None and now_ms >= self.probe_at_ms:
            self.probe_at_ms = None
            self.want()

    def begin(self, plan: TaskPlan, *, is_settled: bool) -> Mapping[TaskId, tuple[str, ...]] | None:
        """The changelogs whose ends must be read now, by task (there may be none); None if no step is due."""
        is_due = self._membership_changed or (self._is_wanted and is_settled)
        if not is_due or self._is_fetching:
            return None
        self._is_fetching = True
        return {task: topics for task, topics in plan.tasks().items() if topics}

    def end(self) -> None:
        """The ends have come, or won't."""
        self._is_fetching = False

    def take(
        self,
        members: Sequence[Member],
        draining: Collection[str],
        plan: TaskPlan,
        end_offset_sums: Mapping[TaskId, int] | None,
        racks: Racks,
        now_ms: int,
    ) -> None:
        """Decide. Without the ends everything stays where it is."""
        self._membership_changed = self._is_wanted = False
        if end_offset_sums is not None:
            self.end_offset_sums = end_offset_sums
        state = group_state(members, draining, plan, end_offset_sums, racks, self._config.rack_aware_tags)
        decision = self._decide(state, self._config)
        self.degraded = decision.degraded
        self.step = step_of(decision, members)
        self._judged_hot = self._hot_copies(members) if end_offset_sums is not None else frozenset()
        self.probe_at_ms = now_ms + self._probing_interval_ms if decision.follow_up else None

    def want_as_held(self, member: Member) -> None:
        """Until something is decided, an adopted member keeps what it has."""
        wanted = {**self.step.wanted, member.worker: member.holdings.listed_roles()}
        self.step = replace(self.step, wanted=wanted)

    def drop(self, worker: str) -> None:
        """Nothing is wanted of a worker that is gone."""
        wanted: dict[str, Mapping[TaskId, Role]] = dict(self.step.wanted)
        wanted.pop(worker, None)
        self.step = replace(self.step, wanted=wanted)

    def forget(self) -> None:
        """Nothing is wanted of anybody."""
        self.step = Step()

    def _hot_copies(self, members: Sequence[Member]) -> frozenset[tuple[str, TaskId]]:
        lags = {
            (member.worker, task): member.lag(task, self.end_offset_sums.get(task))
            for member in members
            for task in member.copies
            if (member.worker, task) in self.step.awaited
        }
        acceptable = self._config.acceptable_recovery_lag
        return frozenset(copy for copy, lag in lags.items() if lag is not None and lag <= acceptable)
