"""The flags with which a command finds a StreamsApp, and what they lead to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sluice_cli.errors import MistakeError

if TYPE_CHECKING:
    from sluice_cli.cluster.client import ClusterClient
    from sluice_cli.coordinator_client import CoordinatorClient
    from sluice_cli.http_call import Trust

_FLAGS = ("context", "kubeconfig", "namespace", "coordinator", "coordinator_ca", "coordinator_name")
LOCAL_FLAGS = ("run_directory", "application_id")
"""Of a local run: they say nothing of a StreamsApp."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

NAME_HELP = "the StreamsApp, on Kubernetes (default there: the only one of the namespace)"


def add_cluster(parser: argparse.ArgumentParser, *, coordinator: bool) -> None:
    """The flags; `coordinator`: the command talks to it, too."""
    cluster = parser.add_argument_group("on Kubernetes")
    cluster.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    cluster.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: KUBECONFIG, else ~/.kube/config")
    cluster.add_argument("--namespace", metavar="NAME", help="default: that of the context")
    if coordinator:
        cluster.add_argument(
            "--coordinator",
            metavar="URL",
            help="where the coordinator can be reached from here, as https://localhost:8080 with "
            "`kubectl port-forward service/sluice-coordinator 8080`",
        )
        cluster.add_argument(
            "--coordinator-ca",
            type=Path,
            metavar="FILE",
            help="certificates (PEM) of its authority, ca.crt of its Secret (default: the system's)",
        )
        cluster.add_argument(
            "--coordinator-name",
            metavar="HOST",
            help="the name in its certificate, if the URL has another one, as sluice-coordinator.sluice-system.svc",
        )


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """One StreamsApp, and the way to its coordinator if there is one."""

    client: ClusterClient
    name: str
    coordinator: str | None
    trust: Trust

    def group(self) -> CoordinatorClient:
        """A client of the coordinator, as the person of the context. Raises MistakeError."""
        from sluice_cli.coordinator_client import CoordinatorClient

        if self.coordinator is None:
            raise MistakeError("only the coordinator can do that; say where it is with --coordinator URL")
        parts = urlsplit(self.coordinator)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise MistakeError(f"--coordinator {self.coordinator}: your token would travel in the clear; use https://")
        token = self.client.context.connection.token
        if not token:
            raise MistakeError(
                f"context {self.client.context.name} has no token to show to the coordinator, which knows people by it"
            )
        return CoordinatorClient(self.coordinator, token, self.name, self.client.namespace, trust=self.trust)


def names_cluster(arguments: argparse.Namespace) -> bool:
    """Whether a flag speaks of Kubernetes."""
    return any(getattr(arguments, flag, None) is not None for flag in _FLAGS)


def cluster_place(
    arguments: argparse.Namespace, name: str | None, refused: Sequence[str] = LOCAL_FLAGS
) -> ClusterPlace:
    """What the flags lead to; without a name the only StreamsApp of the namespace. Raises CommandError."""
    if clashing := [flag for flag in refused if getattr(arguments, flag, None) is not None]:
        raise MistakeError(f"{_shown(clashing)} is for a local run; leave it out for a StreamsApp")
    from sluice_cli.cluster.client import ClusterClient
    from sluice_cli.cluster.kubeconfig import read_context

    context = read_context(arguments.kubeconfig, arguments.context)
    client = ClusterClient(context, arguments.namespace or context.namespace)
    coordinator = getattr(arguments, "coordinator", None)
    return ClusterPlace(client, name or client.only(), coordinator, _trust(arguments))


def _trust(arguments: argparse.Namespace) -> Trust:
    from sluice_cli.http_call import Trust

    ca = getattr(arguments, "coordinator_ca", None)
    return Trust(None if ca is None else _text(ca), getattr(arguments, "coordinator_name", None))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MistakeError(f"--coordinator-ca {path} can't be read: {error}") from None


def _shown(flags: Sequence[str]) -> str:
    return ", ".join(f"--{flag.replace('_', '-')}" for flag in flags)
