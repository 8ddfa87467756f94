"""The spec and the status of a StreamsApp, as types. A field is here when something reads it.

Defaults that belong to somebody else (the assignor, the coordinator) are taken from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sluice_assignor import (
    AssignmentConfig,
    BalancedParameters,
    IncrementalParameters,
    OptimalParameters,
    RackAwareStrategy,
)
from sluice_assignor.model import MAX_COST, MAX_TAG_KEY_LENGTH, MAX_TAGS
from sluice_assignor.strategies import STRATEGIES
from sluice_coordinator.settings import CoordinatorSettings
from sluice_operator.spec.described import described, rules
from sluice_operator.spec.kafka_settings import REFUSED_ENDS, REFUSED_GROUPS, check_names, taken
from sluice_protocol.durations import parse_duration, show_duration
from sluice_protocol.launch import WorkerLaunch

GROUP, VERSION, KIND, PLURAL = "sluice.dev", "v1alpha1", "StreamsApp", "streamsapps"
API_VERSION = f"{GROUP}/{VERSION}"

MAX_NAME_LENGTH = 40
"""Of a StreamsApp: its pods are named after it, and a label holds 63 characters."""

_ASSIGNMENT = AssignmentConfig()
_COORDINATOR: dict[str, Any] = {field.name: field.default for field in fields(CoordinatorSettings)}
_LAUNCH: dict[str, Any] = {field.name: field.default for field in fields(WorkerLaunch)}

_BALANCED, _INCREMENTAL, _OPTIMAL = _ASSIGNMENT.balanced, _ASSIGNMENT.incremental, _ASSIGNMENT.optimal

NO_CREDENTIALS: Mapping[str, str] = MappingProxyType({})

WEIGHT = {"minimum": 0, "maximum": 1_000_000}


def _hundredths(weight: float) -> int:
    """A CRD has no floats."""
    return round(weight * 100)


def _word(strategy: RackAwareStrategy) -> str:
    """As an enumeration of Kubernetes writes it."""
    return "".join(part.capitalize() for part in strategy.value.split("_"))


PASSWORDS = ("sasl.password", "ssl.key.password", "ssl.key.pem")
"""Settings of librdkafka that nobody should read in a StreamsApp."""

_IS_REFUSED = " || ".join(
    [f"name.startsWith({part!r})" for part in REFUSED_GROUPS] + [f"name.endsWith({part!r})" for part in REFUSED_ENDS]
)
_WHY_REFUSED = (
    f"may hold no {'*, '.join(REFUSED_GROUPS)}*, *{' or *'.join(REFUSED_ENDS)}: the operator logs in with these "
    "settings too, and must not read files, load code or call URLs for them; use ssl.ca.pem for a CA, and "
    "sasl.username and sasl.password, or ssl.certificate.pem and ssl.key.pem"
)

_UNIT = "(ms|d|h|m|s)"
DURATION = {"pattern": rf"^([0-9]+{_UNIT})*0*[1-9][0-9]*{_UNIT}([0-9]+{_UNIT})*$", "maxLength": 20}
"""Longer than 0."""

_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
QUANTITIES = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": rf"^[+-]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?$",
        "x-kubernetes-int-or-string": True,
    },
}


@rules(
    (
        "!('bootstrap.servers' in self.settings || 'group.id' in self.settings || 'transactional.id' in self.settings)",
        "kafka.secretRef.settings may not hold bootstrap.servers, group.id or transactional.id",
    ),
    (f"!self.settings.exists(name, {_IS_REFUSED})", f"kafka.secretRef.settings {_WHY_REFUSED}"),
)
@dataclass(frozen=True, slots=True)
class SecretRef:
    """A Secret with settings that nobody else should read."""

    name: str = described(
        "A Secret in the namespace of the StreamsApp. When it changes, workers are replaced as for a changed spec.",
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", maxLength=253,
    )  # fmt: skip
    settings: Mapping[str, str] = described(
        "The librdkafka settings that it holds, and the key of each: `{sasl.password: password}`. Workers get them as "
        "files.", minProperties=1, maxProperties=32,
        additionalProperties={"type": "string", "minLength": 1, "maxLength": 253, "pattern": r"^[-._a-zA-Z0-9]+$"},
    )  # fmt: skip


@rules(
    (
        "!has(self.config) || !('bootstrap.servers' in self.config || 'group.id' in self.config || "
        "'transactional.id' in self.config)",
        "kafka.config may not hold bootstrap.servers (use kafka.bootstrapServers), group.id or transactional.id "
        "(they follow from applicationId)",
    ),
    (
        f"!has(self.config) || !({' || '.join(repr(name) + ' in self.config' for name in PASSWORDS)})",
        f"kafka.config may hold no password ({', '.join(PASSWORDS)}): use kafka.secretRef",
    ),
    (
        "!has(self.secretRef) || !has(self.config) || self.secretRef.settings.all(name, !(name in self.config))",
        "a setting is either in kafka.config or in kafka.secretRef.settings",
    ),
    (f"!has(self.config) || !self.config.exists(name, {_IS_REFUSED})", f"kafka.config {_WHY_REFUSED}"),
)
@dataclass(frozen=True, slots=True)
class Kafka:
    """Where the application's topics are."""

    bootstrap_servers: str = described("Bootstrap servers, HOST:PORT,….", minLength=1, maxLength=2048)
    config: Mapping[str, str] = described(
        "Further librdkafka settings of every client. Passwords and keys belong into secretRef. The operator itself "
        "takes only those by which it connects and logs in.", dict, maxProperties=64,
    )  # fmt: skip
    secret_ref: SecretRef | None = described("Settings that only a Secret may hold: passwords, keys.", None)

    def operator_settings(self, credentials: Mapping[str, str]) -> dict[str, str]:
        """What the operator's own clients take. Raises ValueError naming the field and the setting."""
        check_names("spec.kafka.config", self.config)
        if self.secret_ref is not None:
            check_names("spec.kafka.secretRef.settings", self.secret_ref.settings)
        return taken({**self.config, **credentials})


