"""A person's kubeconfig, read as kubectl reads it: several files, contexts, credential plugins.

kopf's own reader knows the current context only, and no plugins, by which most managed clusters log people in.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf
import yaml

from sluice_cli.errors import CommandError, MistakeError

_PLUGIN_SECONDS = 60
_DEFAULT = Path("~/.kube/config")


@dataclass(frozen=True, slots=True)
class Context:
    """One cluster, as one person."""

    name: str
    namespace: str
    connection: kopf.ConnectionInfo


def read_context(path: Path | None, name: str | None, environment: Mapping[str, str] = os.environ) -> Context:
    """The named context, else the current one, of the given file, else of $KUBECONFIG, else of ~/.kube/config.

    Raises MistakeError naming what is missing, CommandError if a credential plugin fails.
    """
    files = _files(path, environment)
    configs = [_read(file) for file in files]
    where = ", ".join(map(str, files))
    name = name or next((str(found) for config, _ in configs if (found := config.get("current-context"))), None)
    if name is None:
        raise MistakeError(f"{where} has no current context; name one with --context")
    context, _ = _find(configs, "contexts", "context", name, where)
    cluster, beside = _find(configs, "clusters", "cluster", str(context.get("cluster")), where)
    user, beside_user = _find(configs, "users", "user", str(context.get("user")), where)
    if not cluster.get("server"):
        raise MistakeError(f"cluster {context['cluster']} of {where} has no server")
    return Context(name, str(context.get("namespace") or "default"), _connection(cluster, beside, user, beside_user))


def _files(path: Path | None, environment: Mapping[str, str]) -> Sequence[Path]:
    if path is not None:
        return [path]
    named = [Path(each).expanduser() for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    found = [each for each in named or [_DEFAULT.expanduser()] if each.exists()]
    if not found:
        raise MistakeError(
            f"there is no kubeconfig at {', '.join(map(str, named)) or _DEFAULT}; name one with --kubeconfig"
        )
    return found


def _read(path: Path) -> tuple[Mapping[str, Any], Path]:
    """Its content, and the directory from which its relative paths lead."""
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise MistakeError(f"kubeconfig {path} can't be read: {error}") from None
    if not isinstance(content, Mapping):
        raise MistakeError(f"kubeconfig {path} holds no mapping")
    return content, path.parent


def _find(
    configs: Sequence[tuple[Mapping[str, Any], Path]], kind: str, part: str, name: str, where: str
) -> tuple[Mapping[str, Any], Path]:
    """The first of that name wins, as for kubectl."""
    for config, directory in configs:
        for each in config.get(kind) or ():
            if each.get("name") == name:
                return each.get(part) or {}, directory
    known = sorted(str(each.get("name")) for config, _ in configs for each in config.get(kind) or ())
    raise MistakeError(f"{where} has no {part} {name}; it has {', '.join(known) or 'none'}")


def _connection(
    cluster: Mapping[str, Any], beside: Path, user: Mapping[str, Any], beside_user: Path
) -> kopf.ConnectionInfo:
    user = {**user, **_by_plugin(user["exec"], cluster)} if user.get("exec") else user
    token = user.get("token")
    if token is None and user.get("tokenFile"):
        token = (beside_user / user["tokenFile"]).read_text().strip()
    return kopf.ConnectionInfo(
        server=str(cluster["server"]).rstrip("/"),
        ca_path=_path(beside, cluster.get("certificate-authority")),
        ca_data=cluster.get("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify"),
        certificate_path=_path(beside_user, user.get("client-certificate")),
        certificate_data=user.get("client-certificate-data"),
        private_key_path=_path(beside_user, user.get("client-key")),
        private_key_data=user.get("client-key-data"),
        username=user.get("username"),
        password=user.get("password"),
        token=token,
        proxy_url=cluster.get("proxy-url"),
    )


def _path(directory: Path, value: object) -> str | None:
    return str(directory / str(value)) if value else None


def _by_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """What a credential plugin says (client.authentication.k8s.io, ExecCredential)."""
    info = {
        "apiVersion": plugin.get("apiVersion"),
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": cluster["server"]}},
    }
    variables = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or ()}
    command = [str(plugin["command"]), *map(str, plugin.get("args") or ())]
    try:
        run = subprocess.run(
            command,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PLUGIN_SECONDS,
            check=True,
        )
        status = json.loads(run.stdout)["status"]
    except subprocess.CalledProcessError as error:
        raise CommandError(
            f"credential plugin {command[0]} failed ({error.returncode}): {error.stderr.strip()}"
        ) from None
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"credential plugin {command[0]} gave no credentials: {error}") from None
    said = {
        "token": status.get("token"),
        "client-certificate-data": status.get("clientCertificateData"),
        "client-key-data": status.get("clientKeyData"),
    }
    return {name: value for name, value in said.items() if value}
