from sluice_cli.local.backoff import Backoff

BACKOFF = Backoff(first_ms=1_000, cap_ms=30_000, forgive_after_ms=60_000)


def test_the_first_restart_is_immediate_then_pauses_double_up_to_the_cap():
    assert [BACKOFF.delay_ms(failures) for failures in range(1, 9)] == [
        0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
    ]  # fmt: skip


def test_many_failures_stay_at_the_cap():
    assert BACKOFF.delay_ms(10_000) == 30_000


def test_a_process_that_lived_long_enough_is_forgiven():
    assert BACKOFF.failures_after(5, lived_ms=59_999) == 6
    assert BACKOFF.failures_after(5, lived_ms=60_000) == 1
