"""Where the control plane's programs come from, and what is said when they can't be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice_devkit.kubernetes.components import PROGRAMS, programs
from sluice_devkit.kubernetes.go_programs import ComponentsNotBuiltError
from sluice_devkit.kubernetes.toolchain import GoNotFoundError, find_go


def put(directory: Path, names: tuple[str, ...]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


def test_named_assets_are_taken_as_they_are(tmp_path: Path):
    named = put(tmp_path / "assets", PROGRAMS)

    assert programs({"KUBEBUILDER_ASSETS": str(named), "SLUICE_CACHE": str(tmp_path / "cache")}) == named
    assert not (tmp_path / "cache").exists()


def test_a_program_that_the_named_assets_lack_is_named(tmp_path: Path):
    named = put(tmp_path, ("etcd", "kube-apiserver"))

    with pytest.raises(ComponentsNotBuiltError, match=f"{named}, and kube-controller-manager, kubectl are not there"):
        programs({"KUBEBUILDER_ASSETS": str(named)})


def a_go(directory: Path, says: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    executable = directory / "go"
    executable.write_text(f"#!/bin/sh\necho '{says}'\n")
    executable.chmod(0o755)
    return executable


def test_a_go_that_is_new_enough_is_taken_from_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    executable = a_go(tmp_path, "go version go1.26.3 linux/amd64")
    monkeypatch.setenv("PATH", str(tmp_path))

    found = find_go(tmp_path / "wheel")

    assert (found.executable, found.version) == (executable, "go1.26.3")


def test_an_old_go_gives_way_to_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    a_go(tmp_path / "old", "go version go1.25.9 linux/amd64")
    newer = a_go(tmp_path / "wheel" / "go" / "bin", "go version go1.26.6 linux/amd64")
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}:/usr/bin:/bin")

    assert find_go(tmp_path / "wheel").executable == newer


def test_without_any_go_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    with pytest.raises(GoNotFoundError, match=r"needs Go 1\.26 or newer.*No matching.*KUBEBUILDER_ASSETS"):
        find_go(tmp_path / "wheel")
    assert not (tmp_path / "wheel").exists()
