"""A worker without a data plane: joins, holds what it is given, lets go of what is taken, leaves on SIGTERM.

Started by the supervisor in place of `sluice worker`, with the same command line. STAND_IN_WORKER_SAYS="CODE SENTENCE"
makes it say the sentence and exit with the code instead; STAND_IN_WORKER_DEAF makes it ignore SIGTERM.
"""

import itertools
import os
import signal
import sys
import uuid
from pathlib import Path

from sluice_cli.commands.worker import read_launch
from sluice_cli.http_call import UnreachableError, call
from sluice_cli.main import make_parser
from sluice_protocol.heartbeat import PATH, Code, Grant, HeartbeatAnswer, HeartbeatRequest
from sluice_protocol.ids import JOIN, LEAVE, Epoch
from sluice_protocol.launch import SECRET_VARIABLE, WorkerLaunch
from sluice_protocol.topology import Subtopology, TopologyDescription
from sluice_protocol.wire import decode, encode


class Terminated(Exception):  # noqa: N818 - an event, not an error
    """SIGTERM came."""


class StandInWorker:
    def __init__(self, launch: WorkerLaunch, secret: str) -> None:
        self._launch = launch
        self._secret = secret
        self._member_id = str(uuid.uuid4())
        self._epoch = JOIN
        self._is_known = False
        self._grants: tuple[Grant, ...] = ()
        self._sequences = itertools.count(1)
        topic = launch.pipeline.partition(":")[0]
        self._topology = TopologyDescription(launch.application_id, (Subtopology(0, source_topics=(topic,)),))
        state = Path(launch.state_dir)
        state.mkdir(parents=True, exist_ok=True)
        process_id = state / "process-id"
        if not process_id.exists():
            process_id.write_text(str(uuid.uuid4()))
        self._process_id = process_id.read_text()

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
        except UnreachableError:
            signal.sigtimedwait([], 0.05)
            return
        if answer.code is Code.OK:
            self._epoch, self._grants, self._is_known = answer.epoch, answer.grants, True
        elif answer.code is Code.UNKNOWN_MEMBER:
            self._is_known = False
        elif answer.code is Code.FENCED:
            self._member_id, self._epoch, self._grants = str(uuid.uuid4()), JOIN, ()
            self._is_known = False

    def _say(self, epoch: Epoch) -> HeartbeatAnswer:
        launch = self._launch
        request = HeartbeatRequest(
            self._member_id, launch.worker, self._process_id, launch.incarnation, epoch, next(self._sequences),
            self._topology.hash(), launch.threads,
            topology=None if self._is_known else self._topology,
            grants=self._grants,
        )  # fmt: skip
        path = PATH.format(namespace=launch.namespace, name=launch.application_id)
        return decode(HeartbeatAnswer, call("POST", launch.coordinator + path, self._secret, body=encode(request)))


def main() -> None:
    says = os.environ.get("STAND_IN_WORKER_SAYS")
    if says:
        code, _, sentence = says.partition(" ")
        print(sentence, file=sys.stderr)
        sys.exit(int(code))
    launch = read_launch(make_parser().parse_args(), os.environ)
    if "STAND_IN_WORKER_DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, _terminate)
    StandInWorker(launch, os.environ[SECRET_VARIABLE]).run()


def _terminate(*_: object) -> None:
    raise Terminated


main()
