"""One look at an application: from what is observed to what is to be done, said and reported. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice_operator.conditions import all_run, kafka_reachable
from sluice_operator.nodes import Standing
from sluice_operator.observed import FINALIZER, Cleanup, Membership, Observed, Phase
from sluice_operator.reasons import Reason
from sluice_operator.spec.model import StreamsAppSpec, StreamsAppStatus
from sluice_operator.status import Event, events_of, status_of
from sluice_operator.workers.actions import Action, DeleteTopics, LeaveTopics, ReportReturn
from sluice_operator.workers.manifests import Coordinator, revision
from sluice_operator.workers.plan import plan_deletion, plan_parts, plan_workers, report_deaths
from sluice_operator.workers.replacement import Wanted

CLEANUP_LIMIT = timedelta(minutes=5)
"""A StreamsApp whose topics can't be deleted goes without them so long after its deletion was asked for."""


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Keep the StreamsApp until its workers are gone."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the StreamsApp go."""


@dataclass(frozen=True, slots=True)
class Plan:
    """In this order: actions, status, events. `is_settled`: nothing will change without somebody doing something."""

    actions: tuple[Action | AddFinalizer | RemoveFinalizer, ...]
    status: StreamsAppStatus
    events: tuple[Event, ...]
    is_settled: bool


def plan(observed: Observed, coordinator: Coordinator) -> Plan:
    """What to do now. `coordinator`: how workers reach it."""
    status = status_of(observed)
    actions = _actions(observed, coordinator)
    is_stable = observed.group is None or observed.group.state == "stable"
    awaits_nobody = not (_restarting(observed) or _awaits_members(observed) or _awaits_secret(observed))
    is_settled = is_stable and not actions and awaits_nobody
    return Plan(actions, status, events_of(observed.app.conditions, status.conditions), is_settled)


def _awaits_members(observed: Observed) -> bool:
    """Do workers start of which the group will hear, and the API won't?"""
    return any(
        pod.phase is Phase.RUNNING and pod.standing is not Standing.LOST and pod.membership is not Membership.MEMBER
        for pod in observed.pods
    )


def _awaits_secret(observed: Observed) -> bool:
    """Is a Secret to be created or mended? The operator does not watch those."""
    problem = observed.app.problem
    return problem is not None and problem.reason in (Reason.SECRET_NOT_FOUND, Reason.SECRET_KEY_MISSING)


def _actions(observed: Observed, coordinator: Coordinator) -> tuple[Action | AddFinalizer | RemoveFinalizer, ...]:
    app = observed.app
    if app.is_going:
        return _end(observed)
    deaths = report_deaths(observed.group, observed.pods)
    if app.spec is None or app.problem is not None or app.spec.paused or _awaits_kafka(observed):
        return deaths
    if FINALIZER not in app.finalizers:
        return (AddFinalizer(),)
    return (*deaths, *_returns(observed), *plan_parts(observed.parts), *_act(observed, app.spec, coordinator))


def _awaits_kafka(observed: Observed) -> bool:
    """Has it still to be seen which Kafka the spec names? There a worker fences whoever else has its name, even before
    it joins, so that the first pod waits for the record; later ones only until Kafka has been asked."""
    return observed.app.cluster_id is None or kafka_reachable(observed).reason is Reason.NOT_ANSWERED_YET


def _act(observed: Observed, spec: StreamsAppSpec, coordinator: Coordinator) -> tuple[Action, ...]:
    wanted = Wanted(
        replicas=spec.workers.replicas,
        revision=revision(observed.app.name, observed.app.namespace, spec, coordinator, observed.app.secret_version),
        in_place=spec.rollout == "Restart",
        deletes_volumes=spec.workers.state_volume.retention_policy.when_scaled == "Delete",
    )
    return plan_workers(wanted, observed.pods, observed.claims)


def _returns(observed: Observed) -> tuple[Action, ...]:
    """Workers that were restarted in place and are back, once all tasks run again."""
    group = observed.group
    if group is None or group.state != "stable" or not all_run(group):
        return ()
    back = {
        pod.slot for pod in observed.pods if pod.membership is Membership.MEMBER and pod.phase is not Phase.STOPPING
    }
    return tuple(
        ReportReturn(slot, round((observed.now - since).total_seconds()))
        for slot, since in _restarting(observed).items()
        if slot in back
    )


def _restarting(observed: Observed) -> Mapping[int, datetime]:
    """Since when; a slot that isn't wanted any more doesn't come back."""
    replicas = 0 if observed.app.spec is None else observed.app.spec.workers.replicas
    return {slot: since for slot, since in observed.restarted.items() if slot < replicas}


def _end(observed: Observed) -> tuple[Action | RemoveFinalizer, ...]:
    """Without our finalizer nothing of the application is here: it is put on before the first pod."""
    app = observed.app
    if FINALIZER not in app.finalizers:
        return ()
    spec = app.spec
    deletes = spec is not None and spec.workers.state_volume.retention_policy.when_deleted == "Delete"
    actions = plan_deletion(observed.pods, observed.claims, observed.parts, deletes_volumes=deletes)
    if actions or observed.pods:
        return actions
    return _clean_up(observed, spec)


def _clean_up(observed: Observed, spec: StreamsAppSpec | None) -> tuple[Action | RemoveFinalizer, ...]:
    """What is left in Kafka goes after the last worker, which might make it anew; but not at any price."""
    if spec is None or spec.deletion_policy == "Retain" or observed.cleanup is Cleanup.DONE:
        return (RemoveFinalizer(),)
    topics = observed.app.internal_topics
    since = observed.app.deleted_at or observed.now
    if observed.cleanup is Cleanup.FAILED and observed.now - since >= CLEANUP_LIMIT:
        return LeaveTopics(topics, observed.cleanup_problem), RemoveFinalizer()
    return (DeleteTopics(topics),)
