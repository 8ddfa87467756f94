"""Every reason that a condition can give: what it means, and what to do. `docs/conditions.md` is this table."""

from __future__ import annotations

from enum import Enum

NOTHING = "Nothing."


class Reason(Enum):
    """Under the condition whose word it is; Ready repeats those of others that stand in its way."""

    def __init__(self, condition: str, meaning: str, remedy: str = NOTHING) -> None:
        self.condition = condition
        self.meaning = meaning
        self.remedy = remedy

    @property
    def word(self) -> str:
        """As the API has it."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    ALL_TASKS_RUNNING = "Ready", "Every task runs."
    TASKS_NOT_RUNNING = (
        "Ready", "Tasks have no worker yet, or restore their state.",
        "Wait; if it lasts, look at WarmingUp and at the workers' logs.",
    )  # fmt: skip
    SCALED_TO_ZERO = "Ready", "No worker is wanted.", "`kubectl scale` it up to process records."
    DELETING = "Ready", "The StreamsApp is being deleted, and its workers end.", "Wait."
    TOPICS_NOT_DELETED = (
        "Ready", "The StreamsApp is being deleted, and its internal topics and consumer group can't be.",
        "See the message. 5 minutes after its deletion was asked for it goes without them.",
    )  # fmt: skip
    INVALID_SPEC = (
        "Ready", "The operator can't read the spec, or two of its fields contradict each other.",
        "Change the field that the message names; apply the CRD of the operator's version.",
    )  # fmt: skip
    APPLICATION_ID_TAKEN = (
        "Ready", "Another StreamsApp has the applicationId on the same Kafka, by whatever address.",
        "Give this one another applicationId, or delete the one that the message names.",
    )  # fmt: skip
    SECRET_NOT_FOUND = (
        "Ready", "The Secret of spec.kafka.secretRef is not there. Workers that run go on.",
        "Create the Secret in the StreamsApp's namespace.",
    )  # fmt: skip
    SECRET_KEY_MISSING = (
        "Ready", "The Secret of spec.kafka.secretRef lacks a key that the spec names. Workers that run go on.",
        "Add the key, or correct spec.kafka.secretRef.settings.",
    )  # fmt: skip
    INVALID_KAFKA_CONFIG = (
        "Ready", "librdkafka refuses what spec.kafka.config and the Secret of spec.kafka.secretRef say. The group and "
        "the workers that run go on with the settings that they have.",
        "Correct the setting that the message names.",
    )  # fmt: skip
    TEMPLATE_NOT_ALLOWED = (
        "Ready", "spec.workers.template sets what the operator owns.",
        "Take the field that the message names out of the template.",
    )  # fmt: skip
    PODS_REFUSED = (
        "Ready", "The API refuses a pod, a volume claim, the Service or the disruption budget: admission, quota, "
        "rights, or a name that is taken.",
        "Do what the message says; the operator tries again by itself.",
    )  # fmt: skip
    IMAGE_NOT_PULLED = (
        "Ready", "The image of a worker can't be pulled.",
        "Correct spec.pipeline.image, or give the template its imagePullSecrets.",
    )  # fmt: skip
    WORKER_CRASHING = (
        "Ready", "A worker ends again and again. The message has its last words.",
        "Mend the pipeline or its settings; a changed spec replaces the worker at once.",
    )  # fmt: skip
    WORKER_NOT_ADMITTED = (
        "Ready", "The coordinator refuses what a worker says: it is of another version, or its pipeline can't share "
        "tasks with the one that runs.",
        "Use an image of the operator's version; give an incompatible pipeline an applicationId of its own.",
    )  # fmt: skip
    WORKER_UNSCHEDULABLE = (
        "Ready", "There is no node for a worker.", "Add nodes, lower spec.workers.resources, or free its volume.",
    )  # fmt: skip
    WORKERS_FAILING = (
        "Ready", "The node can't start a worker's container.", "See the message and the events of the pod.",
    )  # fmt: skip
    TASKS_FAILED = (
        "Ready", "A task has stopped at a record on which the pipeline fails.",
        "Mend the pipeline or the record, then let the tasks try again (`sluice resume NAME`).",
    )  # fmt: skip

    KAFKA_ANSWERS = "KafkaReachable", "Kafka answers."
    NOT_ASKED = "KafkaReachable", "No coordinator runs for the application (yet)."
    NOT_ANSWERED_YET = "KafkaReachable", "Kafka has been asked and has not answered yet.", "Wait."
    KAFKA_UNREACHABLE = (
        "KafkaReachable", "Kafka does not answer. Workers that run go on as far as they can.",
        "Correct spec.kafka.bootstrapServers, or see to the brokers and to the network.",
    )  # fmt: skip
    KAFKA_REFUSED = (
        "KafkaReachable", "Kafka answers, and refuses the credentials or the right to use it, or TLS with it fails.",
        "Correct spec.kafka.config and the Secret of spec.kafka.secretRef, or give the user its rights.",
    )  # fmt: skip

    KAFKA_CLUSTER_CHANGED = (
        "KafkaReachable", "Kafka answers, and it is another cluster than the one on which the application has run: its "
        "offsets, topics and transactions are there. No pod is created, drained or deleted; workers that run go on.",
        "Point spec.kafka.bootstrapServers back; or delete the StreamsApp and create it again, to begin anew there.",
    )  # fmt: skip

    TOPICS_FIT = "TopologyValid", "The topics that the pipeline needs are there."
    NO_WORKER_YET = (
        "TopologyValid", "No worker has joined the group yet and said what its pipeline needs.",
        "Wait; if it lasts, look at the pods' events and logs.",
    )  # fmt: skip
    MISSING_SOURCE_TOPICS = "TopologyValid", "A topic that the pipeline reads does not exist.", "Create it."
    INCORRECTLY_PARTITIONED_TOPICS = (
        "TopologyValid", "Topics that belong together have different numbers of partitions.",
        "Give them the numbers that the message names; `sluice reset` deletes internal topics.",
    )  # fmt: skip
    MISSING_INTERNAL_TOPICS = (
        "TopologyValid", "An internal topic can't be created or looked at.", "See the message: rights, or brokers.",
    )  # fmt: skip

    TASKS_IN_PLACE = "Rebalancing", "Every task is where it should be."
    NO_TASKS = "Rebalancing", "There are no tasks to move yet."
    ADOPTING = "Rebalancing", "The coordinator has restarted and hears what each worker holds.", "Wait."
    TASKS_MOVING = "Rebalancing", "Tasks are handed over, or their copies warm up."

    NO_WARMUPS = "WarmingUp", "No copy warms up."
    RESTORING = "WarmingUp", "Copies are made so that tasks can move to them."

    NOBODY_LEAVES = "Draining", "No worker is being drained."
    NODES_NOT_READABLE = (
        "Draining", "No worker is being drained, and the operator would not see that a node is cordoned.",
        "Let it get, list and watch nodes; or annotate pods with sluice.dev/replace=true before you drain their node.",
    )  # fmt: skip
    HANDING_OVER = "Draining", "Workers hand their tasks over before their pods are deleted."

    ACTING = "Paused", "The operator acts."
    SPEC_PAUSED = "Paused", "spec.paused is true.", "Set it to false when the operator may act again."
