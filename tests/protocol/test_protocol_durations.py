import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_protocol.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("3s", 3_000), ("10m", 600_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0s", 0)],
)
def test_durations_are_numbers_with_units(text: str, milliseconds: int):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "3", "s", "1.5s", "-3s", "3 s", "3S", "10min", "٣s"])
def test_anything_else_is_refused_by_name(text: str):
    with pytest.raises(ValueError, match="is not a duration") as refusal:
        parse_duration(text)
    assert repr(text) in str(refusal.value)


@given(st.integers(0, 10**12))
def test_what_is_shown_reads_back(milliseconds: int):
    assert parse_duration(show_duration(milliseconds)) == milliseconds
