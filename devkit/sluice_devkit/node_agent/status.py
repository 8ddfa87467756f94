"""The status of a pod as its kubelet writes it: pure, from what is known about its container."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from sluice_devkit.kubernetes.client import Json


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What is known about a pod's container. `state` is a ContainerState, as {"running": {"startedAt": …}}."""

    phase: str = "Pending"
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    is_started: bool = False
    is_ready: bool = False
    restarts: int = 0
    last_termination: Json | None = None
    container_id: str = ""

    def waiting(self, reason: str, message: str = "") -> Self:
        state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        return replace(self, state=state, is_ready=False, is_started=False)

    def running(self, container_id: str, started_at: str) -> Self:
        state = {"running": {"startedAt": started_at}}
        return replace(self, phase="Running", state=state, is_ready=False, is_started=False, container_id=container_id)

    def probed(self, *, is_started: bool, is_ready: bool) -> Self:
        return replace(self, is_started=is_started, is_ready=is_ready)

    def terminated(self, termination: Json) -> Self:
        return replace(
            self, state={"terminated": termination}, last_termination=termination, is_ready=False, is_started=False
        )

    def finished(self) -> Self:
        """The container will not start again."""
        succeeded = (self.last_termination or {}).get("exitCode") == 0
        return replace(self, phase="Succeeded" if succeeded else "Failed", is_ready=False)

    def restarting(self) -> Self:
        return replace(self, restarts=self.restarts + 1)


def termination(code: int, started_at: str, finished_at: str, container_id: str, message: str = "") -> Json:
    """A ContainerStateTerminated; `code` is as Python tells it, negative for a signal."""
    exit_code = code if code >= 0 else 128 - code
    return {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": started_at,
        "finishedAt": finished_at,
        **({"containerID": container_id} if container_id else {}),
        **({"message": message} if message else {}),
    }


def pod_status(pod: Json, facts: ContainerFacts, address: str, now: str) -> Json:
    """The whole status. Times of conditions that haven't changed are kept."""
    before = pod.get("status", {})
    return {
        "phase": facts.phase,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": before.get("startTime", now),
        "conditions": _conditions(pod, facts, now),
        "containerStatuses": [_container_status(pod, facts)],
    }


def _conditions(pod: Json, facts: ContainerFacts, now: str) -> list[Json]:
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions") or []}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", [])]
    gates_are_open = all(before.get(gate, {}).get("status") == "True" for gate in gates)
    values = {
        "PodScheduled": True,
        "Initialized": True,
        "ContainersReady": facts.is_ready,
        "Ready": facts.is_ready and gates_are_open,
    }
    return [_condition(kind, value, before.get(kind), now) for kind, value in values.items()]


def _condition(kind: str, value: bool, before: Json | None, now: str) -> Json:
    status = str(value)
    is_unchanged = before is not None and before["status"] == status and before.get("lastTransitionTime")
    since = before["lastTransitionTime"] if before is not None and is_unchanged else now
    # A merge keeps what isn't named: the scheduler's reason must go when it no longer holds.
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": None, "message": None}


def _container_status(pod: Json, facts: ContainerFacts) -> Json:
    container = pod["spec"]["containers"][0]
    shown_last = facts.last_termination is not None and "terminated" not in facts.state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"] if facts.container_id else "",
        "containerID": facts.container_id,
        "ready": facts.is_ready,
        "started": facts.is_started,
        "restartCount": facts.restarts,
        "state": facts.state,
        "lastState": {"terminated": facts.last_termination} if shown_last else {},
    }
