"""The coordinator's metrics, in a registry of their own."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sluice_protocol.heartbeat import Role
from sluice_protocol.view import GroupView

Views = Callable[[], Iterable[tuple[tuple[str, str], GroupView]]]
"""By namespace and name of the application."""

GROUP_STATES = ("empty", "not-ready", "adopting", "reconciling", "stable")
_LABELS = ["namespace", "application"]


class Metrics:
    """Counters that grow with what happens; gauges are read from the groups when somebody asks."""

    def __init__(self, views: Views, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
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
        self.drains = Counter(
            "sluice_drains", "Workers that were to be emptied, by what became of it.", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self.handover_seconds = Histogram(
            "sluice_handover_seconds", "From the end of an active task on one worker to the next one's word that it "
            "holds it.", ["planned"], registry=self.registry, buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )  # fmt: skip
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
        epoch = GaugeMetricFamily("sluice_group_epoch", "The group's epoch under its leader.", labels=_LABELS)
        leader = GaugeMetricFamily("sluice_leader_epoch", "The leader's epoch.", labels=_LABELS)
        states = GaugeMetricFamily("sluice_group_state", "1 for the group's state.", labels=[*_LABELS, "state"])
        members = GaugeMetricFamily("sluice_members", "Members by state.", labels=[*_LABELS, "state"])
        tasks = GaugeMetricFamily("sluice_tasks", "Replicas by role and state.", labels=[*_LABELS, "role", "state"])
        replica = [*_LABELS, "task", "worker"]
        lag = GaugeMetricFamily("sluice_warmup_lag", "Offsets that a warm-up has still to read.", labels=replica)
        eta = GaugeMetricFamily("sluice_warmup_eta_seconds", "Until a warm-up has caught up.", labels=replica)
        pending = GaugeMetricFamily(
            "sluice_pending_moves", "Active tasks that are not where they should end up.", labels=_LABELS
        )
        for application, view in self._views():
            epoch.add_metric(application, view.epoch.group)
            leader.add_metric(application, view.epoch.leader)
            pending.add_metric(application, view.pending_moves)
            for state in GROUP_STATES:
                states.add_metric([*application, state], state == view.state)
            for state, count in Tally(member.state for member in view.members).items():
                members.add_metric([*application, state], count)
            for (role, state), count in Tally((task.role, task.state) for task in view.tasks).items():
                tasks.add_metric([*application, role.value, state], count)
            for task in view.tasks:
                labels = [*application, str(task.task), task.worker]
                if task.role is Role.WARMUP and task.lag is not None:
                    lag.add_metric(labels, task.lag)
                if task.role is Role.WARMUP and task.eta_seconds is not None:
                    eta.add_metric(labels, task.eta_seconds)
        return [epoch, leader, states, members, tasks, lag, eta, pending]
