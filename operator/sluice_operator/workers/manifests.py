"""The pod and the volume claim of a slot, as Kubernetes wants them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice_operator.names import (
    APP_LABEL,
    REVISION_ANNOTATION,
    TOKEN_AUDIENCE,
    WORKER_CONTAINER,
    claim_name,
    labels,
    pod_name,
    service_name,
)
from sluice_operator.spec.model import API_VERSION, KIND, SecretRef, StreamsAppSpec
from sluice_protocol.ids import worker_name
from sluice_protocol.launch import (
    COORDINATOR_CA_VARIABLE,
    KAFKA_CONFIG_DIRECTORY_VARIABLE,
    KAFKA_CONFIG_VARIABLE,
    WorkerLaunch,
)
from sluice_protocol.wire import to_json

_STATE_DIRECTORY = "/var/lib/sluice"
_TOKEN_DIRECTORY = "/var/run/secrets/sluice.dev"  # noqa: S105
_TOKEN_SECONDS = 3_600
_CREDENTIALS_DIRECTORY = "/var/run/secrets/kafka.sluice.dev"
_RACK, _TAG = "SLUICE_RACK", "SLUICE_TAG_"
_TOPOLOGY_LABELS = {"zone": "topology.kubernetes.io/zone", "region": "topology.kubernetes.io/region"}
_POD_UID = "SLUICE_POD_UID"
_GRACE_SECONDS = 45
"""A worker commits its last batch, closes its stores and says that it leaves."""

_USER = 10_001

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Where workers reach it, and the certificates (PEM) by which they verify it."""

    url: str
    ca: str | None = None


def owner_reference(name: str, uid: str) -> Json:
    """Of everything that goes with the StreamsApp."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid, "controller": True,
            "blockOwnerDeletion": True}  # fmt: skip


def revision(
    app: str,
    namespace: str,
    spec: StreamsAppSpec,
    coordinator: Coordinator,
    secret_version: str = "",
) -> str:
    """A digest of the pod and the version of its Secret, the same for each slot: a pod that bears another one is to be
    replaced. Not of what the Secret holds: whoever may read pods could try passwords on it."""
    text = json.dumps([_pod(app, namespace, 0, spec, coordinator), secret_version], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def pod_manifest(
    app: str,
    namespace: str,
    uid: str,
    slot: int,
    spec: StreamsAppSpec,
    coordinator: Coordinator,
    secret_version: str = "",
) -> Json:
    """The pod of a slot."""
    pod = _pod(app, namespace, slot, spec, coordinator)
    pod["metadata"]["annotations"][REVISION_ANNOTATION] = revision(app, namespace, spec, coordinator, secret_version)
    pod["metadata"]["ownerReferences"] = [owner_reference(app, uid)]
    return pod


def claim_manifest(app: str, slot: int, spec: StreamsAppSpec) -> Json:
    """The volume claim of a slot. The StreamsApp does not own it: what becomes of it is decided when that is deleted,
    by the policy of then."""
    volume = spec.workers.state_volume
    wanted: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": volume.size}}}
    if volume.storage_class_name is not None:
        wanted["storageClassName"] = volume.storage_class_name
    metadata: Json = {"name": claim_name(app, slot), "labels": labels(app, slot)}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wanted}


def _pod(app: str, namespace: str, slot: int, spec: StreamsAppSpec, coordinator: Coordinator) -> Json:
    ours: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(app, slot), "labels": labels(app, slot), "annotations": {}},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": pod_name(app, slot),
            "subdomain": service_name(app),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                _spread(app, "topology.kubernetes.io/zone"),
                _spread(app, "kubernetes.io/hostname"),
            ],
            "containers": [_container(app, namespace, slot, spec, coordinator)],
            "volumes": [
                {"name": "state", "persistentVolumeClaim": {"claimName": claim_name(app, slot)}},
                {"name": "coordinator-token", "projected": {"sources": [{"serviceAccountToken": {
                    "audience": TOKEN_AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "token"}}]}},
                *_credentials(spec.kafka.secret_ref),
            ],
        },
    }  # fmt: skip
    merged: Json = merge(ours, to_json(spec.workers.template))
    merged["metadata"]["labels"] |= labels(app, slot)
    return merged


def _credentials(secret: SecretRef | None) -> list[Json]:
    """The volume with a file for each setting that the Secret holds."""
    if secret is None:
        return []
    items = [{"key": key, "path": setting} for setting, key in secret.settings.items()]
    return [{"name": "kafka-credentials", "secret": {"secretName": secret.name, "items": items}}]


def _container(app: str, namespace: str, slot: int, spec: StreamsAppSpec, coordinator: Coordinator) -> Json:
    tags = spec.assignment.rack_aware.tags
    launch = WorkerLaunch(
        pipeline=spec.pipeline.module,
        bootstrap_servers=spec.kafka.bootstrap_servers,
        application_id=spec.application_id,
        worker=worker_name(slot),
        coordinator=coordinator.url,
        coordinator_ca=coordinator.ca,
        state_dir=_STATE_DIRECTORY,
        namespace=namespace,
        app=app,
        incarnation=f"$({_POD_UID})",
        threads=spec.workers.threads,
        restore_bytes_per_second=spec.workers.restore_bytes_per_second,
        master=spec.pipeline.spark.master,
        spark_conf=spec.pipeline.spark.conf,
        token_file=f"{_TOKEN_DIRECTORY}/token",
        rack=f"$({_RACK})",
        tags={tag: f"$({_TAG}{number})" for number, tag in enumerate(tags)},
    )
    mounts = [
        {"name": "state", "mountPath": _STATE_DIRECTORY},
        {"name": "coordinator-token", "mountPath": _TOKEN_DIRECTORY, "readOnly": True},
    ]
    if spec.kafka.secret_ref is not None:
        mounts.append({"name": "kafka-credentials", "mountPath": _CREDENTIALS_DIRECTORY, "readOnly": True})
    return {
        "name": WORKER_CONTAINER,
        "image": spec.pipeline.image,
        "command": ["sluice"],
        "args": launch.arguments(),
        "env": [
            {"name": _POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": KAFKA_CONFIG_VARIABLE, "value": json.dumps(dict(spec.kafka.config), sort_keys=True)},
            *([] if coordinator.ca is None else [{"name": COORDINATOR_CA_VARIABLE, "value": coordinator.ca}]),
            *(
                []
                if spec.kafka.secret_ref is None
                else [{"name": KAFKA_CONFIG_DIRECTORY_VARIABLE, "value": _CREDENTIALS_DIRECTORY}]
            ),
            _label(_RACK, _TOPOLOGY_LABELS["zone"]),
            *(_label(f"{_TAG}{number}", _TOPOLOGY_LABELS.get(tag, tag)) for number, tag in enumerate(tags)),
        ],
        "resources": dict(spec.workers.resources),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _label(variable: str, key: str) -> Json:
    """A variable with a label of the pod as it is when the container starts; empty if the pod has none of that key."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{key}']"}}}


def _spread(app: str, key: str) -> Json:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {APP_LABEL: app}}}  # fmt: skip


def merge(ours: Any, theirs: Any) -> Any:
    """Theirs over ours: maps by key, lists of named things by name, everything else as they say."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {**ours, **{key: merge(ours.get(key), part) for key, part in theirs.items()}}
    if _is_named(ours) and _is_named(theirs):
        named = {part["name"]: part for part in ours}
        for part in theirs:
            named[part["name"]] = merge(named.get(part["name"]), part)
        return list(named.values())
    return theirs


def _is_named(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(part, Mapping) and "name" in part for part in value)
    )
