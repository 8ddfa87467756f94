"""A real Kubernetes control plane as plain processes: etcd, the API server and the controller manager.

All listen on loopback only and keep their ports for life. RBAC is on. The controller manager runs the controllers that
matter to whoever owns pods and volumes: garbage collection, namespaces, service accounts, disruption budgets,
protection of volumes; and Deployments. Pods are bound and run by `sluice_devkit.node_agent`, not by a scheduler and
kubelets.

Service addresses are loopback addresses too, so that a process without privileges can listen on them; each cluster has
a block of its own, so that two on one machine seldom meet.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import select
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sluice_devkit.kubernetes.client import Json, KubernetesClient
from sluice_devkit.kubernetes.components import API_SERVER, CONTROLLER_MANAGER, ETCD, programs
from sluice_devkit.kubernetes.errors import ApiError, KubernetesError
from sluice_devkit.ports import free_ports, is_free
from sluice_devkit.process_guard import ProcessGuard
from sluice_jvm.launch import log_tail

START_SECONDS = 90
_EVENT = '{"kind":"Event","apiVersion":"audit.k8s.io/'
STOP_SECONDS = 20

CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)

ADMIN = "admin"
NODE_AGENT = "sluice-node-agent"
_USERS = (ADMIN, NODE_AGENT, "system:kube-controller-manager")

_PORT_TAKEN = "address already in use"
_ATTEMPTS = 3
_SECONDS_BETWEEN_LOOKS = 0.03

# Bodies of writes are kept, except where they are secret.
_AUDIT_POLICY: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "resources": [
                {"group": "", "resources": ["secrets", "configmaps", "serviceaccounts/token"]},
                {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
            ],
        },
        {"level": "Request", "verbs": ["create", "update", "patch", "delete"]},
        {"level": "Metadata"},
    ],
}


class KubernetesCluster:
    """A control plane. Use it as a context manager, or call start and stop.

    `definitions` are CustomResourceDefinitions that are there before the controller manager starts: it would notice
    them up to 30 s late otherwise, and collect none of their dependents until then. Without `controllers` nothing is
    collected, and `namespace` makes what pods need. `audit` keeps every request (`audit_events`).
    Without a directory the data lies in a temporary one, which goes with the cluster.
    """

    def __init__(
        self,
        directory: Path | None = None,
        definitions: Sequence[Mapping[str, Any]] = (),
        *,
        controllers: Sequence[str] = CONTROLLERS,
        audit: bool = False,
        port: int | None = None,
    ) -> None:
        self._own_directory = directory is None
        self._directory = directory or Path(tempfile.gettempdir(), f"sluice-kubernetes-{uuid.uuid4().hex[:12]}")
        self._definitions = definitions
        self._controllers = tuple(controllers)
        self._audit = audit
        self._port = port
        self._ports: dict[str, int] = {}
        self._tokens = {user: secrets.token_hex(16) for user in _USERS}
        self._guard: ProcessGuard | None = None
        self._programs: Path | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._ports[API_SERVER]}"

    @property
    def ca_file(self) -> Path:
        """The certificate of the API server followed by that of its authority."""
        return self._directory / "certificates" / "apiserver.crt"

    @property
    def service_account_key(self) -> Path:
        """The RSA key (PEM) that signs the tokens of service accounts."""
        return self._directory / "certificates" / "apiserver.key"

    @property
    def serving_certificate(self) -> tuple[Path, Path]:
        """A certificate for loopback and its key, for whatever else belongs to the cluster."""
        return self.ca_file, self.service_account_key

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._directory / "kubeconfig"

    @property
    def client(self) -> KubernetesClient:
        """The administrator's."""
        return self.client_of(ADMIN)

    def client_of(self, user: str) -> KubernetesClient:
        """A client as one of the cluster's own users: ADMIN or NODE_AGENT."""
        return KubernetesClient(self.url, self.ca_file, self._tokens[user])

    def process(self, component: str) -> subprocess.Popen[bytes]:
        """The process of etcd, kube-apiserver or kube-controller-manager."""
        if component not in self._processes:
            raise KubernetesError(f"{component} was never started.")
        return self._processes[component]

    def log(self, component: str) -> Path:
        return self._directory / f"{component}.log"

    def start(self) -> Self:
        """Start everything and wait until the API serves. Raises KubernetesError with the end of a log."""
        self._programs = programs()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=not self._own_directory)
        self._guard = ProcessGuard(remove=[self._directory] if self._own_directory else [])
        try:
            self._start_on_free_ports()
            self.write_kubeconfig(self.kubeconfig, self._tokens[ADMIN])
            for definition in self._definitions:
                self.define(definition)
            if self._controllers:
                self._launch_controller_manager()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything: in good order when the data stays, at once when it goes with its temporary directory."""
        if not self._own_directory:
            for component in (CONTROLLER_MANAGER, API_SERVER, ETCD):
                self._end(component)
        if self._guard is not None:
            self._guard.close()
        for process in self._processes.values():
            process.wait()

    def freeze(self, component: str = API_SERVER) -> None:
        """Let a component stand still: it answers nothing and closes nothing."""
        self.process(component).send_signal(signal.SIGSTOP)

    def thaw(self, component: str = API_SERVER) -> None:
        self.process(component).send_signal(signal.SIGCONT)

    def kill(self, component: str = API_SERVER) -> None:
        """End a component as a lost machine would."""
        self.process(component).kill()
        self.process(component).wait()

    def restart(self, component: str = API_SERVER) -> None:
        """Stop a component in good order, unless it is dead already, and start it again on its port."""
        self._end(component)
        self._launch(component)

    def restart_apiserver(self) -> float:
        """Kill the API server and start it again; returns the seconds until it served."""
        started = time.monotonic()
        self.kill(API_SERVER)
        self.restart(API_SERVER)
        return time.monotonic() - started

    def wait(self) -> str:
        """Block until a component ends, and say which."""
        by_descriptor = {os.pidfd_open(process.pid): name for name, process in self._processes.items()}
        try:
            ended, _, _ = select.select(list(by_descriptor), [], [])
            return by_descriptor[ended[0]]
        finally:
            for descriptor in by_descriptor:
                os.close(descriptor)

    def define(self, definition: Mapping[str, Any]) -> None:
        """Create or replace a CustomResourceDefinition, and wait until its kind is served."""
        collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name, spec = definition["metadata"]["name"], definition["spec"]
        if self.client.exists(f"{collection}/{name}"):
            self.client.patch(f"{collection}/{name}", definition)
        else:
            self.client.create(collection, definition)
        version = next(version["name"] for version in spec["versions"] if version["served"])
        served = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        self.client.wait_for(f"{name} is established", lambda: _is_established(self.client, f"{collection}/{name}"))
        self.client.wait_for(f"{served} is served", lambda: self.client.exists(served))

    def namespace(self, name: str) -> str:
        """Create a namespace in which pods can be made, and return its name."""
        self.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        authorities = f"/api/v1/namespaces/{name}/configmaps"
        if not self._controllers:
            self.client.create(accounts, {"metadata": {"name": "default"}})
            authority = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self.ca_file.read_text()}}
            self.client.create(authorities, authority)
        self.client.wait_for(f"{name} has a service account", lambda: self.client.exists(f"{accounts}/default"))
        self.client.wait_for(f"{name} has its CA", lambda: self.client.exists(f"{authorities}/kube-root-ca.crt"))
        return name

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 3600, **spec: Any) -> str:
        """A token of a service account; `spec` is the TokenRequest's own (audiences, boundObjectRef)."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.client.create(path, {"spec": {"expirationSeconds": seconds, **spec}})
        return str(answer["status"]["token"])

    def write_kubeconfig(self, path: Path, token: str, namespace: str = "default") -> Path:
        """Write a kubeconfig (JSON, which is YAML) that speaks with the token; only its owner may read it."""
        context = {"cluster": "sluice", "user": "sluice", "namespace": namespace}
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sluice", "cluster": cluster}],
            "users": [{"name": "sluice", "user": {"token": token}}],
            "contexts": [{"name": "sluice", "context": context}],
            "current-context": "sluice",
        }
        _write_private(path, json.dumps(config, indent=1))
        return path

    def audit_events(self) -> Iterator[Json]:
        """Every request so far, oldest first (audit.k8s.io/v1 Event). Raises KubernetesError without `audit`."""
        if not self._audit:
            raise KubernetesError("This cluster keeps no audit log; start it with audit=True.")
        with self._audit_log.open() as log:
            for line in log:
                if line.endswith("\n") and (event := _read_event(line)) is not None:
                    yield event

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _audit_log(self) -> Path:
        return self._directory / "audit.log"

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[ETCD]}"

    def _start_on_free_ports(self) -> None:
        """A free port may be lost to somebody else before its server binds it: then choose others."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._choose_ports()
            self._write_files()
            try:
                self._launch(ETCD)
                self._launch(API_SERVER)
            except KubernetesError as error:
                if _PORT_TAKEN not in str(error) or attempt == _ATTEMPTS:
                    raise
                self._end(API_SERVER)
                self._end(ETCD)
            else:
                return

    def _choose_ports(self) -> None:
        self._ports = dict(zip((ETCD, API_SERVER, CONTROLLER_MANAGER), free_ports(3), strict=True))
        if self._port is not None:
            if not is_free(self._port):
                raise KubernetesError(f"Port {self._port} is taken; choose another, or leave it to us.")
            self._ports[API_SERVER] = self._port

    def _service_addresses(self) -> str:
        """The block that an earlier cluster chose in the directory, or a new one."""
        kept = self._directory / "service-addresses"
        if not kept.exists():
            kept.write_text(f"127.{random.randint(96, 126)}.{16 * random.randint(0, 15)}.0/20")
        return kept.read_text()

    def _write_files(self) -> None:
        rows = [f'{token},{user},{user},"system:masters"\n' for user, token in self._tokens.items()]
        _write_private(self._directory / "tokens.csv", "".join(rows))
        _write_private(self._directory / "audit-policy.json", json.dumps(_AUDIT_POLICY))

    def _launch_controller_manager(self) -> None:
        token = self._tokens["system:kube-controller-manager"]
        self.write_kubeconfig(self._directory / "controller-manager.kubeconfig", token)
        self._launch(CONTROLLER_MANAGER)

    def _launch(self, component: str) -> None:
        """Start a component, and wait until those that depend on it can go on."""
        if self._guard is None or self._programs is None:
            raise KubernetesError("The cluster was not started.")
        flags = {ETCD: self._etcd, API_SERVER: self._api_server, CONTROLLER_MANAGER: self._controller_manager}
        with self.log(component).open("ab") as log:
            command = [str(self._programs / component), *flags[component]()]
            self._processes[component] = self._guard.start(command, output=log)
        if component == ETCD:
            self._await(component, lambda: _is_open(self._ports[ETCD]))
        if component == API_SERVER:
            self._await(component, lambda: _answers(self.client, "/readyz"))

    def _etcd(self) -> list[str]:
        return [
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",  # a killed process loses nothing by it, only a killed machine
            "--log-level=warn",
        ]

    def _api_server(self) -> list[str]:
        audit = (
            f"--audit-policy-file={self._directory / 'audit-policy.json'}",
            f"--audit-log-path={self._audit_log}",
        )
        return [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[API_SERVER]}",
            f"--cert-dir={self._directory / 'certificates'}",
            f"--service-cluster-ip-range={self._service_addresses()}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.service_account_key}",
            f"--service-account-signing-key-file={self.service_account_key}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--shutdown-delay-duration=0s",
            "--profiling=false",
            *(audit if self._audit else ()),
        ]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self._directory / 'controller-manager.kubeconfig'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[CONTROLLER_MANAGER]}",
            f"--cert-dir={self._directory / 'controller-manager-certificates'}",
            f"--controllers={','.join(self._controllers)}",
            f"--root-ca-file={self.ca_file}",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
        ]

    def _await(self, component: str, serves: Callable[[], bool]) -> None:
        process = self.process(component)
        deadline = time.monotonic() + START_SECONDS
        while not serves():
            if process.poll() is not None:
                tail = log_tail(self.log(component))
                raise KubernetesError(f"{component} ended with {process.returncode} at its start.{tail}")
            if time.monotonic() > deadline:
                tail = log_tail(self.log(component))
                raise KubernetesError(f"{component} does not serve after {START_SECONDS} s.{tail}")
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _end(self, component: str) -> None:
        process = self._processes.get(component)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read_event(line: str) -> Json | None:
    """An event of the audit log. One that a killed API server began is lost, and its line goes on with the next one."""
    start = line.rfind(_EVENT)
    try:
        return dict(json.loads(line[max(0, start) :]))
    except ValueError:
        return None


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _answers(client: KubernetesClient, path: str) -> bool:
    try:
        client.text(path)
    except (ApiError, OSError):
        return False
    return True


def _is_established(client: KubernetesClient, path: str) -> bool:
    conditions = client.get(path).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
