"""The scenarios with which Kafka tests its own assignor, as far as they need neither racks nor tags.

P1 < P2 < P3 by process id. A worker that nothing is said of has no copy.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from assignor_groups import Group, Outcome
from assignor_groups import a_group as a_group_without_racks

from sluice_assignor import RackAwareStrategy
from sluice_assignor.model import MAX_LAG

NINE = "0_0 0_1 0_2 1_0 1_1 1_2 2_0 2_1 2_2"
FOUR = "0_0 0_1 1_0 1_1"
AGroup = Callable[..., Group]


@pytest.fixture(params=list(RackAwareStrategy), ids=lambda strategy: strategy.value)
def a_group(request: pytest.FixtureRequest) -> AGroup:
    """Every scenario with every strategy of KIP-925, as in Kafka's own tests."""
    return lambda *tasks, **others: a_group_without_racks(*tasks, **others).in_racks(request.param)


def counts(outcome: Outcome, *roles: str) -> dict[str, int]:
    """How many tasks each worker holds in these roles."""
    held = dict.fromkeys(outcome.names.values(), 0)
    for role in roles:
        for name, tasks in getattr(outcome, role).items():
            held[name] += len(tasks.split())
    return held


def total(held: dict[str, str]) -> int:
    return sum(len(tasks.split()) for tasks in held.values())


def test_actives_stay_while_others_warm_up(a_group: AGroup):
    group = a_group(NINE, workers="P1 P2 P3").running(P1=NINE).standing_by(10, P2=NINE)

    outcome = group.decide(lag=11, warmups=2, standbys=1)

    assert counts(outcome, "active", "standby", "warmup") == {"P1": 9, "P2": 9, "P3": 2}
    assert outcome.follow_up


def test_no_warm_ups_when_any_lag_is_acceptable(a_group: AGroup):
    group = a_group(NINE, workers="P1 P2 P3").running(P1=NINE)

    outcome = group.decide(lag=MAX_LAG, warmups=1, standbys=1)

    assert counts(outcome, "active", "standby") == {"P1": 6, "P2": 6, "P3": 6}
    assert outcome.warmup == {}
    assert not outcome.follow_up


@pytest.mark.parametrize(
    ("tasks", "threads", "actives"),
    [
        (NINE, {"P1": 1, "P2": 1, "P3": 1}, {"P1": 3, "P2": 3, "P3": 3}),
        (NINE, {"P1": 3, "P2": 3, "P3": 3}, {"P1": 3, "P2": 3, "P3": 3}),
        (NINE, {"P1": 9, "P2": 9, "P3": 9}, {"P1": 3, "P2": 3, "P3": 3}),
        (NINE, {"P1": 1, "P2": 1}, {"P1": 5, "P2": 4}),
        ("0_0 0_1", {"P1": 1, "P2": 1, "P3": 1}, {"P1": 1, "P2": 1, "P3": 0}),
        ("0_0 0_1 0_2 1_0 1_1 1_2", {"P1": 1, "P2": 2, "P3": 3}, {"P1": 1, "P2": 2, "P3": 3}),
        (NINE, {"P1": 6, "P2": 3}, {"P1": 6, "P2": 3}),
    ],
)
def test_actives_are_balanced_over_threads(a_group: AGroup, tasks, threads, actives):
    group = a_group(tasks, workers=" ".join(threads)).threads(**threads)
    for name in threads:
        group = group.on_disk(10, **{name: tasks})

    outcome = group.decide(lag=0, warmups=1)

    assert counts(outcome, "active") == actives
    assert outcome.standby == outcome.warmup == {}
    assert not outcome.follow_up


def test_warms_up_even_if_threads_are_balanced_already(a_group: AGroup):
    group = a_group(FOUR, workers="P1 P2 P3").threads(P1=5, P2=5, P3=5).running(P1=FOUR)

    outcome = group.decide(lag=0, warmups=2)

    assert counts(outcome, "active") == {"P1": 4, "P2": 0, "P3": 0}
    assert counts(outcome, "warmup") == {"P1": 0, "P2": 1, "P3": 1}
    assert outcome.follow_up


def test_warmed_up_workers_take_over(a_group: AGroup):
    group = a_group(FOUR, workers="P1 P2 P3").threads(P1=5, P2=5, P3=5).running(P1=FOUR).on_disk(P2="0_1", P3="1_0")

    outcome = group.decide(lag=0, warmups=2)

    assert outcome.active == {"P1": "0_0 1_1", "P2": "0_1", "P3": "1_0"}
    assert outcome.warmup == {}
    assert not outcome.follow_up


