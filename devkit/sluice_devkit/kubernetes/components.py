"""The programs of a control plane: etcd, kube-apiserver, kube-controller-manager.

$KUBEBUILDER_ASSETS names a directory that has them, as for every other Kubernetes test kit. Otherwise they are built
once per machine from the Go modules that `go/go.mod` pins and `go/go.sum` checks, and kept outside the tree under a
name that changes with these and with the Go. They appear there whole or not at all. An interrupted build goes on where
it was, because Go keeps what it has compiled; when all is done, only the programs stay.

Rejected: downloading releases. They come from hosts that a machine behind a mirror of package registries can't reach;
Go modules come from wherever GOPROXY points.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice_devkit.kubernetes.toolchain import Go, GoNotFoundError, find_go
from sluice_jvm.cache import cache_directory, locked

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
PROGRAMS = (ETCD, API_SERVER, CONTROLLER_MANAGER)

_MODULE = Path(__file__).with_name("go")
_NAMES_IN_GO = {"server": ETCD}
_VERSION_PACKAGE = "k8s.io/component-base/version"
_SECONDS_BETWEEN_NEWS = 10.0


class ComponentsNotBuiltError(RuntimeError):
    """The programs of the control plane are not here, and building them failed."""


def programs(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory with the programs, built first where they are not here yet: 5 to 7 minutes of two cores.

    Raises ComponentsNotBuiltError, GoNotFoundError. Two processes that ask at once build once.
    """
    if named := environment.get(ASSETS_VARIABLE):
        return _checked(Path(named))
    base = cache_directory(environment) / "kubernetes"
    if (kept := _kept(base)) is not None:
        return kept
    with locked(base):
        return _kept(base) or _build(base)


def kubernetes_version() -> str:
    """The version of Kubernetes that is pinned, as v1.36.1."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (_MODULE / "go.mod").read_text())
    if found is None:
        raise ComponentsNotBuiltError(f"{_MODULE / 'go.mod'} does not name the version of k8s.io/kubernetes.")
    return found.group(1)


def _checked(directory: Path) -> Path:
    missing = [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]
    if missing:
        raise ComponentsNotBuiltError(
            f"{ASSETS_VARIABLE} is {directory}, where {', '.join(missing)} is missing. Put it there, or unset the "
            "variable and the programs are built."
        )
    return directory


def _kept(base: Path) -> Path | None:
    """What an earlier build has left, by whichever Go."""
    return next((found for found in sorted(base.glob(f"{_pinned()}-go*")) if found.is_dir()), None)


def _pinned() -> str:
    digest = hashlib.sha256(b"".join((_MODULE / name).read_bytes() for name in ("go.mod", "go.sum")))
    return f"{kubernetes_version()}-{digest.hexdigest()[:12]}"


def _build(base: Path) -> Path:
    progress = _Progress(f"Kubernetes {kubernetes_version()}")
    progress.say("building it, once for this machine")
    go = find_go(base / "toolchain")
    workshop = base / "workshop"
    with tempfile.TemporaryDirectory(prefix=".build-", dir=base) as temporary:
        target = Path(temporary, "programs")
        log = base / "build.log"
        log.write_text("")
        packages = _download(go, workshop, log, progress)
        _compile(go, workshop, log, progress, packages, target)
        for name_in_go, name in _NAMES_IN_GO.items():
            (target / name_in_go).rename(target / name)
        directory = base / f"{_pinned()}-{go.version}"
        target.rename(directory)
    for leftover in (workshop, base / "toolchain"):
        shutil.rmtree(leftover, ignore_errors=True)
    progress.say("ready")
    return directory


@dataclass
class _Progress:
    """News for people, a line every few seconds at most."""

    title: str
    started: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        self.told = time.monotonic()
        sys.stderr.write(f"{self.title}: {line}, {self.told - self.started:.0f} s\n")
        sys.stderr.flush()

    def say_now_and_then(self, line: str) -> None:
        if time.monotonic() - self.told > _SECONDS_BETWEEN_NEWS:
            self.say(line)


def _download(go: Go, workshop: Path, log: Path, progress: _Progress) -> int:
    """Fetch the modules that the programs need; returns of how many packages the programs are made."""
    packages = modules = 0
    for line in _run(go, ["list", "-deps", "tool"], workshop, log):
        downloading = line.startswith("go: downloading")
        modules += downloading
        packages += not line.startswith("go: ")
        if downloading:
            progress.say_now_and_then(f"{modules} modules downloaded")
    return packages


def _compile(go: Go, workshop: Path, log: Path, progress: _Progress, packages: int, target: Path) -> None:
    version = kubernetes_version()
    major, minor, *_ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())])
    command = ["build", "-v", "-trimpath", "-ldflags", flags, "-o", f"{target}/", "tool"]
    for compiled, _ in enumerate(_run(go, command, workshop, log), start=1):
        progress.say_now_and_then(f"{compiled} of {packages} packages compiled")


def _run(go: Go, arguments: list[str], workshop: Path, log: Path) -> Iterator[str]:
    """The lines that Go says. Raises ComponentsNotBuiltError when it fails."""
    command = [str(go.executable), *arguments]
    with (
        log.open("a") as file,
        subprocess.Popen(
            command,
            cwd=_MODULE,
            env=os.environ | _settings(workshop),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        for line in process.stdout or ():
            file.write(line)
            yield line
    if process.returncode != 0:
        raise ComponentsNotBuiltError(_why(command, log))


def _settings(workshop: Path) -> dict[str, str]:
    """Caches of our own, which go when they are of no more use; the rest of Go's environment is the machine's."""
    return {
        "CGO_ENABLED": "0",
        "GOCACHE": str(workshop / "build"),
        "GOFLAGS": "-modcacherw -buildvcs=false -mod=readonly",
        "GOMODCACHE": str(workshop / "modules"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _why(command: list[str], log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() or ["Go said nothing"]
    return (
        f"The control plane could not be built: {lines[-1]} (`{' '.join(command[:2])}`; the whole log: {log}). Is the "
        "network there? Behind a mirror, name it in GOPROXY. Run the same command again and it goes on where it was, "
        f"or name a directory with {', '.join(PROGRAMS)} in {ASSETS_VARIABLE}."
    )


def main() -> int:
    """Print the directory with the programs. Returns the exit status."""
    try:
        sys.stdout.write(f"{programs()}\n")
    except (ComponentsNotBuiltError, GoNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
