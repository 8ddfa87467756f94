"""One look at an application: from what is observed to what is to be done, said and reported. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sluice_operator.observed import FINALIZER, Observed
from sluice_operator.spec.model import StreamsAppSpec, StreamsAppStatus
from sluice_operator.status import Event, events_of, status_of
from sluice_operator.workers.manifests import Coordinator, revision
from sluice_operator.workers.plan import Action, plan_deletion, plan_workers, report_deaths


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
    return Plan(actions, status, events_of(observed.app.conditions, status.conditions), is_stable and not actions)


def _actions(observed: Observed, coordinator: Coordinator) -> tuple[Action | AddFinalizer | RemoveFinalizer, ...]:
    app = observed.app
    if app.is_going:
        return _end(observed)
    if app.spec is None or app.problem is not None:
        return ()
    deaths = report_deaths(observed.group, observed.pods)
    if app.spec.paused:
        return deaths
    if FINALIZER not in app.finalizers:
        return (AddFinalizer(),)
    return (*deaths, *_act(observed, app.spec, coordinator))


def _act(observed: Observed, spec: StreamsAppSpec, coordinator: Coordinator) -> tuple[Action, ...]:
    return plan_workers(
        spec.workers.replicas,
        revision(observed.app.name, observed.app.namespace, spec, coordinator),
        observed.pods,
        observed.claims,
        deletes_volumes=spec.workers.state_volume.retention_policy.when_scaled == "Delete",
    )


def _end(observed: Observed) -> tuple[Action | RemoveFinalizer, ...]:
    """Without our finalizer nothing of the application is here: it is put on before the first pod."""
    app = observed.app
    if FINALIZER not in app.finalizers:
        return ()
    spec = app.spec
    deletes = spec is not None and spec.workers.state_volume.retention_policy.when_deleted == "Delete"
    actions = plan_deletion(observed.pods, observed.claims, deletes_volumes=deletes)
    return actions if actions or observed.pods else (RemoveFinalizer(),)
