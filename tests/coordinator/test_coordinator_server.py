"""The coordinator's process and HTTP, with a Kafka that never answers: it must say so, and serve all the same."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from coordinator_process import CoordinatorProcess, Worker, running_coordinator, wait_for
from coordinator_simulation import STATEFUL

from sluice_coordinator.group import Recorded
from sluice_coordinator.records import DirectoryInUseError, Records, RecordsDamagedError
from sluice_protocol import heartbeat, view
from sluice_protocol.heartbeat import Code, StatusCode
from sluice_protocol.ids import LEAVE

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    with running_coordinator(tmp_path_factory.mktemp("run"), NOBODY) as running:
        yield running


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    with contextlib.closing(Records(tmp_path)) as opened:
        yield opened


def message(body: bytes) -> str:
    return json.loads(body)["message"]


@pytest.mark.parametrize("secret", [None, "wrong", ""])
def test_a_wrong_secret_is_refused_with_a_sentence(coordinator: CoordinatorProcess, secret: str | None) -> None:
    status, body = coordinator.call("GET", coordinator.path(view.PATH), secret=secret)

    assert status == 401
    assert "secret is missing or wrong" in message(body)


def test_a_body_that_is_too_large_is_refused(coordinator: CoordinatorProcess) -> None:
    status, body = coordinator.call("POST", coordinator.path(heartbeat.PATH), b"x" * (4 * 1024 * 1024 + 1))

    assert status == 413
    assert "larger than 4194304 bytes" in message(body)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "HeartbeatRequest: not JSON"),
        (b"{}", "HeartbeatRequest: field 'memberId' is missing"),
        (b'{"memberID": 1}', "unknown field 'memberID'"),
    ],
)
def test_a_malformed_message_is_refused_by_the_name_of_its_field(
    coordinator: CoordinatorProcess, body: bytes, sentence: str
) -> None:
    status, answer = coordinator.call("POST", coordinator.path(heartbeat.PATH), body)

    assert status == 400
    assert sentence in message(answer)


def test_another_application_is_not_known(coordinator: CoordinatorProcess) -> None:
    status, body = coordinator.call("GET", view.PATH.format(namespace="local", name="payments"))

    assert (status, message(body)) == (
        404,
        "application local/payments is not known here; this is the coordinator of local/orders",
    )


def test_a_worker_name_without_a_slot_is_refused(coordinator: CoordinatorProcess) -> None:
    status, body = coordinator.call("PUT", coordinator.path(view.DRAIN_PATH, "rex"))

    assert status == 400
    assert "not of the form worker-N" in message(body)


def test_an_unreachable_kafka_is_said_to_members_and_by_readiness(coordinator: CoordinatorProcess) -> None:
    worker = Worker(coordinator, "worker-0", STATEFUL)
    assert worker.beat().code is Code.OK

    def says_so() -> bool:
        return StatusCode.KAFKA_UNREACHABLE in {status.code for status in worker.beat().statuses}

    wait_for(says_so, 60)
    status, body = coordinator.call("GET", "/readyz", secret=None)
    assert status == 503
    assert NOBODY in message(body)
    assert coordinator.call("GET", "/healthz", secret=None)[0] == 200
    assert coordinator.view().state == "not-ready"
    assert worker.beat(LEAVE).code is Code.OK


def test_metrics_are_shown_to_whoever_asks(coordinator: CoordinatorProcess) -> None:
    status, body = coordinator.call("GET", "/metrics", secret=None)

    assert status == 200
    assert b'sluice_leader_epoch{application="orders",namespace="local"} 1.0' in body
    assert b'sluice_group_state{application="orders",namespace="local",state="stable"} 0.0' in body
    assert b"sluice_request_errors_total" in body


def test_a_poll_without_news_is_held_for_the_interval(coordinator: CoordinatorProcess) -> None:
    worker = Worker(coordinator, "worker-3", STATEFUL)
    worker.beat()
    worker.beat()
    heard = coordinator.view().members[0].last_heard_ms

    worker.beat()
    worker.beat()

    assert coordinator.view().members[0].last_heard_ms - heard >= 500
    worker.beat(LEAVE)


def test_a_drain_is_told_and_taken_back(coordinator: CoordinatorProcess) -> None:
    worker = Worker(coordinator, "worker-1", STATEFUL)
    worker.beat()

    assert coordinator.call("PUT", coordinator.path(view.DRAIN_PATH, "worker-1"))[0] == 204
    assert coordinator.view().members[0].draining

    assert coordinator.call("DELETE", coordinator.path(view.DRAIN_PATH, "worker-1"))[0] == 204
    assert not coordinator.view().members[0].draining
    worker.beat(LEAVE)


def test_the_leader_epoch_rises_at_every_start_and_sigterm_ends_cleanly(tmp_path: Path) -> None:
    for leader in (1, 2, 3):
        with running_coordinator(tmp_path, NOBODY) as running:
            assert running.view().epoch.leader == leader
            if leader == 2:
                running.process.send_signal(signal.SIGKILL)
            else:
                assert running.stop() == 0


def test_a_second_coordinator_is_kept_out_of_the_directory(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with pytest.raises(DirectoryInUseError, match="another coordinator runs in"):
        Records(tmp_path)
    records.close()
    Records(tmp_path).close()


def test_records_survive_and_damage_is_named(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.footprint() == Recorded()
    records.record_footprint(Recorded(3, 2, "kafka-a"))
    assert [records.raise_leader(), records.raise_leader(above=7), records.raise_leader()] == [1, 8, 9]
    records.close()

    again = Records(tmp_path)
    assert again.footprint() == Recorded(3, 2, "kafka-a")
    (tmp_path / "leader.json").write_text("{")
    with pytest.raises(RecordsDamagedError, match=r"leader\.json is damaged"):
        again.raise_leader()
    again.close()


def test_a_footprint_without_a_cluster_can_be_read_and_one_can_be_forgotten(records: Records, tmp_path: Path) -> None:
    footprint = tmp_path / "footprint.json"
    footprint.write_text('{"slots": 3, "subtopologies": 2}')
    assert records.footprint() == Recorded(3, 2)

    records.record_footprint(Recorded(3, 2, "kafka-a"))
    records.forget_cluster()
    assert records.footprint() == Recorded(3, 2)

    footprint.write_text('{"slots": 3, "subtopologies": 2, "clusterId": 7}')
    with pytest.raises(RecordsDamagedError, match=r"footprint\.json is damaged"):
        records.footprint()
