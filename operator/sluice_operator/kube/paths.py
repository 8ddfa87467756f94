"""Paths of the API."""

from __future__ import annotations

from sluice_operator.observed import Part
from sluice_operator.spec.model import API_VERSION, PLURAL
from sluice_operator.workers.shared import part_name


def all_apps(namespaces: tuple[str, ...]) -> list[str]:
    """Every list of StreamsApps that the operator looks after; no namespaces = the whole cluster."""
    return [apps(namespace) for namespace in namespaces] or [f"/apis/{API_VERSION}/{PLURAL}"]


def apps(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"


def app(key: tuple[str, str]) -> str:
    return f"{apps(key[0])}/{key[1]}"


def app_status(key: tuple[str, str]) -> str:
    return f"{app(key)}/status"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def claims(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def part(part: Part, app: str, namespace: str) -> str:
    return f"{parts(part, namespace)}/{part_name(part, app)}"


def parts(part: Part, namespace: str) -> str:
    if part is Part.SERVICE:
        return f"/api/v1/namespaces/{namespace}/services"
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def node(name: str) -> str:
    return f"{NODES}/{name}"


def events(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/events"


def secrets(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

NODES = "/api/v1/nodes"
