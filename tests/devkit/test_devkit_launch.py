"""What a container becomes: its command, its variables, its paths and names, by the rules of the pod's fields."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sluice_devkit.node_agent.images import Image, find_image
from sluice_devkit.node_agent.launch import (
    CannotRunError,
    Place,
    command_of,
    environment_of,
    expand,
    field_of,
    translate,
)

PLACE = Place(Path("/pods/p"), "127.64.0.1", {"/data": Path("/v"), "/data/in": Path("/w")}, {"web.shop": "127.96.0.9"})
IMAGE = Image((sys.executable, "-m"), ("http.server",), {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(("container", "command"), [
    ({}, [sys.executable, "-m", "http.server"]),
    ({"args": ["json.tool"]}, [sys.executable, "-m", "json.tool"]),
    ({"command": ["sh", "-c"]}, ["/usr/bin/sh", "-c"]),
    ({"command": ["sh"], "args": ["-x"]}, ["/usr/bin/sh", "-x"]),
])  # fmt: skip
def test_command_and_args_replace_what_the_image_says(container: dict[str, Any], command: list[str]):
    assert command_of({"image": "i", **container}, IMAGE, IMAGE.environment, PLACE) == command


def test_what_the_image_says_is_a_path_of_this_machine_whatever_is_mounted():
    python = Path(sys.executable)
    place = Place(Path("/pods/p"), "127.64.0.1", {f"/{python.parts[1]}": Path("/v")}, {})

    assert command_of({"image": "i", "args": ["x"]}, Image((str(python),)), IMAGE.environment, place) == [
        str(python),
        "x",
    ]


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(CannotRunError, match="'nonsuch': executable file not found") as caught:
        command_of({"image": "i", "command": ["nonsuch"]}, IMAGE, IMAGE.environment, PLACE)
    assert caught.value.reason == "RunContainerError"


def test_an_image_without_a_command_needs_one():
    with pytest.raises(CannotRunError, match="neither the pod nor image i has a command"):
        command_of({"image": "i"}, Image(), {}, PLACE)


@pytest.mark.parametrize(("text", "expanded"), [
    ("$(A)-$(B)", "1-$(B)"),
    ("$$(A)", "$(A)"),
    ("$A", "$A"),
])  # fmt: skip
def test_variables_are_expanded_when_they_are_known(text: str, expanded: str):
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(("text", "translated"), [
    ("/data", "/pods/p/data"),
    ("--state=/data/0_1", "--state=/pods/p/data/0_1"),
    ("cat /data/in/x > /data/out", "cat /pods/p/data/in/x > /pods/p/data/out"),
    ("/database", "/database"),
    ("/mnt/data", "/mnt/data"),
    ("https://web.shop.svc:8443/x", "https://127.96.0.9:8443/x"),
    ("web.shop.svc.cluster.local", "127.96.0.9"),
    ("myweb.shop.svc", "myweb.shop.svc"),
    ("web.shop.svc.example.org", "web.shop.svc.example.org"),
])  # fmt: skip
def test_only_whole_paths_and_names_are_translated(text: str, translated: str):
    assert translate(text, PLACE) == translated


def test_a_variable_may_use_those_before_it():
    pod = {"metadata": {"name": "p"}, "spec": {}}

    environment = environment_of(pod, IMAGE, [("A", "/data"), ("B", "$(A)/x")], {"WEB_SERVICE_HOST": "h"}, PLACE)

    assert environment["B"] == "/pods/p/data/x"
    assert (environment["HOSTNAME"], environment["WEB_SERVICE_HOST"]) == ("p", "h")


@pytest.mark.parametrize(("path", "value"), [
    ("metadata.labels['zone']", "a"),
    ("metadata.labels['none']", ""),
    ("metadata.annotations", 'x="y"'),
    ("spec.nodeName", "n0"),
    ("status.podIP", "127.64.0.1"),
])  # fmt: skip
def test_fields_are_offered(path: str, value: str):
    metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": {"zone": "a"}, "annotations": {"x": "y"}}

    assert field_of({"metadata": metadata, "spec": {"nodeName": "n0"}}, path, "127.64.0.1") == value


def test_an_unknown_field_is_refused_by_its_name():
    metadata = {"name": "p", "namespace": "n", "uid": "u"}

    with pytest.raises(CannotRunError, match=r"can't offer the field spec\.priority"):
        field_of({"metadata": metadata, "spec": {}}, "spec.priority", "127.64.0.1")


@pytest.mark.parametrize(("reference", "is_known"), [
    ("shop/worker:1", True),
    ("shop/worker:2", False),
    ("shell", True),
    ("shell:3", True),
    ("host:5000/shell@sha256:0", True),
    ("other/shell", False),
])  # fmt: skip
def test_an_image_is_known_by_its_reference_or_by_its_name(reference: str, is_known: bool):
    images = {"shop/worker:1": Image(), "shell": Image(), "host:5000/shell": Image()}

    assert (find_image(images, reference) is not None) == is_known
