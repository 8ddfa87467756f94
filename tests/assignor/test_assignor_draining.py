"""A draining worker keeps what it holds until it is hot elsewhere, and gets nothing new. Kafka can't say it."""

from __future__ import annotations

from assignor_groups import a_group


def test_keeps_its_actives_until_the_destinations_have_caught_up():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0", b="0_1").draining("b")

    outcome = group.decide()

    assert outcome.active == {"a": "0_0", "b": "0_1"}
    assert outcome.warmup == {"a": "0_1"}
    assert outcome.target == {"a": "0_0 0_1"}
    assert outcome.moves == ["0_1 b to a WARMING"]
    assert outcome.follow_up


def test_hands_over_once_the_destination_is_hot():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0", b="0_1").warming(0, a="0_1").draining("b")

    outcome = group.decide()

    assert outcome.active == {"a": "0_0 0_1"}
    assert outcome.moves == ["0_1 b to a DRAINING"]
    assert not outcome.follow_up


def test_hands_over_to_any_caught_up_worker_rather_than_wait_for_its_place_in_the_target():
    group = a_group("0_0 0_1", workers="a b c").running(a="0_0", c="0_1").on_disk(5, a="0_1").draining("c")

    outcome = group.decide()

    assert outcome.active == {"a": "0_0 0_1"}
    assert outcome.warmup == {"b": "0_1"}
    assert outcome.moves == ["0_1 c to a DRAINING", "0_1 a to b WARMING"]


def test_the_limit_of_warm_ups_applies():
    group = a_group("0_0 0_1 0_2", workers="a b").running(b="0_0 0_1 0_2").draining("b")

    outcome = group.decide(warmups=2)

    assert outcome.active == {"b": "0_0 0_1 0_2"}
    assert outcome.warmup == {"a": "0_0 0_1"}
    assert outcome.moves == ["0_0 b to a WARMING", "0_1 b to a WARMING", "0_2 b to a WAITING_FOR_SLOT"]


def test_its_standby_takes_over_when_nobody_else_is_caught_up():
    group = a_group("0_0", workers="a b").standing_by(b="0_0").draining("b")

    outcome = group.decide()

    assert outcome.active == {"b": "0_0"}
    assert outcome.warmup == {"a": "0_0"}


def test_does_not_take_up_again_what_it_has_let_go():
    outcome = a_group("0_0", workers="a b").on_disk(b="0_0").draining("b").decide()

    assert outcome.active == {"a": "0_0"}
    assert not outcome.follow_up


def test_keeps_its_standbys_until_others_have_caught_up():
    group = a_group("0_0", workers="a b c").running(a="0_0").standing_by(c="0_0").draining("c")

    outcome = group.decide(standbys=1)

    assert outcome.standby == {"c": "0_0"}
    assert outcome.warmup == {"b": "0_0"}
    assert group.once_hot(outcome).decide(standbys=1).standby == {"b": "0_0"}


def test_lets_tasks_without_state_go_at_once():
    group = a_group(stateless="0_0 0_1", workers="a b").running(a="0_0", b="0_1").draining("b")

    outcome = group.decide()

    assert outcome.active == {"a": "0_0 0_1"}
    assert outcome.moves == ["0_1 b to a DRAINING"]


def test_everything_stays_when_all_workers_drain():
    group = (
        a_group("0_0 0_1", stateless="1_0", workers="a b")
        .running(a="0_0 0_1 1_0")
        .warming(50_000, b="0_1")
        .draining("a", "b")
    )

    outcome = group.decide()

    assert outcome.active == {"a": "0_0 0_1 1_0"}
    assert outcome.warmup == {"b": "0_1"}
    assert outcome.moves == []
    assert not outcome.follow_up


def test_nothing_new_is_given_out_when_all_workers_drain():
    outcome = a_group("0_0 0_1", workers="a").running(a="0_0").draining("a").decide()

    assert outcome.active == {"a": "0_0"}
