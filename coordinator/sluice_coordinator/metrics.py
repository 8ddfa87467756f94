"""The coordinator's metrics, in a registry of their own."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sluice_protocol.heartbeat import Role
from sluice_protocol.view import GroupView

Views = Callable[[], Iterable[GroupView]]


class Metrics:
    """Counters that grow with what happens; gauges are read from the groups when somebody asks."""

    def __init__(self, views: Views) -> None:
        self.registry = CollectorRegistry()
        self.heartbeats = Counter(
            "sluice_heartbeats", "Heartbeats by the code of their answer.", ["code"], registry=self.registry
        )
        self.request_errors = Counter(
            "sluice_request_errors", "HTTP requests answered with an error, by status.", ["status"],
            registry=self.registry,
        )  # fmt: skip
        self.fences = Counter("sluice_fences", "Fences by outcome.", ["outcome"], registry=self.registry)
        self.moves = Counter(
            "sluice_moves", "Hand-overs of active tasks, planned or not.", ["planned"], registry=self.registry
        )
        self.decision_seconds = Histogram(
            "sluice_decision_seconds", "Time of one decision of the assignor.", registry=self.registry,
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10),
        )  # fmt: skip
        self.registry.register(_GroupGauges(views))

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)


class _GroupGauges(Collector):
    def __init__(self, views: Views) -> None:
        self._views = views

    def collect(self) -> Iterable[Metric]:
        epoch = GaugeMetricFamily("sluice_group_epoch", "The group's epoch under its leader.", labels=["application"])
        leader = GaugeMetricFamily("sluice_leader_epoch", "The leader's epoch.", labels=["application"])
        members = GaugeMetricFamily("sluice_members", "Members by state.", labels=["application", "state"])
        tasks = GaugeMetricFamily(
            "sluice_tasks", "Replicas by role and state.", labels=["application", "role", "state"]
        )
        lag = GaugeMetricFamily(
            "sluice_warmup_lag", "Offsets that a warm-up has still to read.", labels=["application", "task", "worker"]
        )
        pending = GaugeMetricFamily(
            "sluice_pending_moves", "Active tasks that are not where they should end up.", labels=["application"]
        )
        for view in self._views():
            application = view.application_id
            epoch.add_metric([application], view.epoch.group)
            leader.add_metric([application], view.epoch.leader)
            pending.add_metric([application], view.pending_moves)
            for state, count in Tally(member.state for member in view.members).items():
                members.add_metric([application, state], count)
            for (role, state), count in Tally((task.role, task.state) for task in view.tasks).items():
                tasks.add_metric([application, role.value, state], count)
            for task in view.tasks:
                if task.role is Role.WARMUP and task.lag is not None:
                    lag.add_metric([application, str(task.task), task.worker], task.lag)
        return [epoch, leader, members, tasks, lag, pending]
