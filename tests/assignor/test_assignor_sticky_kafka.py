"""Sticky beside Kafka's StickyAssignor on the same groups: as balanced, and never more tasks that leave their worker.

Not the same answer: Kafka's hangs on the order in which its maps were filled.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from uuid import UUID

from assignor_groups import Actives, is_balanced
from bench.peers.kafka_assignor import case_of

from sluice_assignor import AssignmentConfig, Copy, GroupState, Task, Worker, decide
from sluice_assignor.model import RUNNING
from sluice_devkit.kafka_assignor import STICKY
from sluice_devkit.kafka_assignor_process import KafkaAssignorProcess
from sluice_protocol.ids import TaskId

END = 100_000
GROUPS = 400


def test_is_as_balanced_as_kafka_and_moves_no_more(kafka_assignor: KafkaAssignorProcess):
    saved = sum(moves_saved(seed, kafka_assignor) for seed in range(GROUPS))

    assert saved > 0


def moves_saved(seed: int, kafka_assignor: KafkaAssignorProcess) -> int:
    rng = random.Random(seed)
    group = any_group(rng)
    config = AssignmentConfig("Sticky", num_standby_replicas=rng.randint(0, 2))

    ours = decide(group, config).target.active
    answer = kafka_assignor.decide(case_of(group, config, with_roles=True), STICKY)
    kafkas = {UUID(id_): frozenset(map(TaskId.parse, tasks)) for id_, tasks in answer["active"].items()}

    saved = moved(group, kafkas) - moved(group, ours)
    assert is_balanced(group, kafkas), f"seed {seed}: Kafka's own answer is not what balance means here"
    assert is_balanced(group, ours), f"seed {seed}: {ours}"
    assert saved >= 0, f"seed {seed}: {-saved} moves more than Kafka's\nours {ours}\nKafka's {kafkas}"
    return saved


def moved(group: GroupState, active: Actives) -> int:
    return sum(len(worker.active - active[id_]) for id_, worker in group.workers.items())


def any_group(rng: random.Random) -> GroupState:
    """Tasks of up to four subtopologies, run by some of the workers, more or less evenly, with standbys anywhere."""
    tasks = dict(any_tasks(rng))
    ids = [UUID(int=rng.getrandbits(128)) for _ in range(rng.randint(1, 8))]
    owners = ids[: rng.randint(1, len(ids))]
    running = {task: rng.choice([owners[0], rng.choice(owners)]) for task in tasks if rng.random() < 0.85}
    standing_by = {task: rng.sample(ids, rng.randint(0, min(2, len(ids)))) for task in tasks if tasks[task].stateful}
    workers = {}
    for id_ in ids:
        active = frozenset(task for task, owner in running.items() if owner == id_)
        standby = frozenset(task for task, holders in standing_by.items() if id_ in holders) - active
        workers[id_] = Worker(
            id_,
            capacity=rng.choice([1, 1, 2, 3, 4]),
            active=active,
            standby=standby,
            copies={
                task: Copy(RUNNING if task in active else END) for task in active | standby if tasks[task].stateful
            },
        )
    return GroupState(tasks, workers)


def any_tasks(rng: random.Random) -> Iterable[tuple[TaskId, Task]]:
    for subtopology in range(rng.randint(1, 4)):
        stateful = rng.random() < 0.7
        for partition in range(rng.randint(1, 12)):
            id_ = TaskId(subtopology, partition)
            yield id_, Task(id_, stateful, END if stateful else 0)
