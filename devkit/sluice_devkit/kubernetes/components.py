"""The programs of a control plane, and kubectl: etcd, kube-apiserver, kube-controller-manager.

$KUBEBUILDER_ASSETS names a directory that has them, as for every other Kubernetes test kit. Otherwise they are built
once per machine from the Go modules that `go/go.mod` pins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sluice_devkit.kubernetes.go_programs import ComponentsNotBuiltError, GoPrograms
from sluice_devkit.kubernetes.toolchain import GoNotFoundError
from sluice_jvm.cache import cache_directory

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
KUBECTL = "kubectl"
COMPONENTS = (ETCD, API_SERVER, CONTROLLER_MANAGER)
"""What runs for as long as a cluster does."""
PROGRAMS = (*COMPONENTS, KUBECTL)

_MODULE = Path(__file__).with_name("go")
_PACKAGE = "k8s.io/kubernetes"
_VERSION_PACKAGE = "k8s.io/component-base/version"


def programs(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory with the programs, built first where they are not here yet: 5 to 7 minutes of two cores.

    Raises ComponentsNotBuiltError, GoNotFoundError. Two processes that ask at once build once.
    """
    if named := environment.get(ASSETS_VARIABLE):
        return _checked(Path(named))
    return _control_plane().directory(cache_directory(environment) / "kubernetes")


def kubernetes_version() -> str:
    """The version of Kubernetes that is pinned, as v1.36.1."""
    return GoPrograms("Kubernetes", _MODULE, _PACKAGE).version


def _control_plane() -> GoPrograms:
    version = kubernetes_version()
    major, minor, *_ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return GoPrograms(
        "Kubernetes",
        _MODULE,
        _PACKAGE,
        stamps={f"{_VERSION_PACKAGE}.{name}": value for name, value in stamps.items()},
        names={"server": ETCD},
        otherwise=f", or name a directory with {', '.join(PROGRAMS)} in {ASSETS_VARIABLE}",
    )


def _checked(directory: Path) -> Path:
    missing = [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]
    if missing:
        raise ComponentsNotBuiltError(
            f"{ASSETS_VARIABLE} is {directory}, and {', '.join(missing)} are not there. Put them there, or unset the "
            "variable and the programs are built."
        )
    return directory


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
