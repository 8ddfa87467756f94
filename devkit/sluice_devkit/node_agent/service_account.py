"""Run a program of a pod with the pod's service account, which it would find in a container without being told.

    python -m sluice_devkit.node_agent.service_account PROGRAM ARGUMENT …

In a container the account's token lies at a path that every client of Kubernetes has built in. Here it lies below
$POD_ROOT; so the program gets a kubeconfig with the same token. It is read once: pods' tokens are not renewed here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

_MOUNT = "var/run/secrets/kubernetes.io/serviceaccount"


def write_kubeconfig(environment: Mapping[str, str]) -> Path:
    """Write the kubeconfig of the pod (JSON, which is YAML) beside its files. Raises OSError without an account."""
    root = Path(environment["POD_ROOT"])
    account = root / _MOUNT
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    context = {"cluster": "pod", "user": "pod", "namespace": (account / "namespace").read_text()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "pod",
                "cluster": {"server": f"https://{host}:{port}", "certificate-authority": str(account / "ca.crt")},
            }
        ],
        "users": [{"name": "pod", "user": {"token": (account / "token").read_text()}}],
        "contexts": [{"name": "pod", "context": context}],
        "current-context": "pod",
    }
    path = root / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


def main() -> None:
    """Become the program."""
    os.environ["KUBECONFIG"] = str(write_kubeconfig(os.environ))
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - that is its work


if __name__ == "__main__":
    main()
