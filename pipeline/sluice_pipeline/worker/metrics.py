"""What a worker counts, for Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sluice_pipeline.worker.assignment import Phase

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WorkerMetrics:
    """The metrics of one worker process; labels are bounded by the topology."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        labels = ["subtopology"]
        self._records = Counter("sluice_worker_records", "Records read and committed", labels, registry=self.registry)
        self._batches = Histogram(
            "sluice_worker_batch_seconds", "From a batch's records at hand to its state written", labels,
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._aborted = Counter(
            "sluice_worker_aborted_transactions", "Transactions aborted and read again", labels, registry=self.registry
        )
        self._dropped = Counter(
            "sluice_worker_dropped_records", "Records dropped: null-key at a group_by, or tombstone",
            [*labels, "reason"], registry=self.registry,
        )  # fmt: skip
        self._dead_letters = Counter(
            "sluice_worker_dead_letters", "Records sent to the dead-letter topic", labels, registry=self.registry
        )
        self._tasks = Gauge("sluice_worker_tasks", "Tasks held, by phase", ["phase"], registry=self.registry)
        self.restored = Counter(
            "sluice_worker_restored_records", "Changelog records applied to stores", registry=self.registry
        )
        self.incarnations = Counter(
            "sluice_worker_incarnations", "Times that this process joined as a new member", registry=self.registry
        )

    def hold(self, phases: Iterable[Phase]) -> None:
        """These are the phases of all tasks held now."""
        tally = Tally(phases)
        for phase in Phase:
            self._tasks.labels(phase.value).set(tally[phase])

    def batch(self, subtopology: int, records: int, seconds: float) -> None:
        """A batch was done."""
        self._records.labels(subtopology).inc(records)
        self._batches.labels(subtopology).observe(seconds)

    def aborted(self, subtopology: int) -> None:
        """A transaction was aborted."""
        self._aborted.labels(subtopology).inc()

    def dropped(self, subtopology: int, *, null_keys: int, tombstones: int) -> None:
        """Records were dropped."""
        self._dropped.labels(subtopology, "null-key").inc(null_keys)
        self._dropped.labels(subtopology, "tombstone").inc(tombstones)

    def dead_letter(self, subtopology: int) -> None:
        """A record went to the dead-letter topic."""
        self._dead_letters.labels(subtopology).inc()
