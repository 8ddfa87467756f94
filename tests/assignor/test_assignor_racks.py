"""Racks as KIP-925 asks for them, on the cluster and the groups with which Kafka tests its own rack-aware assignor.

Five brokers stand in five racks, each partition on two of them. P1 to P7 stand in racks 0 to 4, then 0 and 1 again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import pytest

from sluice_assignor import AssignmentConfig, GroupState, RackAwareStrategy, Task, Wish, Worker, decide
from sluice_assignor.draft import Draft, Numbering, Role
from sluice_assignor.racks.actives import save_traffic_of_actives
from sluice_assignor.racks.standbys import save_traffic_of_standbys
from sluice_assignor.racks.traffic import Racks, Weights
from sluice_assignor.tags import Tags
from sluice_protocol.ids import TaskId

MIN_TRAFFIC, BALANCE_SUBTOPOLOGY = RackAwareStrategy.MIN_TRAFFIC, RackAwareStrategy.BALANCE_SUBTOPOLOGY
BOTH = pytest.mark.parametrize("strategy", [MIN_TRAFFIC, BALANCE_SUBTOPOLOGY])

WITH_STATE, WITHOUT_STATE = Weights(traffic=10, non_overlap=1), Weights.without_state()

REPLICAS = {"R0": "r0 r1", "R1": "r1 r2", "R2": "r0 r2", "R3": "r1 r3", "R4": "r3 r4"}
SOURCES = ("R0 R1 R1 R2 R3 R4 R2", "R2 R3 R0 R1", "R4 R3 R4 R0", "R2 R3 R4")
CHANGELOGS = ("R0 R1 R1 R2 R3 R4 R0", "R2 R3 R0 R4", "R1 R2 R4 R3", "R4 R3 R1")
RACK_OF = {"P1": "r0", "P2": "r1", "P3": "r2", "P4": "r3", "P5": "r4", "P6": "r0", "P7": "r1"}


def racks_of(topics: tuple[str, ...], task: TaskId) -> tuple[frozenset[str], ...]:
    return (frozenset(REPLICAS[topics[task.subtopology].split()[task.partition]].split()),)


def numbering_of(actives: Mapping[str, str]) -> Numbering:
    ids = [TaskId.parse(name) for names in actives.values() for name in names.split()]
    tasks = {
        id_: Task(id_, stateful=True, source_racks=racks_of(SOURCES, id_), changelog_racks=racks_of(CHANGELOGS, id_))
        for id_ in ids
    }
    workers = [
        Worker(UUID(int=int(name[1])), capacity=1, rack=RACK_OF[name], tags={"rack": RACK_OF[name]}) for name in actives
    ]
    return Numbering.of(GroupState(tasks, {worker.process_id: worker for worker in workers}))


def fill(role: Role, numbering: Numbering, held: Mapping[str, str]) -> None:
    for worker, names in enumerate(held.values()):
        role[worker].update(numbering.task_numbers[TaskId.parse(name)] for name in names.split())


def shown(role: Role, numbering: Numbering, names: Mapping[str, str]) -> dict[str, str]:
    return {
        name: " ".join(str(numbering.tasks[task].id) for task in sorted(tasks))
        for name, tasks in zip(names, role, strict=True)
    }


def partitions_from_other_racks(role: Role, numbering: Numbering, *, changelogs: bool = False) -> int:
    racks = Racks(numbering)
    return sum(
        (racks.restoring if changelogs else racks.reading)([task], 1)[0][racks.of_worker[worker]]
        for worker, tasks in enumerate(role)
        for task in tasks
    )


class TestActives:
    @pytest.mark.parametrize("weights", [WITH_STATE, WITHOUT_STATE])
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"P1": "0_1 1_1", "P2": "1_0", "P3": "0_0"}, {"P1": "0_0 1_0", "P2": "1_1", "P3": "0_1"}),
            ({"P1": "", "P2": "1_0", "P3": "0_0"}, {"P1": "", "P2": "0_0", "P3": "1_0"}),
            ({"P1": "", "P2": "0_1 1_0", "P3": "0_0"}, {"P1": "", "P2": "0_0 0_1", "P3": "1_0"}),
        ],
    )
    @BOTH
    def test_every_task_reads_in_its_own_rack_where_it_can(self, before, after, strategy, weights):
        numbering, draft = self.running(before)

        save_traffic_of_actives(numbering.stateful, draft, numbering, strategy, weights)

        assert shown(draft.active, numbering, before) == after
        assert partitions_from_other_racks(draft.active, numbering) == 0

    @pytest.mark.parametrize(
        ("strategy", "weights", "after"),
        [
            (MIN_TRAFFIC, WITH_STATE, {"P2": "0_0 1_1", "P5": "0_1"}),
            (MIN_TRAFFIC, WITHOUT_STATE, {"P2": "0_0 1_1", "P5": "0_1"}),
            (BALANCE_SUBTOPOLOGY, WITH_STATE, {"P2": "0_0 1_1", "P5": "0_1"}),
            (BALANCE_SUBTOPOLOGY, WITHOUT_STATE, {"P2": "0_0 0_1", "P5": "1_1"}),
        ],
    )
    def test_workers_keep_their_number_of_tasks_though_it_costs(self, strategy, weights, after):
        before = {"P2": "0_0 1_1", "P5": "0_1"}
        numbering, draft = self.running(before)

        save_traffic_of_actives(numbering.stateful, draft, numbering, strategy, weights)

        assert shown(draft.active, numbering, before) == after
        assert partitions_from_other_racks(draft.active, numbering) == 1

    @BOTH
    @pytest.mark.parametrize("seed", range(2))
    def test_a_big_group_costs_no_more_and_keeps_its_counts(self, strategy, seed):
        numbering, draft = random_group(seed, topics=40, nodes=30, workers=30)
        counts, cost = list(map(len, draft.active)), partitions_from_other_racks(draft.active, numbering)

        save_traffic_of_actives(numbering.stateful, draft, numbering, strategy, WITH_STATE)

        assert list(map(len, draft.active)) == counts
        assert partitions_from_other_racks(draft.active, numbering) <= cost

    def test_nothing_moves_when_traffic_costs_nothing(self):
        numbering, draft = random_group(1, topics=20, nodes=20, workers=30)
        before = draft.copy().active

        save_traffic_of_actives(numbering.stateful, draft, numbering, MIN_TRAFFIC, Weights(0, 1))

        assert draft.active == before

    @staticmethod
    def running(actives: Mapping[str, str]) -> tuple[Numbering, Draft]:
        numbering = numbering_of(actives)
        draft = Draft(numbering)
        fill(draft.active, numbering, actives)
        return numbering, draft


class TestStandbys:
    ACTIVE = {"P1": "0_0", "P2": "0_1", "P3": "1_0", "P4": "1_1", "P6": "0_2", "P7": "1_2"}  # noqa: RUF012
    STANDBY = {  # noqa: RUF012
        "P1": "0_1 1_1", "P2": "0_0 1_0", "P3": "0_0 0_2", "P4": "0_1 1_2", "P6": "1_0 1_2", "P7": "0_2 1_1",
    }  # fmt: skip

    def test_pairs_exchange_what_is_cheaper_elsewhere(self):
        numbering, draft = self.standing_by()
        assert partitions_from_other_racks(draft.standby, numbering, changelogs=True) == 6

        save_traffic_of_standbys(draft, numbering, WITH_STATE, lambda *_: True)

        assert partitions_from_other_racks(draft.standby, numbering, changelogs=True) == 2
        self.assert_two_standbys_each(draft)

    def test_only_copies_that_stay_as_far_apart_are_exchanged(self):
        numbering, draft = self.standing_by()
        tags = Tags(numbering, ["rack"])

        save_traffic_of_standbys(
            draft,
            numbering,
            WITH_STATE,
            lambda source, destination, task: tags.may_move(draft, source, destination, task),
        )

        assert partitions_from_other_racks(draft.standby, numbering, changelogs=True) == 5
        self.assert_two_standbys_each(draft)

    def assert_two_standbys_each(self, draft: Draft) -> None:
        assert [len(tasks) for tasks in draft.standby] == [2] * 6
        assert not any(active & standby for active, standby in zip(draft.active, draft.standby, strict=True))

    def standing_by(self) -> tuple[Numbering, Draft]:
        numbering, draft = TestActives.running(self.ACTIVE)
        fill(draft.standby, numbering, self.STANDBY)
        return numbering, draft


def random_group(seed: int, topics: int, nodes: int, workers: int) -> tuple[Numbering, Draft]:
    """Three partitions a topic, on two brokers each; tasks dealt out at random."""
    rng = random.Random(seed)
    racks = [f"r{number}" for number in range(nodes)]
    tasks = [
        Task(TaskId(topic, partition), stateful=True, source_racks=(frozenset(rng.sample(racks, 2)),))
        for topic in range(topics)
        for partition in range(3)
    ]
    members = [Worker(UUID(int=number + 1), capacity=1, rack=rng.choice(racks)) for number in range(workers)]
    numbering = Numbering.of(
        GroupState({task.id: task for task in tasks}, {member.process_id: member for member in members})
    )
    draft = Draft(numbering)
    for task in numbering.stateful:
        draft.active[rng.randrange(workers)].add(task)
    return numbering, draft


class TestWholeDecision:
    """60 topics of three partitions, some with state; 50 workers of one to three threads; everybody is caught up."""

    @pytest.mark.parametrize("strategy", list(RackAwareStrategy))
    def test_a_big_group_is_balanced_over_threads(self, strategy):
        group = a_big_group(seed=1)

        decision = decide(group, self.config(strategy, standbys=3))

        loads = [len(decision.next.active[id_]) / worker.capacity for id_, worker in group.workers.items()]
        assert max(loads) - min(loads) <= 1
        assert not decision.follow_up
        for task in group.tasks.values():
            copies = [id_ for id_ in group.workers if task.id in decision.next.active[id_] | decision.next.standby[id_]]
            assert len(copies) == (4 if task.stateful else 1)

    def test_the_tasks_of_a_subtopology_are_spread(self):
        group = a_big_group(seed=1)

        active = decide(group, self.config(BALANCE_SUBTOPOLOGY, standbys=3)).next.active

        for tasks in active.values():
            assert max(Counter(task.subtopology for task in tasks).values(), default=0) <= 3

    def test_with_state_nothing_moves_for_traffic_that_costs_nothing(self):
        group = a_big_group(seed=2)
        stateful = {task.id for task in group.tasks.values() if task.stateful}

        with_racks = decide(group, self.config(MIN_TRAFFIC, standbys=1, traffic_cost=0, non_overlap_cost=10)).next
        without = decide(group, self.config(RackAwareStrategy.NONE, standbys=1)).next

        assert with_racks.standby == without.standby
        for id_ in group.workers:
            assert with_racks.active[id_] & stateful == without.active[id_] & stateful

    @staticmethod
    def config(strategy, *, standbys, **costs):
        return AssignmentConfig(
            "HighAvailability", num_standby_replicas=standbys, rack_aware_strategy=strategy, **costs
        )


def a_big_group(seed: int) -> GroupState:
    rng = random.Random(seed)
    racks = [f"r{number}" for number in range(10)]
    tasks = {}
    for topic in range(60):
        stateful = rng.random() < 0.5
        for partition in range(3):
            replicas = (frozenset(rng.sample(racks, 2)),)
            id_ = TaskId(topic, partition)
            tasks[id_] = Task(id_, stateful, source_racks=replicas, changelog_racks=replicas)
    workers = [Worker(UUID(int=number + 1), capacity=rng.randint(1, 3), rack=rng.choice(racks)) for number in range(50)]
    return GroupState(tasks, {worker.process_id: worker for worker in workers})


class TestEnablement:
    """Any rack that is not known switches all of them off, and the decision says so."""

    KNOWN = (frozenset({"r0"}),)

    @BOTH
    def test_known_racks_are_heeded(self, strategy):
        assert self.degraded(strategy) == ()

    def test_changelogs_do_not_count_without_standbys(self):
        assert self.degraded(MIN_TRAFFIC, changelog_racks=(frozenset(),)) == ()

    @pytest.mark.parametrize(
        ("unknown", "why"),
        [
            ({"rack": None}, "worker 00000000-0000-0000-0000-000000000001 has no rack"),
            ({"source_racks": (frozenset(),)}, "the racks of the partitions that task 0_0 reads are not all known"),
            ({"source_racks": ()}, "the racks of the partitions that task 0_0 reads are not all known"),
            (
                {"changelog_racks": (frozenset(),), "standbys": 1},
                "the racks of the changelogs of task 0_0 are not all known",
            ),
        ],
    )
    @BOTH
    def test_what_is_not_known_switches_racks_off_and_is_told(self, strategy, unknown, why):
        assert self.degraded(strategy, **unknown) == ((Wish.RACKS, why),)

    def test_nothing_is_told_when_nobody_asked_for_racks(self):
        assert self.degraded(RackAwareStrategy.NONE, rack=None) == ()

    def degraded(self, strategy, *, rack="r0", source_racks=KNOWN, changelog_racks=KNOWN, standbys=0):
        task = Task(TaskId(0, 0), stateful=True, source_racks=source_racks, changelog_racks=changelog_racks)
        worker = Worker(UUID(int=1), capacity=1, rack=rack)
        group = GroupState({task.id: task}, {worker.process_id: worker})
        config = AssignmentConfig("HighAvailability", rack_aware_strategy=strategy, num_standby_replicas=standbys)
        return tuple((told.wish, told.why) for told in decide(group, config).degraded)
