"""The example scenarios of KIP-441 as tables.

Who runs what, and who stands by, is the KIP's row by row up to the first rebalance. What the KIP only illustrates is
Kafka's: its target is dealt out afresh, so that another standby may be warmed up, and the stable state is another of
those that are as balanced.
"""

from __future__ import annotations

from assignor_groups import Group, a_group


def test_scaling_out_catches_up_first():
    outcome = scaled_out().decide(standbys=1)

    assert outcome.active == {"I1": "0_1 0_3", "I2": "0_2"}
    assert outcome.standby == {"I1": "0_2", "I2": "0_1 0_3"}
    assert outcome.warmup == {"I3": "0_2 0_3"}
    assert outcome.follow_up


def test_scaling_out_is_stable_once_the_newcomer_has_caught_up():
    group = scaled_out()

    outcome = group.once_hot(group.decide(standbys=1)).decide(standbys=1)

    assert outcome.active == {"I1": "0_1", "I2": "0_2", "I3": "0_3"}
    assert outcome.standby == {"I1": "0_3", "I2": "0_1", "I3": "0_2"}
    assert outcome.warmup == {}
    assert not outcome.follow_up


def test_scaling_in_goes_on_at_once_when_standbys_are_in_sync():
    outcome = scaled_in(standby_lag=0).decide(standbys=1)

    assert outcome.active == {"I2": "0_1 0_4", "I3": "0_2 0_3"}
    assert outcome.standby == {"I2": "0_2 0_3", "I3": "0_1 0_4"}
    assert outcome.warmup == {}


def test_scaling_in_leaves_tasks_with_the_caught_up_when_standbys_lag():
    outcome = scaled_in(standby_lag=20_000).decide(standbys=1)

    assert outcome.active == {"I2": "0_1 0_2 0_4", "I3": "0_3"}
    assert outcome.standby == {"I2": "0_3", "I3": "0_1 0_2 0_4"}
    assert outcome.follow_up


def test_scaling_in_is_stable_once_lagging_standbys_have_caught_up():
    group = scaled_in(standby_lag=20_000)

    outcome = group.once_hot(group.decide(standbys=1)).decide(standbys=1)

    assert outcome.active == {"I2": "0_1 0_3", "I3": "0_2 0_4"}
    assert outcome.standby == {"I2": "0_2 0_4", "I3": "0_1 0_3"}
    assert not outcome.follow_up


def scaled_out() -> Group:
    return (
        a_group("0_1 0_2 0_3", workers="I1 I2 I3").running(I1="0_1 0_3", I2="0_2").standing_by(I1="0_2", I2="0_1 0_3")
    )


def scaled_in(standby_lag: int) -> Group:
    """I1, which ran 0_1 and 0_4, is gone."""
    return (
        a_group("0_1 0_2 0_3 0_4", workers="I1 I2 I3")
        .without("I1")
        .running(I2="0_2", I3="0_3")
        .standing_by(standby_lag, I2="0_1 0_4", I3="0_2")
    )
