"""What is wrong with a request on its own, or beside others."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from sluice_assignor.model import MAX_TAG_VALUE_LENGTH
from sluice_coordinator.group.members import Member
from sluice_protocol.heartbeat import RUNNING, HeartbeatRequest
from sluice_protocol.ids import worker_slot

MAX_LEADERS_MISSED = 1_000_000
"""So many leaders may have been since what this one has read of them, and no more: records that were lost."""


def problem(request: HeartbeatRequest, application_id: str) -> str | None:
    """A sentence that names the field; None if nothing is wrong."""
    return _problem_of_worker(request) or _problem_of_copies(request) or _problem_of_topology(request, application_id)


def _problem_of_worker(request: HeartbeatRequest) -> str | None:
    try:
        worker_slot(request.worker)
        UUID(request.process_id)
    except ValueError as error:
        return f"worker {request.worker!r}, processId {request.process_id!r}: {error}"
    if request.capacity < 1:
        return f"capacity of {request.worker} is {request.capacity}; a worker has at least one thread"
    return next(
        (
            f"tag {key!r} of {request.worker} has the value {value!r}; it must have from 1 to {MAX_TAG_VALUE_LENGTH} "
            "characters (KIP-708)"
            for key, value in request.tags.items()
            if not 1 <= len(value) <= MAX_TAG_VALUE_LENGTH
        ),
        None,
    )


def _problem_of_copies(request: HeartbeatRequest) -> str | None:
    for copy in request.copies:
        if copy.offset_sum < 0 and copy.offset_sum != RUNNING:
            return f"offsetSum of {copy.task} on {request.worker} is {copy.offset_sum}; it is an offset, or {RUNNING}"
        if copy.size_bytes < 0:
            return f"sizeBytes of {copy.task} on {request.worker} is {copy.size_bytes}; a copy has at least 0 bytes"
    return None


def _problem_of_topology(request: HeartbeatRequest, application_id: str) -> str | None:
    topology = request.topology
    if topology is None:
        return None
    if topology.hash() != request.topology_hash:
        return f"topologyHash of {request.worker} is {request.topology_hash!r}, not that of the topology it sends"
    if topology.application_id != application_id:
        return f"the pipeline of {request.worker} is of application {topology.application_id!r}, not {application_id!r}"
    return None


def twin(request: HeartbeatRequest, members: Iterable[Member]) -> str | None:
    """Two workers with one process id: the assignor would take them for one."""
    for member in members:
        if member.worker != request.worker and member.process_id == UUID(request.process_id):
            return (
                f"{request.worker} and {member.worker} have the same processId {request.process_id}: their state "
                "directories are copies of each other; give one of them an empty state directory"
            )
    return None


def impossible_leader(request: HeartbeatRequest, leader: int) -> str | None:
    """A newer leader that can't have been, or its epoch would be raised above whatever somebody makes up."""
    if newest_leader(request) <= leader + MAX_LEADERS_MISSED:
        return None
    return (
        f"memberEpoch or a grant of {request.worker} is of a leader more than {MAX_LEADERS_MISSED} above this one "
        f"({leader}); start the worker anew"
    )


def newest_leader(request: HeartbeatRequest) -> int:
    """The newest leader that the worker has heard, as far as the request shows it."""
    return max((request.member_epoch, *(grant.epoch for grant in request.grants))).leader
