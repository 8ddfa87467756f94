"""How many events an application may be worth."""

from __future__ import annotations

from sluice_operator.event_limits import BURST, SECONDS_EACH, EventLimit


def test_many_events_at_once_and_few_in_the_long_run():
    limit = EventLimit()

    assert [limit.allows(0.0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert not limit.allows(SECONDS_EACH - 1)
    assert limit.allows(SECONDS_EACH)
    assert not limit.allows(SECONDS_EACH)


def test_a_long_silence_is_worth_no_more_than_a_burst():
    limit = EventLimit()
    limit.allows(0.0)

    assert sum(limit.allows(1e9) for _ in range(2 * BURST)) == BURST
