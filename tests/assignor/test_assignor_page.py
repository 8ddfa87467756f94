"""docs/assignment.md: what it names is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from sluice_assignor.strategies import STRATEGIES

PAGE = (Path(__file__).parents[2] / "docs" / "assignment.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(sluice_assignor\.[\w.]+)`", PAGE))))
def test_every_function_on_the_page_exists(name: str):
    module, _, attribute = name.rpartition(".")

    assert hasattr(import_module(module), attribute)


def test_every_strategy_has_a_row_that_says_when_to_take_it():
    rows = PAGE.split("## Which strategy when")[1].split("##")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == set(STRATEGIES)
