"""One applicationId, one StreamsApp: two of them on one Kafka would fence each other's workers for ever.

A Kafka is known by its cluster id, which is recorded of one application with that applicationId only. Before it is
known, two lists of servers that overlap are taken for one Kafka: that refuses most twins before they have done
anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice_operator.observed import App, Problem
from sluice_operator.reasons import Reason


def find_elder(app: App, others: Iterable[App], cluster_id: str | None = None) -> Problem | None:
    """Why the application may not run: a StreamsApp that has run already, or an older one, has its applicationId on its
    Kafka. `cluster_id`: that of the Kafka that answers, as long as none is recorded."""
    elders = [other for other in others if _is_same(app, other, cluster_id) and _rank(other) < _rank(app)]
    if not elders or app.spec is None:
        return None
    elder = min(elders, key=_rank)
    return Problem(
        Reason.APPLICATION_ID_TAKEN,
        f"spec.applicationId {app.spec.application_id!r} on this Kafka is that of StreamsApp {'/'.join(elder.key)}; "
        "give this one another, or delete the other one.",
    )


def find_twin(app: App, others: Iterable[App], cluster_id: str | None = None) -> App | None:
    """Another StreamsApp, older or not, that uses the same applicationId on the same Kafka."""
    return next((other for other in others if _is_same(app, other, cluster_id)), None)


def _is_same(app: App, other: App, cluster_id: str | None) -> bool:
    return (
        app.spec is not None
        and other.spec is not None
        and app.uid != other.uid
        and app.spec.application_id == other.spec.application_id
        and _shares_kafka(app, other, app.cluster_id or cluster_id)
    )


def _shares_kafka(app: App, other: App, cluster_id: str | None) -> bool:
    if cluster_id is not None and other.cluster_id is not None:
        return cluster_id == other.cluster_id
    return not _servers(app).isdisjoint(_servers(other))


def _servers(app: App) -> set[str]:
    return set() if app.spec is None else {server.strip() for server in app.spec.kafka.bootstrap_servers.split(",")}


def _rank(app: App) -> tuple[bool, bool, str, str]:
    """A creation is known to the second only, and within one the older application may have had its first worker."""
    return app.cluster_id is None, app.footprint.slots == 0, app.created, app.uid
