"""`sluice version`."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("version", help="print the version of Sluice and of what it stands on")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print a line for each part that is installed."""
    print(f"sluice {_version('sluice')}")
    print(f"python {platform.python_version()}")
    for name in ("pyspark", "confluent-kafka", "rocksdict", "pyarrow", "aiohttp"):
        print(f"{name} {_version(name)}")
    return 0


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