@dataclass(frozen=True, slots=True)
class Spark:
    """The Spark session of a worker."""

    master: str | None = described(
        "Spark's master; local[threads] if it is not set.", None, minLength=1, maxLength=1024
    )
    conf: Mapping[str, str] = described("Settings of Spark.", dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the workers run."""

    module: str = described(
        "MODULE:ATTRIBUTE of the topology, importable in the image.",
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", maxLength=253,
    )  # fmt: skip
    image: str = described("Container image with the pipeline and `sluice` on its PATH.", minLength=1, maxLength=1024)
    spark: Spark = described("The Spark session of a worker.", Spark)


@dataclass(frozen=True, slots=True)
class Retention:
    """What becomes of volumes, in the words of a StatefulSet."""

    when_scaled: str = described(
        "What becomes of a worker's volume after a scale-in. A retained one is used again.",
        "Retain", enum=["Retain", "Delete"],
    )  # fmt: skip
    when_deleted: str = described(
        "What becomes of all volumes when the StreamsApp is deleted.", "Delete", enum=["Retain", "Delete"]
    )


@dataclass(frozen=True, slots=True)
class StateVolume:
    """The volume of each worker, where its state is kept."""

    size: str = described(
        "Its size, a Kubernetes quantity.", "10Gi", pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"
    )
    storage_class_name: str | None = described(
        "Its storage class; the cluster's default if it is not set.", None, maxLength=253
    )
    retention_policy: Retention = described("What becomes of volumes that are not used any more.", Retention)


@dataclass(frozen=True, slots=True)
class TemplateMetadata:
    """What may be added to a pod's metadata."""

    labels: Mapping[str, str] = described("Further labels.", dict)
    annotations: Mapping[str, str] = described("Further annotations.", dict)


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template."""

    metadata: TemplateMetadata = described("Labels and annotations.", TemplateMetadata)
    spec: Mapping[str, Any] = described(
        "Maps are merged by key; containers, volumes, env and mounts by name; other lists are replaced.", dict,
        additionalProperties=None, **{"x-kubernetes-preserve-unknown-fields": True},
    )  # fmt: skip


@rules(
    (
        "self.stateVolume.size == oldSelf.stateVolume.size && has(self.stateVolume.storageClassName) == "
        "has(oldSelf.stateVolume.storageClassName) && (!has(self.stateVolume.storageClassName) || "
        "self.stateVolume.storageClassName == oldSelf.stateVolume.storageClassName)",
        "stateVolume.size and stateVolume.storageClassName are immutable: volumes that exist would keep the old ones",
    ),
)
@dataclass(frozen=True, slots=True)
class Workers:
    """The pods."""

    replicas: int = described("Number of workers (`kubectl scale`).", 1, minimum=0, maximum=1000)
    threads: int = described("Capacity of a worker: how many tasks it processes at a time.", _LAUNCH["threads"],
                             minimum=1, maximum=1000)  # fmt: skip
    resources: Mapping[str, Any] = described(
        "Resources of the worker's container.", dict,
        properties={"requests": QUANTITIES, "limits": QUANTITIES}, additionalProperties=None,
    )  # fmt: skip
    restore_bytes_per_second: int | None = described(
        "The most that a worker reads from changelogs for standbys and warm-ups; no limit if it is not set.",
        _LAUNCH["restore_bytes_per_second"], minimum=1, format="int64",
    )  # fmt: skip
    state_volume: StateVolume = described("The volume of each worker.", StateVolume)
    template: Template = described("A pod template merged over ours.", Template)


@dataclass(frozen=True, slots=True)
class RackAware:
    """Heeding zones (KIP-925, KIP-708). A worker's rack is its pod's label topology.kubernetes.io/zone, which the API
    server sets when the pod is placed (from Kubernetes 1.35 on)."""

    strategy: str = described(
        "How traffic between zones is saved.", _word(RackAwareStrategy.NONE),
        enum=[_word(strategy) for strategy in RackAwareStrategy],
    )  # fmt: skip
    traffic_cost: int | None = described(
        "What a partition that is read from another zone costs; the strategy's own default if it is not set.", None,
        minimum=0, maximum=MAX_COST,
    )  # fmt: skip
    non_overlap_cost: int | None = described(
        "What a task away from where it would be without zones costs; the strategy's own default if it is not set.",
        None, minimum=0, maximum=MAX_COST,
    )  # fmt: skip
    tags: tuple[str, ...] = described(
        "In which labels of their workers' pods the copies of a task should differ: `zone` and `region` for those of "
        "topology.kubernetes.io, any other by its key. Without any, standbys heed none.",
        (), maxItems=MAX_TAGS, **{"x-kubernetes-list-type": "set"},
        items={"type": "string", "minLength": 1, "maxLength": MAX_TAG_KEY_LENGTH, "pattern": r"^[-._/a-zA-Z0-9]+$"},
    )  # fmt: skip


@rules(
    (
        "self.statefulBalance + self.subtopologyBalance > 0 && self.statelessBalance + self.subtopologyBalance > 0",
        "assignment.balanced: subtopologyBalance and one of the other weights may not both be 0, or any worker would "
        "be as good as any other",
    ),
)
@dataclass(frozen=True, slots=True)
class Balanced:
    """Of the strategy Balanced. Only the relation of the weights counts."""

    balance_factor: int = described(
        "How many tasks the worker with the most may be ahead of the one with the least.", _BALANCED.balance_factor,
        minimum=1, maximum=1_000_000,
    )  # fmt: skip
    stateful_balance: int = described(
        "Weight of an even number of stateful tasks.", _hundredths(_BALANCED.stateful_balance), **WEIGHT
    )
    stateless_balance: int = described(
        "Weight of an even number of stateless tasks.", _hundredths(_BALANCED.stateless_balance), **WEIGHT
    )
    subtopology_balance: int = described(
        "Weight of an even spread of each subtopology.", _hundredths(_BALANCED.subtopology_balance), **WEIGHT
    )


@dataclass(frozen=True, slots=True)
class Incremental:
    """Of the strategy Incremental."""

    imbalance_percentage: int = described(
        "How many percent more or less than its share a worker may hold.", _INCREMENTAL.imbalance_percentage,
        minimum=0, maximum=100,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Optimal:
    """Of the strategy Optimal."""

    subtopology_spread: int = described(
        "What one task of a subtopology less above an even share is worth, in thousandths of restoring a task.",
        _OPTIMAL.subtopology_spread, minimum=0, maximum=1_000_000,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where tasks live (KIP-441, KIP-708, KIP-925)."""

    strategy: str = described("How tasks are placed.", _ASSIGNMENT.strategy, enum=sorted(STRATEGIES))
    acceptable_recovery_lag: int = described(
        "A copy is caught up when it is at most so many offsets behind.", _ASSIGNMENT.acceptable_recovery_lag,
        minimum=0, format="int64",
    )  # fmt: skip
    max_warmup_replicas: int = described(
        "How many copies may warm up at once, over the whole group.", _ASSIGNMENT.max_warmup_replicas,
        minimum=1, maximum=100_000,
    )  # fmt: skip
    num_standby_replicas: int = described(
        "Standby copies of every stateful task.", _ASSIGNMENT.num_standby_replicas, minimum=0, maximum=100
    )
    probing_rebalance_interval: str = described(
        "How often placement is thought over when nothing happens.",
        show_duration(_COORDINATOR["probing_interval_ms"]), **DURATION,
    )  # fmt: skip
    rack_aware: RackAware = described("Heeding zones.", RackAware)
    balanced: Balanced = described("Of the strategy Balanced.", Balanced)
    incremental: Incremental = described("Of the strategy Incremental.", Incremental)
    optimal: Optimal = described("Of the strategy Optimal.", Optimal)

    def config(self) -> AssignmentConfig:
        """As the assignor wants it. Raises InvalidConfigError naming the field and the value."""
        racks, balanced = self.rack_aware, self.balanced
        return AssignmentConfig(
            strategy=self.strategy,
            acceptable_recovery_lag=self.acceptable_recovery_lag,
            max_warmup_replicas=self.max_warmup_replicas,
            num_standby_replicas=self.num_standby_replicas,
            rack_aware_strategy=next(each for each in RackAwareStrategy if _word(each) == racks.strategy),
            traffic_cost=racks.traffic_cost,
            non_overlap_cost=racks.non_overlap_cost,
            rack_aware_tags=racks.tags,
            balanced=BalancedParameters(
                balanced.balance_factor,
                balanced.stateful_balance / 100,
                balanced.stateless_balance / 100,
                balanced.subtopology_balance / 100,
            ),
            incremental=IncrementalParameters(self.incremental.imbalance_percentage),
            optimal=OptimalParameters(self.optimal.subtopology_spread),
        )


@rules(
    ("self.applicationId == oldSelf.applicationId", "applicationId is immutable: topics and offsets bear its name"),
    ("self.applicationId != '.' && self.applicationId != '..'", "applicationId can't be part of a topic name"),
)
@dataclass(frozen=True, slots=True)
class StreamsAppSpec:
    """What is wanted of one application."""

    application_id: str = described(
        "Prefix of its internal topics, its consumer group and its transactional ids. Immutable.",
        pattern="^[a-zA-Z0-9._-]+$", minLength=1, maxLength=150,
    )  # fmt: skip
    kafka: Kafka = described("Where its topics are.")
    pipeline: Pipeline = described("What its workers run.")
    workers: Workers = described("Its pods.", Workers)
    assignment: Assignment = described("Where its tasks live.", Assignment)
    rollout: str = described(
        "How a changed pod replaces the present one. Drain: its tasks are handed over before. Restart: it is deleted "
        "and made anew in its place, and its tasks stand still meanwhile.",
        "Drain", enum=["Drain", "Restart"],
    )  # fmt: skip
    deletion_policy: str = described(
        "What becomes of the internal topics and the consumer group when the StreamsApp is deleted; volumes have a "
        "policy of their own.",
        "Retain", enum=["Retain", "Delete"],
    )  # fmt: skip
    paused: bool = described("Look on, but start, drain and delete no workers.", False)

    def coordinator_settings(
        self, namespace: str, name: str, credentials: Mapping[str, str] = NO_CREDENTIALS
    ) -> CoordinatorSettings:
        """What its coordinator is told. `credentials`: the settings of the Secret. Raises ValueError naming the field
        and the value."""
        return CoordinatorSettings(
            application_id=self.application_id,
            bootstrap_servers=self.kafka.bootstrap_servers,
            run_directory=Path(),  # nothing is kept in files here
            namespace=namespace,
            name=name,
            kafka_config=self.kafka.operator_settings(credentials),
            assignment=self.assignment.config(),
            probing_interval_ms=parse_duration(self.assignment.probing_rebalance_interval),
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, as Kubernetes writes them."""

    type: str = described("Its name.")
    status: str = described("True, False or Unknown.", enum=["True", "False", "Unknown"])
    reason: str = described("Why, in one CamelCase word.")
    message: str = described("Why, and what to do, in a sentence.", maxLength=32768)
    last_transition_time: str = described("When the status last changed.", format="date-time")
    observed_generation: int = described("The generation of the spec that it speaks of.", minimum=0)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Whatever may still be held by processes of the application, recorded before the first grant."""

    slots: int = described("Workers 0…slots-1 may hold something.", minimum=0)
    subtopologies: int = described("So many transactional ids a worker.", minimum=0)
    cluster_id: str | None = described("The id of the Kafka cluster on which it runs.", None)
    leader: int = described("The leader epoch under which this was written.", 0, minimum=0)


@dataclass(frozen=True, slots=True)
class SubtopologyStatus:
    """One subtopology."""

    id: int = described("Its number.")
    stateful: bool = described("Has a changelog.")
    current_parallelism: int = described("Number of its tasks.")


@dataclass(frozen=True, slots=True)
class WarmupStatus:
    """One copy that warms up. Numbers are rounded, so that the status is not written for each record."""

    task: str = described("The task.")
    worker: str = described("Where its state is being restored.")
    lag: int | None = described("Offsets left, rounded up to one significant digit.", None)
    eta: str | None = described("Time left, rounded up.", None)


@dataclass(frozen=True, slots=True)
class StreamsAppStatus:
    """What is seen of one application."""

    observed_generation: int = described("The generation that was last looked at.")
    replicas: int = described("Number of worker pods.")
    ready_replicas: int = described("Number of workers that are members of the group.")
    selector: str = described("Label selector of the pods (scale subresource).")
    epoch: str | None = described("Epoch of the group, LEADER.GROUP.", None)
    subtopologies: tuple[SubtopologyStatus, ...] = described("The parts of the topology.", ())
    warmups: tuple[WarmupStatus, ...] = described("Copies that warm up.", ())
    conditions: tuple[Condition, ...] = described(
        "What is true of it.", (), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    )
    internal_topics: tuple[str, ...] = described("Topics that were made for the application.", ())
    footprint: Footprint | None = described("What a restarted coordinator has to fence.", None)
