"""Aimed crashes: a test names a step, and the first worker that takes it dies right there.

The aim is a file that all workers of an application watch. Whoever takes the step first takes the file too, by a
rename, and keeps it as the proof of the hit: an aim kills exactly one process.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sluice_pipeline.observer import Step

DIRECTORY_VARIABLE = "CHAOS_AIMS"
_AIM = "aim.json"


@dataclass(frozen=True)
class Aims:
    """The test's side: one aim at a time."""

    directory: Path

    def aim(self, number: int, step: Step, passing: int) -> None:
        """Kill the first worker that takes this step once more than `passing` times."""
        written = self.directory / f"{number}.new"
        written.write_text(json.dumps({"number": number, "step": step.name, "passing": passing}))
        written.rename(self.directory / _AIM)

    def is_hit(self, number: int) -> bool:
        return bool(list(self.directory.glob(f"hit-{number}-*")))

    def hits(self) -> Counter[str]:
        """How often each step was hit, by its name."""
        return Counter(path.name.split("-")[2] for path in self.directory.glob("hit-*"))


class CrashAt:
    """The worker's observer: kills its own process, as a lost machine would, where the aim says."""

    def __init__(self, directory: Path, worker: str) -> None:
        self._directory = directory
        self._worker = worker
        self._lock = threading.Lock()
        self._passed: Counter[int] = Counter()

    def reached(self, step: Step) -> None:
        with self._lock:
            if self._takes(step):
                os.kill(os.getpid(), signal.SIGKILL)

    def _takes(self, step: Step) -> bool:
        path = self._directory / _AIM
        try:
            aim = json.loads(path.read_text())
            if aim["step"] != step.name:
                return False
            number = aim["number"]
            self._passed[number] += 1
            if self._passed[number] <= aim["passing"]:
                return False
            path.rename(self._directory / f"hit-{number}-{step.name}-{self._worker}")
        except FileNotFoundError:
            return False  # nothing is aimed at, or another worker was first
        return True
