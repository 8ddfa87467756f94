"""The status of a pod, from what is known about its container."""

from __future__ import annotations

from typing import Any

from sluice_devkit.node_agent.status import ContainerFacts, pod_status, termination

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def a_pod(**status: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "image": "i"}]}, "status": status}


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["lastTransitionTime"]) for each in status["conditions"]}


def test_a_condition_keeps_its_time_until_it_changes():
    running = ContainerFacts().running("id", EARLY)
    before = pod_status(a_pod(), running, "127.64.0.1", EARLY)

    after = pod_status(a_pod(**before), running.probed(is_started=True, is_ready=True), "127.64.0.1", LATE)

    assert conditions(after)["Initialized"] == ("True", EARLY)
    assert conditions(after)["Ready"] == ("True", LATE)
    assert after["startTime"] == EARLY


def test_a_closed_gate_keeps_a_pod_from_being_ready():
    pod = a_pod()
    pod["spec"]["readinessGates"] = [{"conditionType": "warm"}]
    facts = ContainerFacts().running("id", EARLY).probed(is_started=True, is_ready=True)

    found = conditions(pod_status(pod, facts, "127.64.0.1", EARLY))

    assert (found["ContainersReady"][0], found["Ready"][0]) == ("True", "False")


def test_a_restarted_container_tells_its_last_end():
    ended = ContainerFacts().running("id", EARLY).terminated(termination(-9, EARLY, LATE, "id"))

    container = pod_status(a_pod(), ended.restarting().running("id2", LATE), "127.64.0.1", LATE)["containerStatuses"][0]

    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert "running" in container["state"]


def test_a_finished_container_gives_the_pod_its_phase():
    facts = ContainerFacts().running("id", EARLY)

    assert facts.terminated(termination(0, EARLY, LATE, "id")).finished().phase == "Succeeded"
    assert facts.terminated(termination(1, EARLY, LATE, "id")).finished().phase == "Failed"
