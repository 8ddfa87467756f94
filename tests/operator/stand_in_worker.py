"""A worker without a data plane, in a pod: proves who it is by its token, holds what it is given, releases on demand.

It reads the topics of STAND_IN_TOPIC together. While the file STAND_IN_CLINGS is there it lets go of nothing; beside it
it notes with what it was launched. STAND_IN_FAILS says what is wrong with it: `raises`, `version`, or nothing. With
STAND_IN_DEAD_LETTERS it has an internal topic. It prints each answer, and what it holds whenever that changes.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from sluice_cli.commands.worker import read_launch
from sluice_cli.main import make_parser
from sluice_pipeline.worker.agent import Agent, heartbeat_path, secret_of
from sluice_protocol.heartbeat import Code, Grant, HeartbeatAnswer, HeartbeatRequest
from sluice_protocol.ids import JOIN, LEAVE, Epoch, dead_letter_topic
from sluice_protocol.launch import EXIT_NOT_ADMITTED, WorkerLaunch
from sluice_protocol.route import Route
from sluice_protocol.topology import Subtopology, TopologyDescription
from sluice_protocol.wire import encode

_LEAVE_SECONDS = 3.0
CLINGS = Path(os.environ["STAND_IN_CLINGS"])
FAILS = os.environ.get("STAND_IN_FAILS", "")


@dataclass(frozen=True, slots=True)
class OtherVersion(HeartbeatRequest):
    """What no coordinator knows."""

    warp: int = 9


class Terminated(Exception):  # noqa: N818 - an event, not an error
    """SIGTERM came."""


class StandInWorker:
    def __init__(self, launch: WorkerLaunch) -> None:
        self._launch = launch
        self._member_id = str(uuid.uuid4())
        self._epoch = JOIN
        self._grants: tuple[Grant, ...] = ()
        self._answers: queue.SimpleQueue[HeartbeatAnswer] = queue.SimpleQueue()
        topics = tuple(os.environ["STAND_IN_TOPIC"].split(","))
        subtopology = Subtopology(0, source_topics=topics, copartitioned=(topics,))
        application = launch.application_id
        dead_letters = dead_letter_topic(application) if "STAND_IN_DEAD_LETTERS" in os.environ else None
        self._topology = TopologyDescription(application, (subtopology,), dead_letters)
        remembered = Path(launch.state_dir) / "process-id"
        if not remembered.exists():
            remembered.write_text(str(uuid.uuid4()))
        self._process_id = remembered.read_text()

    def run(self) -> None:
        launch = self._launch
        agent = Agent(
            Route(launch.coordinator, launch.coordinator_ca),
            heartbeat_path(launch.namespace, launch.app or launch.application_id),
            secret_of(launch, ""),
            on_answer=lambda answer, _: self._answers.put(answer),
            on_refused=_refuse,
            watch=lambda: None,
        )
        agent.start()
        try:
            while True:
                agent.submit(self._request(self._epoch))
                self._take(self._answers.get())
        except Terminated:
            self._grants = ()
            agent.leave(self._request(LEAVE), _LEAVE_SECONDS)

    def _take(self, answer: HeartbeatAnswer) -> None:
        print("answered", f"{time.monotonic():.3f}", answer.code.value, answer.epoch, flush=True)
        if answer.code is Code.OK:
            self._carry_out(answer)
        elif answer.code is Code.FENCED:
            self._member_id, self._epoch = str(uuid.uuid4()), JOIN
            self._hold(())
        elif answer.code is Code.UNKNOWN_MEMBER:
            self._epoch = JOIN

    def _carry_out(self, answer: HeartbeatAnswer) -> None:
        is_revoked = {grant.task for grant in self._grants} > {grant.task for grant in answer.grants}
        if is_revoked and CLINGS.exists():
            time.sleep(0.2)
            return
        self._epoch = answer.epoch
        self._hold(answer.grants)

    def _hold(self, grants: tuple[Grant, ...]) -> None:
        if grants != self._grants:
            print("holds", f"{time.monotonic():.3f}", *(grant.task for grant in grants), flush=True)
        self._grants = grants

    def _request(self, epoch: Epoch) -> HeartbeatRequest:
        launch = self._launch
        message = OtherVersion if FAILS == "version" else HeartbeatRequest
        return message(
            self._member_id, launch.worker, self._process_id, launch.incarnation, epoch, 0,
            self._topology.hash(), launch.threads, topology=self._topology, rack=launch.rack, tags=launch.tags,
            grants=self._grants,
        )  # fmt: skip


def main() -> None:
    launch = read_launch(make_parser().parse_args(), os.environ)
    CLINGS.with_name(f"{launch.app}-{launch.worker}.json").write_bytes(encode(launch))
    if FAILS == "raises":
        raise ZeroDivisionError("it can not be divided")
    signal.signal(signal.SIGTERM, _terminate)
    StandInWorker(launch).run()


def _refuse(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
    os._exit(EXIT_NOT_ADMITTED)


def _terminate(*_: object) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