def test_new_tasks_are_assigned(a_group: AGroup):
    group = a_group("0_0", stateless="0_1", workers="P1").running(P1="0_0")

    outcome = group.decide(lag=100)

    assert outcome.active == {"P1": "0_0 0_1"}
    assert not outcome.follow_up


def test_a_missing_standby_is_assigned(a_group: AGroup):
    group = a_group("0_0", workers="P1 P2").running(P1="0_0").on_disk(P2="0_0")

    outcome = group.decide(lag=100, standbys=1)

    assert (outcome.active, outcome.standby) == ({"P1": "0_0"}, {"P2": "0_0"})
    assert not outcome.follow_up


def test_the_active_goes_to_a_caught_up_worker_until_its_own_is_ready(a_group: AGroup):
    group = a_group("0_0", stateless="1_0", workers="P1 P2").on_disk(500, P1="0_0").on_disk(0, P2="0_0")

    outcome = group.decide(lag=100)

    assert outcome.active == {"P1": "1_0", "P2": "0_0"}
    assert outcome.warmup == {"P1": "0_0"}
    assert outcome.follow_up


def test_the_active_goes_to_the_most_caught_up_when_nobody_is_caught_up(a_group: AGroup):
    group = a_group("0_0", workers="P1 P2 P3").on_disk(1000, P2="0_0").on_disk(500, P3="0_0")

    outcome = group.decide(lag=100, standbys=1)

    assert outcome.active == {"P3": "0_0"}
    assert counts(outcome, "standby", "warmup") == {"P1": 1, "P2": 1, "P3": 0}
    assert outcome.follow_up


def test_tasks_with_state_get_standbys(a_group: AGroup):
    outcome = a_group("0_0 0_1", workers="P1 P2").running(P1="0_0", P2="0_1").decide(lag=100, standbys=1)

    assert outcome.standby == {"P1": "0_1", "P2": "0_0"}
    assert not outcome.follow_up


def test_tasks_without_state_get_no_standbys(a_group: AGroup):
    outcome = a_group(stateless="0_0 0_1", workers="P1 P2").decide(lag=100, standbys=1)

    assert outcome.active == {"P1": "0_0", "P2": "0_1"}
    assert outcome.standby == {}
    assert not outcome.follow_up


def test_warms_up_even_without_standbys(a_group: AGroup):
    outcome = a_group("0_0 0_1", workers="P1 P2").running(P1="0_0 0_1").decide(lag=100)

    assert (outcome.active, outcome.warmup) == ({"P1": "0_0 0_1"}, {"P2": "0_1"})
    assert outcome.follow_up


def test_warm_ups_are_limited(a_group: AGroup):
    outcome = a_group(FOUR, workers="P1 P2").running(P1=FOUR).decide(lag=100, warmups=1)

    assert total(outcome.warmup) == 1
    assert outcome.follow_up


def test_a_worker_is_never_warm_up_and_standby_of_a_task(a_group: AGroup):
    outcome = a_group(FOUR, workers="P1 P2").running(P1=FOUR).decide(lag=100, warmups=1, standbys=1)

    assert outcome.active == {"P1": FOUR}
    assert counts(outcome, "standby", "warmup") == {"P1": 0, "P2": 4}
    assert outcome.follow_up


def test_a_single_worker_has_no_standbys(a_group: AGroup):
    outcome = a_group("0_0 0_1", workers="P1").running(P1="0_0 0_1").decide(lag=100, standbys=1)

    assert (outcome.active, outcome.standby) == ({"P1": "0_0 0_1"}, {})
    assert not outcome.follow_up


def test_a_task_of_which_nobody_has_a_copy_is_assigned_all_the_same(a_group: AGroup):
    outcome = a_group("0_0", workers="P1").decide(lag=100)

    assert outcome.active == {"P1": "0_0"}
    assert not outcome.follow_up


def test_standbys_do_not_count_against_the_limit_of_warm_ups(a_group: AGroup):
    outcome = a_group(FOUR, workers="P1 P2 P3").running(P1=FOUR).decide(lag=100, warmups=2, standbys=1)

    assert total(outcome.active) == 4
    assert total(outcome.standby) == 4
    assert total(outcome.warmup) <= 2
    assert outcome.follow_up


def test_tasks_without_state_fill_the_gap_that_warm_ups_leave(a_group: AGroup):
    group = a_group(FOUR, stateless="2_0 2_1 2_2", workers="P1 P2 P3").running(P1=FOUR)

    outcome = group.decide(lag=100, warmups=2, standbys=1)

    assert counts(outcome, "active") == {"P1": 4, "P2": 2, "P3": 1}
    assert outcome.follow_up


