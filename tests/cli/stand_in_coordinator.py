"""A coordinator that grants nothing and needs no Kafka: knows its members, their drains and deaths, and shows them.

Started by the supervisor in place of `sluice coordinator`, with the same command line. A member is drained
STAND_IN_DRAIN_SECONDS after it was asked. Reported deaths are appended to `gone` in its directory.
STAND_IN_COORDINATOR_SAYS="CODE SENTENCE" makes it say the sentence and exit with the code instead.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sluice_protocol.heartbeat import Code, HeartbeatAnswer, HeartbeatRequest, Load
from sluice_protocol.ids import LEAVE, Epoch
from sluice_protocol.launch import SECRET_VARIABLE
from sluice_protocol.view import GroupView, MemberView
from sluice_protocol.wire import decode, encode

EPOCH = Epoch(1, 1)
ANSWER_SECONDS = 0.1


class Group:
    def __init__(self, name: str, directory: Path) -> None:
        self._name = name
        self._gone = directory / "gone"
        self._drain_seconds = float(os.environ.get("STAND_IN_DRAIN_SECONDS", "0"))
        self._members: dict[str, MemberView] = {}
        self._draining: dict[str, float] = {}
        self._lock = threading.Lock()

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        with self._lock:
            if request.member_epoch == LEAVE:
                self._members.pop(request.worker, None)
            else:
                self._members[request.worker] = MemberView(
                    request.worker, request.member_id, request.process_id, request.incarnation, EPOCH,
                    request.capacity, "stable", False, int(time.time() * 1000), Load(),
                )  # fmt: skip
        return HeartbeatAnswer(Code.OK, EPOCH, request.sequence)

    def drain(self, worker: str) -> None:
        with self._lock:
            self._draining[worker] = time.monotonic() + self._drain_seconds

    def undrain(self, worker: str) -> None:
        with self._lock:
            self._draining.pop(worker, None)

    def gone(self, worker: str, incarnation: str) -> None:
        with self._lock:
            member = self._members.get(worker)
            if member is not None and member.incarnation == incarnation:
                del self._members[worker]
            with self._gone.open("a") as file:
                file.write(f"{worker} {incarnation}\n")

    def view(self) -> GroupView:
        with self._lock:
            members = tuple(self._shown(member) for member in self._members.values())
        return GroupView(self._name, EPOCH, "stable", None, None, members, ())

    def _shown(self, member: MemberView) -> MemberView:
        drained_at = self._draining.get(member.worker)
        if drained_at is None:
            return member
        return replace(member, draining=True, state="drained" if time.monotonic() >= drained_at else "draining")


class Handler(BaseHTTPRequestHandler):
    group: Group
    secret: str

    def do_GET(self) -> None:
        self._answer(encode(self.group.view()))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path.endswith("/heartbeat"):
            answer = self.group.heartbeat(decode(HeartbeatRequest, body))
            time.sleep(ANSWER_SECONDS)  # the long poll
            self._answer(encode(answer))
        elif self.path.endswith("/resume"):
            self._answer(b"")
        else:
            self.group.gone(self._worker(), json.loads(body)["incarnation"])
            self._answer(b"")

    def do_PUT(self) -> None:
        self.group.drain(self._worker())
        self._answer(b"")

    def do_DELETE(self) -> None:
        self.group.undrain(self._worker())
        self._answer(b"")

    def log_message(self, *_: object) -> None:
        pass

    def _worker(self) -> str:
        return self.path.split("/")[-2]

    def _answer(self, body: bytes) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {self.secret}"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    says = os.environ.get("STAND_IN_COORDINATOR_SAYS")
    if says:
        code, _, sentence = says.partition(" ")
        print(sentence, file=sys.stderr)
        sys.exit(int(code))
    parser = argparse.ArgumentParser()
    for flag in ("--application-id", "--directory"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--port", required=True, type=int)
    arguments, _ = parser.parse_known_args(sys.argv[2:])
    directory = Path(arguments.directory)
    Handler.group = Group(arguments.application_id, directory)
    Handler.secret = os.environ[SECRET_VARIABLE]
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    address = {"url": f"http://127.0.0.1:{arguments.port}", "pid": os.getpid()}
    temporary = directory / ".coordinator.json"
    temporary.write_text(json.dumps(address))
    temporary.replace(directory / "coordinator.json")
    server.serve_forever(poll_interval=0.02)


main()
