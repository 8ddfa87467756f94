"""What all benches share: rounds in which the engines take turns, the table, the rows as JSON.

Engines take turns within each round, and the first of a round is another each time: a busy neighbour or a warm page
cache then meets all of them alike.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `ratio` = ours / peer; whether more is better follows from the unit (records/s, or ms)."""

    name: str
    ours: float
    peer: float | None
    unit: str

    @property
    def ratio(self) -> float | None:
        """How many times the peer's figure ours is, if the peer was measured."""
        return None if not self.peer else round(self.ours / self.peer, 3)


def interleaved(rounds: int, engines: Sequence[str], run: Callable[[str, int], float]) -> dict[str, list[float]]:
    """Let every engine run once a round, each round beginning with the next one; the figures of each."""
    figures: dict[str, list[float]] = {engine: [] for engine in engines}
    for turn in range(rounds):
        first = turn % len(engines)
        for engine in [*engines[first:], *engines[:first]]:
            figures[engine].append(run(engine, turn))
    return figures


def medians(figures: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each engine that has figures."""
    return {engine: statistics.median(values) for engine, values in figures.items() if values}


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned, the first to the left, the others to the right."""
    lines = [list(map(str, header)), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def comparison(rows: Sequence[Row]) -> str:
    """The rows as a table with their ratios."""
    return table(
        ["", "Sluice", "peer", "ratio", "unit"], [[row.name, row.ours, row.peer, row.ratio, row.unit] for row in rows]
    )


def as_json(rows: Sequence[Row]) -> list[dict[str, str | float | None]]:
    """The rows as a list of {name, ours, peer, ratio, unit}."""
    return [{**asdict(row), "ratio": row.ratio} for row in rows]


def publish(rows: Sequence[Row], file: Path | None) -> None:
    """Print the table; when a file was named, write the rows beside those that other benches wrote there."""
    if rows:
        print(f"\n{comparison(rows)}", flush=True)
    if file is not None:
        ours = {row.name for row in rows}
        others = [row for row in json.loads(file.read_text()) if row["name"] not in ours] if file.exists() else []
        file.write_text(json.dumps([*others, *as_json(rows)], indent=1) + "\n")
        tell(f"rows written to {file}")


def tell(line: str) -> None:
    """Progress, apart from the results on standard output."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