def test_every_worker_gets_an_active_however_uneven_the_threads(a_group: AGroup):
    group = a_group(NINE, workers="P1 P2 P3").threads(P1=100, P2=50, P3=1).on_disk(P1=NINE, P2=NINE, P3=NINE)

    outcome = group.decide(lag=100, warmups=1)

    assert min(counts(outcome, "active").values()) >= 1
    assert not outcome.follow_up


def test_a_balanced_assignment_is_left_alone(a_group: AGroup):
    group = a_group("0_0 0_1 0_2 0_3", workers="P1 P2").running(P1="0_0 0_2", P2="0_1 0_3")

    outcome = group.decide(lag=100)

    assert outcome.active == {"P1": "0_0 0_2", "P2": "0_1 0_3"}
    assert outcome.moves == []
    assert not outcome.follow_up


@pytest.mark.parametrize(
    ("threads", "actives"),
    [
        ({"P1": 7, "P2": 7, "P3": 7}, {"P1": 3, "P2": 2, "P3": 2}),
        ({"P1": 2, "P2": 2, "P3": 2}, {"P1": 3, "P2": 2, "P3": 2}),
        ({"P1": 1, "P2": 2, "P3": 3}, {"P1": 2, "P2": 2, "P3": 3}),
    ],
)
def test_tasks_without_state_are_balanced_over_threads(a_group: AGroup, threads, actives):
    tasks = "0_0 0_1 0_2 0_3 0_4 0_5 0_6"

    outcome = a_group(stateless=tasks, workers="P1 P2 P3").threads(**threads).running(P1=tasks).decide()

    assert counts(outcome, "active") == actives
    assert not outcome.follow_up


class TestMovements:
    """Three tasks that the target gives to P1, P2 and P3 in turn."""

    TASKS = "0_0 0_1 0_2"

    def test_nothing_moves_when_all_are_caught_up(self, a_group: AGroup):
        group = a_group(self.TASKS, workers="P1 P2 P3").on_disk(P1=self.TASKS, P2=self.TASKS, P3=self.TASKS)

        outcome = group.decide(lag=0)

        assert outcome.active == {"P1": "0_0", "P2": "0_1", "P3": "0_2"}
        assert not outcome.follow_up

    def test_nothing_moves_when_nobody_is_caught_up(self, a_group: AGroup):
        outcome = a_group(self.TASKS, workers="P1 P2 P3").decide(lag=0)

        assert outcome.active == {"P1": "0_0", "P2": "0_1", "P3": "0_2"}
        assert not outcome.follow_up

    def test_tasks_go_to_the_caught_up_while_the_others_warm_up(self, a_group: AGroup):
        outcome = self.crossed(a_group).decide(lag=0, warmups=100)

        assert outcome.active == {"P1": "0_0", "P2": "0_2", "P3": "0_1"}
        assert outcome.warmup == {"P2": "0_1", "P3": "0_2"}
        assert outcome.follow_up

    def test_only_so_many_warm_up_in_the_order_of_tasks(self, a_group: AGroup):
        outcome = self.crossed(a_group).decide(lag=0, warmups=1)

        assert outcome.active == {"P1": "0_0", "P2": "0_2", "P3": "0_1"}
        assert outcome.warmup == {"P2": "0_1"}
        assert outcome.follow_up

    def test_tasks_go_to_the_most_caught_up_when_nobody_is_caught_up(self, a_group: AGroup):
        group = a_group(self.TASKS, workers="P1 P2 P3")
        for lag, holder in ((10_000, {"P1": "0_0", "P2": "0_2", "P3": "0_1"}), (30_000, {"P2": "0_1", "P3": "0_2"})):
            group = group.on_disk(lag, **holder)

        outcome = group.decide(lag=0, warmups=100)

        assert outcome.active == {"P1": "0_0", "P2": "0_2", "P3": "0_1"}
        assert outcome.warmup == {"P2": "0_1", "P3": "0_2"}
        assert outcome.follow_up

    @staticmethod
    def crossed(a_group: AGroup):
        return a_group(TestMovements.TASKS, workers="P1 P2 P3").running(P1="0_0", P2="0_2", P3="0_1")

    def test_a_swap_with_a_standby_takes_no_slot(self, a_group: AGroup):
        """Of 0_0 and 0_2 the target wants the active on P1, of 0_1 on P2, and a standby on the other worker."""
        group = a_group(self.TASKS, workers="P1 P2").running(P2=self.TASKS)

        outcome = group.decide(lag=0, warmups=1, standbys=1)

        assert outcome.active == {"P2": self.TASKS}
        assert (outcome.standby, outcome.warmup) == ({"P1": self.TASKS}, {})
        assert outcome.follow_up
