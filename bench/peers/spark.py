"""Spark's own stateful query as a process that says how far it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from bench.ground import Ground, Job
from bench.peers.kafka_streams import PeerError
from sluice_devkit.offsets import Advance
from sluice_jvm.launch import log_tail

_BATCH = re.compile(r"(\d+) (\d+)")
_STOP_SECONDS = 30.0


class SparkStateful:
    """One run of bench.peers.spark_stateful over a topic; it ends by itself when it has read so many records."""

    def __init__(self, ground: Ground, job: Job, records: int) -> None:
        self._log = ground.directory / f"{job.name}.log"
        self._batches: list[Advance] = []
        directory = ground.directory / job.name
        directory.mkdir()
        command = [sys.executable, "-m", "bench.peers.spark_stateful", ground.bootstrap_servers, job.source, job.sink]
        command += [str(job.partitions), str(records), str(directory)]
        reading, writing = os.pipe()
        self._output = os.fdopen(reading)
        with os.fdopen(writing, "wb") as output:
            self._process = ground.guard.start(command, output=output, directory=Path(__file__).parents[2])
        self._reader = threading.Thread(target=self._read, name=f"batches-{job.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._log.open("a") as log:
            for line in self._output:
                batch = _BATCH.fullmatch(line.strip())
                if batch:
                    self._batches.append(Advance(int(batch[1]) / 1000, int(batch[2])))
                else:
                    log.write(line)

    def batches(self, timeout: float) -> list[Advance]:
        """When each batch had ended and how many records were done then. Raises PeerError."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise PeerError(f"Spark was not done within {timeout:.0f} s.{log_tail(self._log)}") from None
        self._reader.join(_STOP_SECONDS)
        if code != 0:
            raise PeerError(f"Spark ended with {code}.{log_tail(self._log)}")
        return self._batches
