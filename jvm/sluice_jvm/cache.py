"""The cache directory: everything that is downloaded or derived once per machine, outside every tree."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

CACHE_VARIABLE = "SLUICE_CACHE"


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """$SLUICE_CACHE, else $XDG_CACHE_HOME/sluice, else ~/.cache/sluice."""
    named = environment.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sluice"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep every other process out of the directory's making; it is created when it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
