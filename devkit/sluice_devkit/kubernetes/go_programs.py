"""Programs that are built from Go modules, once for each machine.

A directory with a `go.mod` pins them (`tool`), its `go.sum` checks what is downloaded. The programs are kept outside
the tree under a name that changes with these and with the Go, and appear there whole or not at all. An interrupted
build goes on where it was, because Go keeps what it has compiled; when all is done, only the programs stay.

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

from sluice_devkit.kubernetes.toolchain import Go, find_go
from sluice_jvm.cache import locked

_SECONDS_BETWEEN_NEWS = 10.0


class ComponentsNotBuiltError(RuntimeError):
    """Programs are not here, and building them failed."""


@dataclass(frozen=True, slots=True)
class GoPrograms:
    """The tools of one Go module.

    `package` is the module whose version is that of the programs. `stamps` are variables that the linker sets,
    `names` the programs that Go would call otherwise, by the name that Go gives them. `otherwise` says in an error
    what else can be done.
    """

    title: str
    module: Path
    package: str
    stamps: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    otherwise: str = ""

    @property
    def version(self) -> str:
        """As go.mod pins it, v1.36.1. Raises ComponentsNotBuiltError."""
        found = re.search(rf"{re.escape(self.package)} (v\S+)", (self.module / "go.mod").read_text())
        if found is None:
            raise ComponentsNotBuiltError(f"{self.module / 'go.mod'} does not name the version of {self.package}.")
        return found.group(1)

    def directory(self, base: Path) -> Path:
        """Where they are below `base`, built first where they are not here yet.

        Raises ComponentsNotBuiltError, GoNotFoundError. Two processes that ask at once build once.
        """
        if (kept := self._kept(base)) is not None:
            return kept
        with locked(base):
            return self._kept(base) or self._build(base)

    def _kept(self, base: Path) -> Path | None:
        """What an earlier build has left, by whichever Go."""
        return next((found for found in sorted(base.glob(f"{self._pinned()}-go*")) if found.is_dir()), None)

    def _pinned(self) -> str:
        digest = hashlib.sha256(b"".join((self.module / name).read_bytes() for name in ("go.mod", "go.sum")))
        return f"{self.version}-{digest.hexdigest()[:12]}"

    def _build(self, base: Path) -> Path:
        progress = _Progress(f"{self.title} {self.version}")
        progress.say("building it, once for this machine")
        go = find_go(base / "toolchain")
        workshop = base / "workshop"
        with tempfile.TemporaryDirectory(prefix=".build-", dir=base) as temporary:
            target = Path(temporary, "programs")
            log = base / "build.log"
            log.write_text("")
            packages = self._download(go, workshop, log, progress)
            self._compile(go, workshop, log, progress, packages, target)
            for name_in_go, name in self.names.items():
                (target / name_in_go).rename(target / name)
            directory = base / f"{self._pinned()}-{go.version}"
            target.rename(directory)
        for leftover in (workshop, base / "toolchain"):
            shutil.rmtree(leftover, ignore_errors=True)
        progress.say("ready")
        return directory

    def _download(self, go: Go, workshop: Path, log: Path, progress: _Progress) -> int:
        """Fetch the modules that the programs need; returns of how many packages the programs are made."""
        packages = modules = 0
        for line in self._run(go, ["list", "-deps", "tool"], workshop, log):
            downloading = line.startswith("go: downloading")
            modules += downloading
            packages += not line.startswith("go: ")
            if downloading:
                progress.say_now_and_then(f"{modules} modules downloaded")
        return packages

    def _compile(self, go: Go, workshop: Path, log: Path, progress: _Progress, packages: int, target: Path) -> None:
        flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in self.stamps.items())])
        command = ["build", "-v", "-trimpath", "-ldflags", flags, "-o", f"{target}/", "tool"]
        for compiled, _ in enumerate(self._run(go, command, workshop, log), start=1):
            progress.say_now_and_then(f"{compiled} of {packages} packages compiled")

    def _run(self, go: Go, arguments: list[str], workshop: Path, log: Path) -> Iterator[str]:
        """The lines that Go says. Raises ComponentsNotBuiltError when it fails."""
        command = [str(go.executable), *arguments]
        with (
            log.open("a") as file,
            subprocess.Popen(
                command,
                cwd=self.module,
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
            raise ComponentsNotBuiltError(self._why(command, log))

    def _why(self, command: list[str], log: Path) -> str:
        lines = log.read_text(errors="replace").strip().splitlines() or ["Go said nothing"]
        return (
            f"{self.title} could not be built: {lines[-1]} (`{' '.join(command[:2])}`; the whole log: {log}). Is the "
            "network there? Behind a mirror, name it in GOPROXY. Run the same command again and it goes on where it "
            f"was{self.otherwise}."
        )


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
