"""One applicationId, one StreamsApp: two of them on one Kafka would fence each other's workers for ever."""

from __future__ import annotations

from collections.abc import Iterable

from sluice_operator.observed import App, Problem
from sluice_operator.reasons import Reason


def find_elder(app: App, others: Iterable[App]) -> Problem | None:
    """Why the application may not run: a StreamsApp that has run already, or an older one, has its applicationId on its
    Kafka."""
    elders = [other for other in others if _is_same(app, other) and _rank(other) < _rank(app)]
    if not elders or app.spec is None:
        return None
    elder = min(elders, key=_rank)
    return Problem(
        Reason.APPLICATION_ID_TAKEN,
        f"spec.applicationId {app.spec.application_id!r} on this Kafka is that of StreamsApp {'/'.join(elder.key)}; "
        "give this one another, or delete the other one.",
    )


def find_twin(app: App, others: Iterable[App]) -> App | None:
    """Another StreamsApp, older or not, that uses the same applicationId on the same Kafka."""
    return next((other for other in others if _is_same(app, other)), None)


def _is_same(app: App, other: App) -> bool:
    return (
        app.spec is not None
        and other.spec is not None
        and app.uid != other.uid
        and app.spec.application_id == other.spec.application_id
        and _servers(app) & _servers(other) != set()
    )


def _servers(app: App) -> set[str]:
    return set() if app.spec is None else {server.strip() for server in app.spec.kafka.bootstrap_servers.split(",")}


def _rank(app: App) -> tuple[bool, str, str]:
    """A creation is known to the second only, and within one the older application may have had its first worker."""
    return app.footprint.slots == 0, app.created, app.uid
