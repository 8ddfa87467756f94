"""Without the ends of the changelogs nobody knows who is caught up, so nothing moves."""

from __future__ import annotations

from assignor_groups import a_group


def test_every_role_is_kept():
    group = (
        a_group("0_0 0_1 0_2", workers="a b")
        .running(a="0_0 0_1 0_2")
        .standing_by(b="0_0")
        .warming(0, b="0_1")
        .with_unknown_ends()
    )

    outcome = group.decide()

    assert outcome.active == {"a": "0_0 0_1 0_2"}
    assert (outcome.standby, outcome.warmup) == ({"b": "0_0"}, {"b": "0_1"})
    assert outcome.moves == []
    assert outcome.follow_up


def test_tasks_that_nobody_runs_are_balanced():
    group = a_group("0_0 0_1", stateless="1_0 1_1", workers="a b").running(a="0_0").with_unknown_ends()

    outcome = group.decide()

    assert outcome.active == {"a": "0_0 1_0", "b": "0_1 1_1"}
    assert outcome.moves == ["0_1 - to b UNASSIGNED", "1_0 - to a UNASSIGNED", "1_1 - to b UNASSIGNED"]


def test_a_task_that_nobody_runs_goes_to_the_copy_that_has_read_furthest():
    group = a_group("0_0", workers="a b c").on_disk(50_000, a="0_0").standing_by(10_000, c="0_0").with_unknown_ends()

    outcome = group.decide(standbys=1)

    assert outcome.active == {"c": "0_0"}
    assert outcome.standby == {}


def test_a_draining_worker_keeps_its_tasks_and_gets_no_others():
    group = a_group("0_0 0_1", workers="a b").running(b="0_0").on_disk(b="0_1").draining("b").with_unknown_ends()

    assert group.decide().active == {"a": "0_1", "b": "0_0"}


def test_no_more_warm_ups_are_kept_than_the_limit_says():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1").warming(0, b="0_0 0_1").with_unknown_ends()

    assert group.decide(warmups=1).warmup == {"b": "0_0"}
