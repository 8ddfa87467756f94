"""An operator process, its probes and its metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from sluice_cli.coordinator_client import CoordinatorClient
from sluice_cli.http_call import Trust
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_devkit.kubernetes.https_service import authority
from sluice_devkit.ports import free_ports
from sluice_devkit.process_guard import ProcessGuard
from sluice_protocol.view import GroupView

TLS_SECRET = "sluice-coordinator-tls"  # noqa: S105 - its name


@dataclass
class Operator:
    """One operator process. By default it is the administrator, and looks after the whole cluster."""

    kubernetes: KubernetesCluster
    guard: ProcessGuard
    lease_namespace: str
    log: Path
    kubeconfig: Path | None = None
    url: str | None = None
    """At which workers reach the coordinator; this process itself if None."""
    namespaces: tuple[str, ...] = ()
    lease: tuple[str, str, str] = ("12s", "10s", "500ms")
    """Duration, renew deadline, retry."""
    ports: list[int] = field(default_factory=lambda: free_ports(2))
    """The coordinator's, and that of probes and metrics."""
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        port, probes = self.ports
        duration, deadline, retry = self.lease
        command = [
            sys.executable, "-m", "sluice_cli", "operator",
            f"--coordinator-url={self.url or f'https://127.0.0.1:{port}'}",
            "--host=127.0.0.1", "--advertise=127.0.0.1", f"--port={port}", f"--probe-port={probes}",
            f"--lease-namespace={self.lease_namespace}", f"--lease-duration={duration}",
            f"--renew-deadline={deadline}", f"--retry={retry}", *(f"--namespace={name}" for name in self.namespaces),
        ]  # fmt: skip
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig or self.kubernetes.kubeconfig)}
        with self.log.open("ab") as log:
            self.process = self.guard.start(command, environment=environment, output=log)

    def group(self, namespace: str, app: str) -> GroupView:
        """The group of an application, as its coordinator shows it to the cluster's admin."""
        client = self.kubernetes.client
        trust = Trust(authority(client, self.lease_namespace, TLS_SECRET))
        url = f"https://127.0.0.1:{self.ports[0]}"
        return CoordinatorClient(url, client.token, app, namespace, trust=trust).view()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def probe(self, path: str) -> tuple[int, str]:
        """Status and text; 0 if nobody answers."""
        url = f"http://127.0.0.1:{self.ports[1]}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str) -> float:
        """A series by its name and labels as they are written; 0 if there is none."""
        for line in self.probe("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            if series == name:
                return float(value)
        return 0.0

    def leads(self) -> bool:
        return self.metric("sluice_operator_leader") == 1.0
