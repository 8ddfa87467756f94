"""`sluice worker`, with an observer that crashes it where the test aims."""

import os
import sys
from pathlib import Path

from chaos_aims import DIRECTORY_VARIABLE, CrashAt

from sluice_cli.commands.worker import read_launch
from sluice_cli.main import make_parser
from sluice_pipeline.worker.main import run_worker
from sluice_protocol.launch import SECRET_VARIABLE

if __name__ == "__main__":
    launch = read_launch(make_parser().parse_args(), os.environ)
    observer = CrashAt(Path(os.environ[DIRECTORY_VARIABLE]), launch.worker)
    sys.exit(run_worker(launch, os.environ[SECRET_VARIABLE], observer))
