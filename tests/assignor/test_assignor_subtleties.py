"""What decides in Kafka and is written in no KIP: the slots of its queues, the order of its maps, its doubles.

Each trap is a group on which an assignor that leaves the subtlety out differs from Kafka.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from assignor_cases import Case, our_answer, read_golden

from sluice_assignor import AssignmentConfig, GroupState, Task, Worker, decide
from sluice_assignor.racks.spread import spread
from sluice_devkit.kafka_assignor_process import KafkaAssignorProcess
from sluice_protocol.ids import TaskId


def trapped_by(subtlety: str) -> list[Case]:
    return [case for case in read_golden("traps") if subtlety in case["input"]["trap"]]


@pytest.mark.parametrize(
    ("subtlety", "cases"),
    [
        ("stable queue", 29),  # several workers late with the same standby: the slots say who is first
        ("least loaded", 35),  # a load that changed inside the queue, which then does not give the least loaded
        ("no hash order", 10),  # those that were passed go back in the order of a HashSet
    ],
)
def test_queues_decide_as_kafkas_do(subtlety: str, cases: int):
    traps = trapped_by(subtlety)

    assert len(traps) == cases
    for case in traps:
        assert our_answer(case["input"]) == case["expected"]


def test_process_ids_that_begin_with_8_to_f_come_first():
    low, high = UUID("70000000-0000-0000-0000-000000000000"), UUID("80000000-0000-0000-0000-000000000000")
    task = Task(TaskId(0, 0), stateful=True)
    group = GroupState({task.id: task}, {id_: Worker(id_, capacity=1) for id_ in (low, high)})

    assert decide(group, AssignmentConfig("HighAvailability")).next.active[high] == {task.id}


def test_a_share_is_rounded_up_from_doubles():
    """14 of 50 tasks, of a subtopology with 25, are 7; in doubles they are 7.000000000000001, and so 8 are allowed."""
    groups, holders = [0] * 25 + [1] * 25, [0] * 14 + [1] * 36

    placed, room = spread(groups, holders, workers=2)

    assert room[0][0] + placed[:25].count(0) == 8


class TestTreeBins:
    """The one class that is not the same: a HashMap whose bins have become trees.

    Kafka places those standbys last for which no worker differs in all tags, in the order of a HashMap of tasks. The
    hash of a task makes (S, P) and (S - 1, P + 31) collide, and from nine subtopologies with more than 248 partitions
    on a bin holds enough of them to become a red-black tree, which is walked in another order. Then standbys may stand
    on other workers than Kafka's, as many on each, and actives are the same.
    """

    TAGS = (("1", "1"), ("1", "2"), ("2", "1"), ("1", "3"), ("3", "1"))

    def test_eight_subtopologies_are_placed_as_by_kafka(self, kafka_assignor: KafkaAssignorProcess):
        case = self.a_case(subtopologies=8)

        assert our_answer(case) == kafka_assignor.decide(case)

    def test_nine_differ_in_the_workers_of_some_standbys_only(self, kafka_assignor: KafkaAssignorProcess):
        case = self.a_case(subtopologies=9)
        ours, kafkas = our_answer(case), kafka_assignor.decide(case)

        assert ours["standby"] != kafkas["standby"]
        assert (ours["active"], ours["probing"]) == (kafkas["active"], kafkas["probing"])
        assert {id_: len(tasks) for id_, tasks in ours["standby"].items()} == {
            id_: len(tasks) for id_, tasks in kafkas["standby"].items()
        }

    def a_case(self, subtopologies: int) -> Case:
        clients = [
            {
                "id": str(UUID(int=number + 1)),
                "capacity": 1 + number % 2,
                "rack": "rack",
                "tags": {"zone": zone, "cluster": cluster},
                "offsets": {},
            }
            for number, (zone, cluster) in enumerate(self.TAGS)
        ]
        task = {"end": 100, "src": [["rack"]], "cl": [["rack"]]}
        return {
            "clients": clients,
            "tasks": {f"{number}_{partition}": task for number in range(subtopologies) for partition in range(300)},
            "config": {
                "acceptableRecoveryLag": 0,
                "maxWarmupReplicas": 2,
                "numStandbyReplicas": 2,
                "tags": ["zone", "cluster"],
                "strategy": "none",
                "trafficCost": None,
                "nonOverlapCost": None,
            },
        }
