"""The way to a target under a clock: Kafka's pace, and what the rules of the clock are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assignor_groups import END, a_group, parse
from assignor_scalings import MINUTE_MS, SCALINGS, Scaling

from sluice_assignor import (
    AssignmentConfig,
    Cause,
    Drain,
    Leave,
    Pace,
    simulate,
)

CONFIG = AssignmentConfig("HighAvailability")
RATE = 10_000
"""Offsets a second: a copy from scratch is hot after 9 s, and complete after 10 s."""


@pytest.mark.parametrize("row", SCALINGS, ids=str)
def test_high_availability_takes_as_long_as_kafka(row: Scaling):
    probing = row.run("HighAvailability", step_when_warm=False)
    warm = row.run("HighAvailability", step_when_warm=True)

    assert (len(probing.moved), probing.hand_overs, len(probing.stood_still_ms)) == (
        row.moved,
        row.hand_overs,
        row.cold,
    )
    assert (probing.follow_ups, probing.converged_at_ms) == (row.probes, row.probes * 10 * MINUTE_MS)
    assert warm.converged_at_ms == row.warm_minutes * MINUTE_MS


def test_a_hot_copy_takes_over_at_once_when_steps_wait_for_nothing_else():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1")

    timeline = simulate(group.state, CONFIG, Pace(RATE))

    assert [(step.at_ms, step.cause) for step in timeline.steps] == [(0, Cause.MEMBERSHIP), (9000, Cause.WARM)]
    assert timeline.steps[1].hand_overs == tuple(parse("0_1"))


def test_a_hot_copy_waits_for_the_probing_interval_as_in_kafka():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1")

    timeline = simulate(group.state, CONFIG, Pace(RATE, step_when_warm=False, probing_interval_ms=60_000))

    assert [(step.at_ms, step.cause) for step in timeline.steps] == [(0, Cause.MEMBERSHIP), (60_000, Cause.PROBE)]
    assert timeline.converged_at_ms == 60_000


def test_a_planned_change_leaves_no_task_without_an_active():
    group = a_group("0_0 0_1 0_2 0_3", workers="a b").running(a="0_0 0_1", b="0_2 0_3")

    timeline = simulate(group.state, CONFIG, Pace(RATE), [Drain(5000, group.ids["b"])])

    assert timeline.stood_still_ms == {}
    assert timeline.final.workers[group.ids["a"]].active == frozenset(parse("0_0 0_1 0_2 0_3"))
    assert not timeline.final.workers[group.ids["b"]].active


def test_tasks_of_a_worker_that_is_lost_stand_still_until_restored():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0", b="0_1")

    timeline = simulate(group.state, CONFIG, Pace(RATE), [Leave(5000, group.ids["b"])])

    assert timeline.stood_still_ms == {parse("0_1")[0]: 9000}
    assert timeline.converged_at_ms == 5000 + 9000


def test_standbys_that_restore_count_as_not_converged():
    group = a_group("0_0", workers="a b").running(a="0_0")

    timeline = simulate(group.state, AssignmentConfig(acceptable_recovery_lag=0, num_standby_replicas=1), Pace(RATE))

    assert (len(timeline.steps), timeline.converged_at_ms) == (1, 10_000)


@pytest.mark.parametrize(("cleanup_delay_ms", "restored"), [(60_000, 0), (10_000, END)])
def test_a_copy_that_nobody_holds_is_of_use_until_it_is_cleaned_up(cleanup_delay_ms: int, restored: int):
    """When the standby on b is lost, c takes its place, and still has a copy or begins anew."""
    group = a_group("0_0", workers="a b c").running(a="0_0").standing_by(b="0_0").on_disk(c="0_0")
    config = AssignmentConfig(acceptable_recovery_lag=0, num_standby_replicas=1)

    timeline = simulate(
        group.state, config, Pace(2 * END, cleanup_delay_ms=cleanup_delay_ms), [Leave(20_000, group.ids["b"])]
    )

    assert timeline.restored_offsets == restored


def test_what_is_restored_is_counted():
    group = a_group("0_0", workers="a b").running(a="0_0")

    timeline = simulate(group.state, AssignmentConfig(acceptable_recovery_lag=0, num_standby_replicas=1), Pace(2 * END))

    assert (timeline.restored_offsets, timeline.restored_bytes) == (END, None)


def test_bytes_are_counted_where_sizes_are_known():
    group = a_group("0_0", workers="a b").running(a="0_0").state
    sized = replace(group, tasks={id_: replace(task, state_bytes=5_000_000) for id_, task in group.tasks.items()})

    timeline = simulate(sized, AssignmentConfig(acceptable_recovery_lag=0, num_standby_replicas=1), Pace(2 * END))

    assert timeline.restored_bytes == 5_000_000


def test_it_ends_at_the_horizon_when_nothing_converges():
    group = a_group("0_0 0_1", workers="a b").running(a="0_0 0_1")

    timeline = simulate(group.state, CONFIG, Pace(restore_rate=1, horizon_ms=60_000))

    assert timeline.converged_at_ms is None
    assert timeline.restored_offsets == 60


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("restore_rate", 0, "restoreRate is 0; it must be at least 1"),
        ("probing_interval_ms", 0, "probingRebalanceInterval is 0"),
        ("cleanup_delay_ms", -1, "stateCleanupDelay is -1"),
        ("horizon_ms", -1, "horizon is -1"),
    ],
)
def test_a_pace_that_is_none_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        Pace(**{"restore_rate": 1, field: value})


def test_an_event_for_a_worker_that_is_not_there_is_refused():
    group = a_group("0_0", workers="a")

    with pytest.raises(ValueError, match="names a worker that is not in the group at 7 ms"):
        simulate(group.state, CONFIG, Pace(RATE), [Leave(7, a_group(workers="a b").ids["b"])])


def test_an_event_before_the_beginning_is_refused():
    group = a_group("0_0", workers="a")

    with pytest.raises(ValueError, match="is at -1 ms; the simulation begins at 0"):
        simulate(group.state, CONFIG, Pace(RATE), [Drain(-1, group.ids["a"])])
