"""Applications as they may be seen, for tests of what is decided from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sluice_operator.observed import (
    FINALIZER,
    App,
    Claim,
    Membership,
    Observed,
    Part,
    Phase,
    Pod,
    Trouble,
    read_app,
)
from sluice_operator.workers.manifests import Coordinator, revision
from sluice_protocol.heartbeat import FailedTask, Load, Role, Status, StatusCode
from sluice_protocol.ids import Epoch, TaskId, worker_name
from sluice_protocol.topology import Subtopology, TopologyDescription
from sluice_protocol.view import GroupView, MemberView, TaskView

COORDINATOR = Coordinator("https://coordinator:8080", "the CA")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EPOCH = Epoch(1, 7)
CLUSTER_ID = "kafka-a"
TOPOLOGY = TopologyDescription(
    "flights", (Subtopology(0, source_topics=("input",), changelog_topics=("flights-by-plane-changelog",)),)
)


def a_manifest(**spec: Any) -> dict[str, Any]:
    """A StreamsApp as the API server has it."""
    return {
        "metadata": {
            "namespace": "default", "name": "flights", "uid": "app-uid", "resourceVersion": "5", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER],
        },
        "spec": {
            "applicationId": "flights",
            "kafka": {"bootstrapServers": "kafka:9092"},
            "pipeline": {"module": "pipeline:topology", "image": "flights:1"},
            **spec,
        },
        "status": {"footprint": {"slots": 0, "subtopologies": 0, "clusterId": CLUSTER_ID}},
    }  # fmt: skip


def an_app(replicas: int = 2, *, paused: bool = False, is_going: bool = False, **changes: Any) -> App:
    app = read_app(a_manifest(workers={"replicas": replicas}, paused=paused))
    return replace(app, deleted_at=NOW if is_going else None, **changes)


def a_pod(
    slot: int,
    membership: Membership = Membership.MEMBER,
    phase: Phase = Phase.RUNNING,
    revision: str = "new",
    trouble: Trouble | None = None,
) -> Pod:
    return Pod(slot, f"uid-{slot}", phase, revision, trouble, membership)


def claims(*slots: int) -> list[Claim]:
    return [Claim(slot, f"claim-{slot}", is_going=False) for slot in slots]


def a_member(slot: int, *, draining: bool = False, state: str = "stable", failed: tuple[FailedTask, ...] = ()) -> Any:
    return MemberView(worker_name(slot), f"member-{slot}", f"process-{slot}", f"uid-{slot}", EPOCH, 2, state, draining,
                      0, Load(), failed)  # fmt: skip


def active(partition: int, slot: int, state: str = "running") -> TaskView:
    return TaskView(TaskId(0, partition), Role.ACTIVE, worker_name(slot), state, True, EPOCH)


def warmup(partition: int, slot: int, lag: int, eta: int | None) -> TaskView:
    return TaskView(TaskId(0, partition), Role.WARMUP, worker_name(slot), "restoring", True, EPOCH, lag=lag,
                    eta_seconds=eta)  # fmt: skip


def a_group(*tasks: TaskView, members: Any = (), state: str = "stable", code: StatusCode | None = None) -> GroupView:
    statuses = () if code is None else (Status(code, f"{code.value} it is"),)
    return GroupView("flights", EPOCH, state, TOPOLOGY.hash(), TOPOLOGY, tuple(members), tasks, statuses=statuses)


def observed(
    app: App | None = None, pods: Any = (), group: GroupView | None = None, *, with_claims: bool = True
) -> Observed:
    app = an_app() if app is None else app
    volumes = claims(*(pod.slot for pod in pods)) if with_claims else []
    parts = {part: f"uid-of-{part.value}" for part in Part}
    return Observed(app, tuple(pods), tuple(volumes), group, group is not None, NOW, parts=parts)


def the_revision(app: App) -> str:
    assert app.spec is not None
    return revision(app.name, app.namespace, app.spec, COORDINATOR)
