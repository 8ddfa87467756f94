"""Names, labels and annotations of what belongs to a worker; they never change, for identities hang on them."""

from __future__ import annotations

from sluice_protocol.ids import worker_name

APP_LABEL = "sluice.dev/app"
WORKER_LABEL = "sluice.dev/worker"
REVISION_ANNOTATION = "sluice.dev/revision"
REPLACE_ANNOTATION = "sluice.dev/replace"
"""`true` on a pod: it is to be drained and made anew."""
WORKER_CONTAINER = "worker"
TOKEN_AUDIENCE = "sluice.dev/coordinator"  # noqa: S105 - what a token is for


def pod_name(app: str, slot: int) -> str:
    """The pod of a slot."""
    return f"{app}-{worker_name(slot)}"


def claim_name(app: str, slot: int) -> str:
    """The volume claim of a slot."""
    return f"state-{pod_name(app, slot)}"


def service_name(app: str) -> str:
    """The headless Service of the workers."""
    return f"{app}-workers"


def budget_name(app: str) -> str:
    """The disruption budget of the workers."""
    return f"{app}-workers"


def app_labels(app: str) -> dict[str, str]:
    """Of everything of an application."""
    return {
        "app.kubernetes.io/name": "sluice-worker",
        "app.kubernetes.io/instance": app,
        "app.kubernetes.io/managed-by": "sluice",
        APP_LABEL: app,
    }


def labels(app: str, slot: int) -> dict[str, str]:
    """Of the pod and the claim of a slot."""
    return {**app_labels(app), WORKER_LABEL: worker_name(slot)}


def selector(app: str) -> str:
    """Selects everything of an application."""
    return f"{APP_LABEL}={app}"
