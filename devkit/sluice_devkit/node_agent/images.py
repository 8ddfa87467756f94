"""What is in an image, on machines that pull none: the command that it would run, and its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice_jvm.cache import cache_directory

_KEPT_VARIABLES = ("JAVA_HOME", "LANG", "LC_ALL", "TZ")


def of_this_machine() -> dict[str, str]:
    """The environment that lets this machine's programs run: this Python first on the PATH, downloads kept."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {"PATH": path, "SLUICE_CACHE": str(cache_directory()), **kept}


@dataclass(frozen=True, slots=True)
class Image:
    """As in a Dockerfile: a pod's `command` replaces `entrypoint` and `arguments`, its `args` the latter."""

    entrypoint: Sequence[str] = ()
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=of_this_machine)


def find_image(images: Mapping[str, Image], reference: str) -> Image | None:
    """The image of that exact name, else the one that is known by its name without tag and digest."""
    if (exact := images.get(reference)) is not None:
        return exact
    name = reference.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return images.get(f"{head}{slash}{tail.partition(':')[0]}")
