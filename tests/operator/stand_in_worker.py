"""A worker without a data plane, in a pod: proves who it is by its token, holds what it is given, releases on demand.

Its source topic is the module of its pipeline. While the file STAND_IN_CLINGS exists it lets go of nothing.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
import uuid
from pathlib import Path

from sluice_cli.commands.worker import read_launch
from sluice_cli.http_call import RefusedError, UnreachableError, call
from sluice_cli.main import make_parser
from sluice_protocol.heartbeat import PATH, Code, Grant, HeartbeatAnswer, HeartbeatRequest
from sluice_protocol.ids import JOIN, LEAVE, Epoch
from sluice_protocol.launch import WorkerLaunch
from sluice_protocol.topology import Subtopology, TopologyDescription
from sluice_protocol.wire import decode, encode


class Terminated(Exception):  # noqa: N818 - an event, not an error
    """SIGTERM came."""


class StandInWorker:
    def __init__(self, launch: WorkerLaunch) -> None:
        self._launch = launch
        self._member_id = str(uuid.uuid4())
        self._epoch = JOIN
        self._grants: tuple[Grant, ...] = ()
        self._sequences = itertools.count(1)
        topic = os.environ["STAND_IN_TOPIC"]
        self._topology = TopologyDescription(launch.application_id, (Subtopology(0, source_topics=(topic,)),))
        remembered = Path(launch.state_dir) / "process-id"
        if not remembered.exists():
            remembered.write_text(str(uuid.uuid4()))
        self._process_id = remembered.read_text()

    def run(self) -> None:
        try:
            while True:
                self._heartbeat()
        except Terminated:
            self._grants = ()
            self._say(LEAVE)

    def _heartbeat(self) -> None:
        try:
            answer = self._say(self._epoch)
        except (UnreachableError, RefusedError):
            time.sleep(0.2)
            return
        if answer.code is Code.OK:
            self._carry_out(answer)
        elif answer.code is Code.FENCED:
            self._member_id, self._epoch, self._grants = str(uuid.uuid4()), JOIN, ()

    def _carry_out(self, answer: HeartbeatAnswer) -> None:
        is_revoked = {grant.task for grant in self._grants} > {grant.task for grant in answer.grants}
        if is_revoked and Path(os.environ["STAND_IN_CLINGS"]).exists():
            time.sleep(0.2)
            return
        self._epoch, self._grants = answer.epoch, answer.grants

    def _say(self, epoch: Epoch) -> HeartbeatAnswer:
        launch = self._launch
        assert launch.token_file is not None
        request = HeartbeatRequest(
            self._member_id, launch.worker, self._process_id, launch.incarnation, epoch, next(self._sequences),
            self._topology.hash(), launch.threads, topology=self._topology, grants=self._grants,
        )  # fmt: skip
        path = PATH.format(namespace=launch.namespace, name=launch.app)
        token = Path(launch.token_file).read_text()
        return decode(HeartbeatAnswer, call("POST", launch.coordinator + path, token, body=encode(request)))


def main() -> None:
    launch = read_launch(make_parser().parse_args(), os.environ)
    signal.signal(signal.SIGTERM, _terminate)
    StandInWorker(launch).run()


def _terminate(*_: object) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
