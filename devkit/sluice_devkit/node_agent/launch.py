"""What a container becomes on this machine: a command, an environment, and paths and names that lead somewhere. Pure.

A pod's files lie in a directory of its own, and its process has no file system of its own. So every mount path that
occurs in its command, arguments, probes and variables is replaced by the path where the volume really is, and every
name of a Service by its address. Programs that have a path built in find it below $POD_ROOT.

Rejected: private mount namespaces. They need root or user namespaces, which containers of CI often lack.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.node_agent.images import Image

_NOT_RUN = ("initContainers", "ephemeralContainers")
_NOT_HEEDED = ("lifecycle", "volumeDevices")


class CannotRunError(Exception):
    """The pod can't be started as it is. `reason` is a kubelet's word, the message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod lives. `mounts` leads from mount paths to directories."""

    root: Path
    address: str
    mounts: Mapping[str, Path]
    services: Mapping[str, str]
    """Addresses of Services by `name.namespace`."""


def check_supported(pod: Json) -> None:
    """Raise CannotRunError for what would be needed and isn't done here: better than a pod that runs differently."""
    spec = pod["spec"]
    container = spec["containers"][0]
    lacking = [name for name in _NOT_RUN if spec.get(name)] + [name for name in _NOT_HEEDED if container.get(name)]
    if len(spec["containers"]) > 1:
        lacking.append("more than one container")
    if lacking:
        raise CannotRunError("CreateContainerConfigError", f"the node agent can't do {', '.join(lacking)}")


def command_of(container: Json, image: Image, environment: Mapping[str, str], place: Place) -> list[str]:
    """The command line, by the rules of `command` and `args`. Raises CannotRunError when there is none to be run.

    What the image says are paths of this machine already.
    """
    command, arguments = container.get("command"), container.get("args")
    said = [translate(expand(word, environment), place) for word in (*(command or ()), *(arguments or ()))]
    of_image = [*image.entrypoint, *(image.arguments if arguments is None else ())] if command is None else []
    words = [*of_image, *said]
    if not words:
        raise CannotRunError("CreateContainerError", f"neither the pod nor image {container['image']} has a command")
    return [_program(words[0], environment, place), *words[1:]]


def _program(name: str, environment: Mapping[str, str], place: Place) -> str:
    found = shutil.which(name, path=environment.get("PATH")) if "/" not in name else name
    if found is None or not (place.root / found).exists():
        raise CannotRunError("RunContainerError", f"exec: {name!r}: executable file not found in $PATH")
    return found


def environment_of(
    pod: Json, image: Image, values: Sequence[tuple[str, str]], service_links: Mapping[str, str], place: Place
) -> dict[str, str]:
    """The whole environment; `values` are the container's own variables in their order, already looked up."""
    name = pod["metadata"]["name"]
    environment = {
        **image.environment,
        "HOME": str(place.root),
        "HOSTNAME": pod["spec"].get("hostname", name),
        "POD_ROOT": str(place.root),
        **service_links,
    }
    for key, value in values:
        environment[key] = translate(expand(value, environment), place)
    return environment


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace $(NAME) by its value; unknown names stay, and $$(NAME) stands for itself."""

    def value(found: re.Match[str]) -> str:
        if found.group().startswith("$$"):
            return found.group()[1:]
        return environment.get(found.group(1), found.group())

    return re.sub(r"\$?\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)", value, text)


def translate(text: str, place: Place) -> str:
    """Put the real place for every mount path and every name of a Service in the text."""
    for mount in sorted(place.mounts, key=len, reverse=True):
        inside = str(place.root / mount.lstrip("/"))
        text = re.sub(rf"(?<![\w./-]){re.escape(mount.rstrip('/'))}(?![\w.-])", _always(inside), text)
    for name, address in place.services.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}\.svc(\.cluster\.local)?\b(?![.-])", _always(address), text)
    return text


def _always(text: str) -> Callable[[re.Match[str]], str]:
    return lambda _: text


def field_of(pod: Json, path: str, address: str) -> str:
    """A field for the downward API. Raises CannotRunError for one that it doesn't offer."""
    metadata, spec = pod["metadata"], pod["spec"]
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(metadata.get(found.group(1), {}).get(found.group(2), ""))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": "127.0.0.1",
        "status.podIP": address,
        "status.podIPs": address,
    }
    if path in fields:
        return str(fields[path])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = metadata.get(path.partition(".")[2], {})
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))
    raise CannotRunError("CreateContainerConfigError", f"the node agent can't offer the field {path}")
