"""The words agree with the code: the map of the house, the crash windows, the reasons of failed tasks, every link."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice_pipeline.observer import Step
from sluice_protocol.heartbeat import StatusCode

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    level = heading.partition(" ")[0]
    text = (ROOT / page).read_text().partition(f"\n{heading}\n")[2]
    return text.partition(f"\n{level} ")[0]


def mapped() -> set[str]:
    """Every path that the map names."""
    return set(re.findall(r"`([\w./-]*/[\w./-]*)`", section("CONTRIBUTING.md", "## Map of the house")))


def packages() -> Iterator[Path]:
    """The packages of the distribution, and the other folders of Python that are rooms of their own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    yield from (ROOT / name for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    yield from (ROOT / name for name in ("bench", "examples", "tools"))


def rooms() -> set[str]:
    modules = (path for package in packages() for path in package.rglob("*.py"))
    return {f"{path.parent.relative_to(ROOT)}/" for path in modules}


def test_every_room_is_on_the_map():
    assert rooms() - mapped() == set()


def test_nothing_on_the_map_is_missing():
    assert [path for path in sorted(mapped()) if not (ROOT / path).exists()] == []


def test_every_folder_at_the_top_is_on_the_map():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}

    assert folders - {path.partition("/")[0] for path in mapped()} - {"dist"} == set()


def test_every_step_has_its_crash_window():
    rows = re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/exactly-once.md").read_text(), re.MULTILINE)

    assert rows == [step.name for step in Step]


def failure_reasons() -> set[str]:
    """Every CamelCase text that the worker gives as a reason for stopping a task."""
    found = set()
    for path in (ROOT / "pipeline/sluice_pipeline/worker").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^(?:[A-Z][a-z]+){2,}$", node.value))
    return found


def test_every_reason_of_a_failed_task_is_documented():
    text = section("docs/operations.md", "## Failed tasks")

    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == failure_reasons()


def test_every_status_is_documented():
    text = section("docs/operations.md", "## Statuses of the group")

    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == {code.value for code in StatusCode}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [link for link in links if "://" not in link]

    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_readme_shows_the_example_as_it_stands():
    example = (ROOT / "examples/quickstart/pipeline.py").read_text()

    assert f"```python\n{example}```" in (ROOT / "README.md").read_text()
