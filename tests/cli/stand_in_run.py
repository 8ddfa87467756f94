"""An application of stand-ins; run as a script it is a supervisor in a process of its own, to be killed."""

import signal
import sys
from pathlib import Path

from sluice_cli.local import LocalApplication, LocalSettings
from sluice_cli.local.backoff import Backoff

HERE = Path(__file__).parent


def stand_in_settings(run_directory: Path) -> LocalSettings:
    return LocalSettings(
        pipeline="orders:topology",
        bootstrap_servers="127.0.0.1:1",
        application_id="orders",
        run_directory=run_directory,
        workers=2,
        worker_command=(sys.executable, str(HERE / "stand_in_worker.py")),
        coordinator_command=(sys.executable, str(HERE / "stand_in_coordinator.py")),
        backoff=Backoff(first_ms=100, cap_ms=400),
        stop_timeout_ms=5_000,
    )


if __name__ == "__main__":
    with LocalApplication(stand_in_settings(Path(sys.argv[1]))):
        signal.pause()
