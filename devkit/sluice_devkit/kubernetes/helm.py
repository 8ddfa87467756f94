"""Helm itself, for what only it can say about a chart: whether it is sound, and which objects it becomes.

Built as the control plane is, from the module that `go_helm/go.mod` pins.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sluice_devkit.kubernetes.components import kubernetes_version
from sluice_devkit.kubernetes.go_programs import GoPrograms
from sluice_jvm.cache import cache_directory

_MODULE = Path(__file__).with_name("go_helm")
_PACKAGE = "helm.sh/helm/v3"
_CALL_SECONDS = 60


class HelmError(RuntimeError):
    """Helm refused; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The program. Every method blocks, and raises HelmError."""

    executable: Path

    @classmethod
    def built(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Built first where it is not here yet, in 3 minutes of one core.

        Raises ComponentsNotBuiltError, GoNotFoundError.
        """
        return cls(_programs().directory(cache_directory(environment) / "helm") / "helm")

    def lint(self, chart: Path, **values: Any) -> str:
        """What a strict check says."""
        return self._run(["lint", "--strict", "--values=-", str(chart)], values)

    def render(self, chart: Path, release: str, namespace: str, **values: Any) -> str:
        """The objects of a release, as YAML documents."""
        version = f"--kube-version={kubernetes_version()}"
        return self._run(["template", release, str(chart), f"--namespace={namespace}", version, "--values=-"], values)

    def install(self, kubeconfig: Path, chart: Path, release: str, namespace: str, **values: Any) -> str:
        """Install a release, or upgrade it to these values; the notes that a person would see."""
        options = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", "--values=-"]
        return self._run(["upgrade", "--install", release, str(chart), *options], values)

    def uninstall(self, kubeconfig: Path, release: str, namespace: str) -> None:
        self._run(["uninstall", release, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"], {})

    def _run(self, arguments: list[str], values: Mapping[str, Any]) -> str:
        command = [str(self.executable), *arguments]
        run = subprocess.run(
            command, input=json.dumps(values), capture_output=True, text=True, timeout=_CALL_SECONDS, check=False
        )
        if run.returncode != 0:
            raise HelmError(f"{run.stdout}{run.stderr}".strip())
        return run.stdout


def _programs() -> GoPrograms:
    major, minor, *_ = kubernetes_version().removeprefix("v").split(".")
    return GoPrograms(
        "Helm",
        _MODULE,
        _PACKAGE,
        stamps={
            f"{_PACKAGE}/pkg/{package}.k8sVersion{part}": value
            for package in ("chartutil", "lint/rules")
            for part, value in (("Major", major), ("Minor", minor))
        },
    )
