"""Tags as KIP-708 asks for them: the scenarios with which Kafka tests its own tag-aware standby assignor.

P1 to P9 stand in three zones, three clusters in each: P1 P2 P3 in zone 1, P4 P5 P6 in zone 2, P7 P8 P9 in zone 3, and
P1 P4 P7 in cluster 1, and so on. Two threads each, six tasks, two standbys.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sluice_assignor import AssignmentConfig, GroupState, Task, Wish, Worker, decide
from sluice_assignor.draft import Draft, Numbering
from sluice_assignor.java_order import hash_of_task, hash_set_order
from sluice_assignor.tags import Tags
from sluice_protocol.ids import TaskId

SIX = "0_0 0_1 0_2 1_0 1_1 1_2"
Group = Mapping[str, Mapping[str, str]]

NINE: Group = {
    f"P{3 * zone + cluster + 1}": {"zone": f"zone-{zone + 1}", "cluster": f"cluster-{cluster + 1}"}
    for zone in range(3)
    for cluster in range(3)
}


class Placed:
    """Standbys by task and by worker, for actives that are given."""

    def __init__(
        self, tags: Group, actives: Mapping[str, str], keys: str, *, replicas: int = 2, capacity: int = 2
    ) -> None:
        names = list(tags)
        ids = [TaskId.parse(name) for held in actives.values() for name in held.split()]
        tasks = {id_: Task(id_, stateful=True) for id_ in ids}
        workers = [Worker(UUID(int=number + 1), capacity, tags=tags[name]) for number, name in enumerate(names)]
        self.numbering = Numbering.of(GroupState(tasks, {worker.process_id: worker for worker in workers}))
        self.draft = Draft(self.numbering)
        for name, held in actives.items():
            self.draft.active[names.index(name)].update(
                self.numbering.task_numbers[TaskId.parse(task)] for task in held.split()
            )
        self.tags = Tags(self.numbering, keys.split())
        self.left = self.tags.place_standbys(self._in_the_order_of_kafkas_tests(), replicas, self.draft)
        self.by_worker = {name: len(held) for name, held in zip(names, self.draft.standby, strict=True)}
        self.by_task = {
            str(self.numbering.tasks[task].id): {
                name for name, held in zip(names, self.draft.standby, strict=True) if task in held
            }
            for task in self.numbering.stateful
        }

    def _in_the_order_of_kafkas_tests(self) -> list[int]:
        """Of a HashSet; the assignor itself sorts its tasks."""
        return hash_set_order(self.numbering.stateful, lambda task: hash_of_task(self.numbering.tasks[task].id))


def test_standbys_avoid_the_zone_and_the_cluster_of_the_active():
    placed = Placed(NINE, {"P1": "0_0 1_0", "P4": "0_1 1_1", "P7": "0_2 1_2"}, "zone cluster")

    assert placed.by_worker == {name: 0 if name in {"P1", "P4", "P7"} else 2 for name in NINE}
    assert placed.by_task["0_0"] in ({"P9", "P5"}, {"P6", "P8"})
    assert placed.by_task["1_0"] in ({"P9", "P5"}, {"P6", "P8"})
    assert placed.by_task["0_1"] in ({"P2", "P9"}, {"P3", "P8"})
    assert placed.by_task["0_2"] in ({"P2", "P6"}, {"P3", "P5"})
    assert placed.left == []


def test_standbys_avoid_the_zone_of_actives_that_share_it():
    placed = Placed(NINE, {"P1": "0_0 1_0", "P2": "0_1 1_1", "P3": "0_2 1_2"}, "zone cluster")

    assert placed.by_worker == {name: 0 if name in {"P1", "P2", "P3"} else 2 for name in NINE}
    assert placed.by_task["0_0"] in ({"P5", "P9"}, {"P6", "P8"})
    assert placed.by_task["0_1"] in ({"P4", "P9"}, {"P6", "P7"})
    assert placed.by_task["0_2"] in ({"P5", "P7"}, {"P4", "P8"})


def test_a_tag_without_another_value_left_no_longer_counts():
    """Two clusters in three zones: the second standby can differ in its zone only."""
    tags = {
        f"P{2 * zone + cluster + 1}": {"zone": f"zone-{zone + 1}", "cluster": f"cluster-{cluster + 1}"}
        for zone in range(3)
        for cluster in range(2)
    }

    placed = Placed(tags, {"P1": "0_0"}, "zone cluster")

    assert placed.by_task["0_0"] in ({"P4", "P5"}, {"P4", "P6"}, {"P6", "P3"})
    assert placed.left == []


def test_workers_that_are_full_take_standbys_all_the_same():
    tags = {f"P{number + 1}": {"zone": f"zone-{number % 3 + 1}"} for number in range(6)}
    actives = {f"P{number + 1}": task for number, task in enumerate(SIX.split())}

    placed = Placed(tags, actives, "zone", replicas=1, capacity=1)

    assert set(placed.by_worker.values()) == {1}
    for name, task in actives.items():
        assert {tags[holder]["zone"] for holder in placed.by_task[task]} != {tags[name]["zone"]}


def test_tags_that_are_not_configured_are_ignored():
    tags = {
        "P1": {"zone": "zone-1", "cluster": "a"},
        "P2": {"zone": "zone-2", "cluster": "a"},
        "P3": {"zone": "zone-1", "cluster": "b"},
    }

    assert Placed(tags, {"P1": "0_0"}, "zone", replicas=1).by_task["0_0"] == {"P2"}
    assert Placed(tags, {"P1": "0_0"}, "cluster", replicas=1).by_task["0_0"] == {"P3"}


def test_a_value_of_one_tag_is_not_one_of_another():
    tags = {
        "P1": {"zone": "one", "cluster": "two"},
        "P2": {"zone": "two", "cluster": "one"},
        "P3": {"zone": "one", "cluster": "three"},
    }

    assert Placed(tags, {"P1": "0_0"}, "zone cluster", replicas=1).by_task["0_0"] == {"P2"}


def test_where_all_have_the_same_tags_the_least_loaded_take_the_standbys():
    tags = {name: {"zone": "zone-1"} for name in ("P1", "P2", "P3")}

    placed = Placed(tags, {"P1": "0_0", "P2": "0_1", "P3": ""}, "zone", replicas=1)

    assert placed.by_task["0_1"] == {"P3"}


def test_a_single_worker_has_no_standbys():
    placed = Placed({"P1": {"zone": "zone-1"}}, {"P1": "0_0"}, "zone")

    assert placed.by_task == {"0_0": set()}


def test_standbys_may_go_only_where_all_tags_are_the_same():
    tags = {
        "P1": {"zone": "1", "cluster": "1"},
        "P2": {"zone": "1", "cluster": "1"},
        "P3": {"zone": "1", "cluster": "2"},
    }

    placed = Placed(tags, {"P1": "0_0"}, "zone cluster", replicas=0).tags

    assert placed.are_alike(0, 1)
    assert not placed.are_alike(0, 2)


def test_a_standby_may_move_while_copies_differ_in_as_many_tags():
    placed = Placed(NINE, {"P1": "0_0"}, "zone cluster", replicas=0)
    task = 0
    placed.draft.standby[4].add(task)  # on P5: another zone and another cluster

    assert placed.tags.may_move(placed.draft, 4, 8, task)  # so is P9
    assert not placed.tags.may_move(placed.draft, 4, 1, task)  # P2 is in the zone of the active


def test_copies_that_share_tags_are_told():
    """P2 shares the zone of the active, and P3 its cluster."""
    task = Task(TaskId(0, 0), stateful=True)
    tags = ({"zone": "1", "cluster": "1"}, {"zone": "1", "cluster": "2"}, {"zone": "2", "cluster": "1"})
    workers = [Worker(UUID(int=number), 1, tags=values) for number, values in enumerate(tags)]
    group = GroupState({task.id: task}, {worker.process_id: worker for worker in workers})

    decision = decide(
        group, AssignmentConfig("HighAvailability", num_standby_replicas=1, rack_aware_tags=("zone", "cluster"))
    )

    (told,) = decision.degraded
    assert told.wish is Wish.TAGS
    assert told.why == "there are too few workers that differ in their tags for all copies of task 0_0"
    assert decision.next.standby[workers[1].process_id] == {task.id}
