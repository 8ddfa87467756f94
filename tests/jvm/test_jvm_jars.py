"""Jars are resolved once, whole or not at all, and then without network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluice_jvm import jars
from sluice_jvm.cache import cache_directory
from sluice_jvm.jars import Artifact, JarSet, JarsNotResolvedError, resolve

LIBRARY = JarSet("library", "A library", (Artifact("org.example", "library", "1.0"),))
ALONE = JarSet("alone", "A library alone", (Artifact("org.example", "library", "1.0", with_dependencies=False),))
MISSING = JarSet("missing", "A missing one", (Artifact("org.example", "missing", "1.0"),))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of Maven's layout on the disk, where `library` depends on `part`; the cache is empty."""
    root = tmp_path / "repository"
    publish(root, "part", "")
    dependency = "<groupId>org.example</groupId><artifactId>part</artifactId><version>1.0</version>"
    publish(root, "library", f"<dependencies><dependency>{dependency}</dependency></dependencies>")
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="{root.as_uri()}/"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("SLUICE_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    return root


def publish(root: Path, name: str, dependencies: str) -> None:
    directory = root / "org" / "example" / name / "1.0"
    directory.mkdir(parents=True)
    (directory / f"{name}-1.0.jar").write_bytes(b"PK" + name.encode())
    coordinates = f"<groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version>"
    model = f"<project><modelVersion>4.0.0</modelVersion>{coordinates}{dependencies}</project>"
    (directory / f"{name}-1.0.pom").write_text(model)


@pytest.mark.usefixtures("repository")
def test_a_set_holds_its_artifacts_and_what_they_depend_on():
    assert [jar.name for jar in resolve(LIBRARY)] == ["library-1.0.jar", "part-1.0.jar"]
    assert [jar.name for jar in resolve(ALONE)] == ["library-1.0.jar"]


def test_a_cached_set_needs_no_repository(repository, capfd):
    first = resolve(LIBRARY)
    repository.rename(repository.with_name("gone"))
    capfd.readouterr()

    assert resolve(LIBRARY) == first
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("repository")
def test_a_damaged_set_is_fetched_again():
    damaged = resolve(LIBRARY)[0]
    damaged.write_bytes(b"")

    assert resolve(LIBRARY)[0].read_bytes() == b"PKlibrary"


@pytest.mark.usefixtures("repository")
def test_what_is_missing_is_named_and_leaves_nothing_half_done():
    with pytest.raises(
        JarsNotResolvedError,
        match=r"A missing one could not be downloaded: module not found: org\.example#missing;1\.0",
    ):
        resolve(MISSING)

    assert [entry for entry in (cache_directory() / "jars").iterdir() if entry.is_dir()] == []


@pytest.mark.usefixtures("repository")
def test_two_processes_at_once_download_once():
    code = (
        "from sluice_jvm.jars import *; "
        "print(len(resolve(JarSet('library', 'A library', (Artifact('org.example', 'library', '1.0'),)))))"
    )
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outcomes = [process.communicate(timeout=60) for process in both]

    assert [said for said, _ in outcomes] == ["2\n", "2\n"]
    assert sum("A library: ready" in news for _, news in outcomes) == 1


@pytest.mark.usefixtures("repository")
def test_the_marker_lists_what_was_asked_for():
    marker = json.loads((resolve(ALONE)[0].parent / "artifacts.json").read_text())

    assert marker["artifacts"] == ["org.example:library:1.0 alone"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SLUICE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/sluice")),
        ({}, Path.home() / ".cache" / "sluice"),
    ],
)
def test_where_the_cache_is(environment, expected):
    assert cache_directory(environment) == expected


def test_other_artifacts_lie_in_another_directory():
    names = {each.directory_name for each in (LIBRARY, ALONE, *jars.JAR_SETS.values())}
    assert len(names) == 2 + len(jars.JAR_SETS)
