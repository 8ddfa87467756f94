"""A person's kubeconfig: which cluster, as whom, and what is said when it doesn't lead anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice_cli.cluster.kubeconfig import read_context
from sluice_cli.errors import CommandError, MistakeError


def a_config(**parts: Any) -> dict[str, Any]:
    return {
        "clusters": [
            {"name": "near", "cluster": {"server": "https://near:6443", "certificate-authority": "ca.crt"}},
            {"name": "far", "cluster": {"server": "https://far:6443/", "insecure-skip-tls-verify": True}},
        ],
        "users": [{"name": "ann", "user": {"token": "ann's"}}, {"name": "bob", "user": {"tokenFile": "bob.token"}}],
        "contexts": [
            {"name": "work", "context": {"cluster": "near", "user": "ann", "namespace": "shop"}},
            {"name": "play", "context": {"cluster": "far", "user": "bob"}},
        ],
        "current-context": "work",
        **parts,
    }


def write(path: Path, config: Any) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def test_the_current_context_is_taken_unless_another_is_named(tmp_path: Path):
    path = write(tmp_path / "config", a_config())
    (tmp_path / "bob.token").write_text("bob's\n")

    current, named = read_context(path, None), read_context(path, "play")

    assert (current.name, current.namespace, current.connection.server) == ("work", "shop", "https://near:6443")
    assert (current.connection.token, current.connection.ca_path) == ("ann's", str(tmp_path / "ca.crt"))
    assert (named.namespace, named.connection.server, named.connection.token) == (
        "default",
        "https://far:6443",
        "bob's",
    )
    assert named.connection.insecure


def test_of_several_files_the_first_that_knows_a_name_wins(tmp_path: Path):
    first = write(tmp_path / "first", {"users": [{"name": "ann", "user": {"token": "other"}}]})
    second = write(tmp_path / "second", a_config())
    environment = {"KUBECONFIG": os.pathsep.join([str(first), str(tmp_path / "nowhere"), str(second)])}

    assert read_context(None, None, environment).connection.token == "other"  # noqa: S105


def test_a_credential_plugin_says_who_one_is(tmp_path: Path):
    script = (
        'echo "{\\"status\\": {\\"token\\": \\"$WHO at $(echo $KUBERNETES_EXEC_INFO | grep -o https://near:6443)\\"}}"'
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", script],
        "env": [{"name": "WHO", "value": "ann"}],
    }
    path = write(tmp_path / "config", a_config(users=[{"name": "ann", "user": {"exec": plugin}}]))

    assert read_context(path, None).connection.token == "ann at https://near:6443"  # noqa: S105


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo log in first >&2; exit 3"], r"sh failed \(3\): log in first"),
        (["sh", "-c", "echo nothing"], "sh gave no credentials"),
        (["no-such-plugin"], "no-such-plugin gave no credentials"),
    ],
)
def test_a_plugin_that_fails_is_named(tmp_path: Path, command: list[str], said: str):
    plugin = {"command": command[0], "args": command[1:]}
    path = write(tmp_path / "config", a_config(users=[{"name": "ann", "user": {"exec": plugin}}]))

    with pytest.raises(CommandError, match=said):
        read_context(path, None)


@pytest.mark.parametrize(
    ("config", "context", "said"),
    [
        (a_config(), "home", "has no context home; it has play, work"),
        (a_config(**{"current-context": None}), None, "has no current context; name one with --context"),
        (a_config(users=[]), None, "has no user ann; it has none"),
        (a_config(clusters=[{"name": "near", "cluster": {}}]), None, "cluster near of .* has no server"),
        (["a", "list"], None, "holds no mapping"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, config: Any, context: str | None, said: str):
    with pytest.raises(MistakeError, match=said):
        read_context(write(tmp_path / "config", config), context)


def test_without_any_kubeconfig_it_is_said_how_to_name_one(tmp_path: Path):
    with pytest.raises(MistakeError, match=r"no kubeconfig at .*nowhere; name one with --kubeconfig"):
        read_context(None, None, {"KUBECONFIG": str(tmp_path / "nowhere")})
    with pytest.raises(MistakeError, match="can't be read"):
        read_context(tmp_path / "nowhere", None)
