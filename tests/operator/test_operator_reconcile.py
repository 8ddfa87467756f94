"""One look at an application: finalizer, pause, end, uniqueness, and who may speak as whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from operator_builders import (
    COORDINATOR,
    a_group,
    a_manifest,
    a_member,
    a_pod,
    active,
    an_app,
    observed,
    the_revision,
)

from sluice_coordinator.admission import ProblemError
from sluice_operator.kube.tokens import PodCaller, read_review
from sluice_operator.observed import App, Membership, Part, Phase, Problem, Trouble, observe, read_app, read_pod
from sluice_operator.reasons import Reason
from sluice_operator.reconcile import AddFinalizer, RemoveFinalizer, plan
from sluice_operator.uniqueness import find_elder
from sluice_operator.workers.actions import (
    CreateClaim,
    CreatePart,
    CreatePod,
    DeletePart,
    DeletePod,
    ReportGone,
    ReportReturn,
)
from sluice_operator.workers.manifests import merge, pod_manifest
from sluice_operator.workers.shared import part_manifest


def actions(seen: Any) -> list[Any]:
    return list(plan(seen, COORDINATOR).actions)


def test_the_finalizer_comes_before_the_first_pod():
    assert actions(observed(an_app(finalizers=()))) == [AddFinalizer()]
    assert actions(observed(an_app(1))) == [CreateClaim(0), CreatePod(0)]
    assert actions(replace(observed(an_app(1)), parts={}))[:2] == [CreatePart(Part.SERVICE), CreatePart(Part.BUDGET)]


def test_a_death_is_reported_whatever_stands_in_the_way_of_acting():
    refused = an_app(problem=Problem(Reason.SECRET_NOT_FOUND, "…"))

    assert actions(observed(refused, group=a_group(members=[a_member(0)]))) == [ReportGone("worker-0", "uid-0")]


def test_a_restarted_worker_is_back_when_all_tasks_run():
    app = an_app(1)
    pods = [a_pod(0, revision=the_revision(app))]
    seen = observed(app, pods, a_group(active(0, 0), members=[a_member(0)]))
    seen = replace(seen, restarted={0: seen.now - timedelta(seconds=7)})

    assert actions(seen) == [ReportReturn(0, 7)]
    assert actions(replace(seen, group=a_group(active(0, 0, "waiting"), members=[a_member(0)]))) == []
    assert actions(replace(seen, pods=(replace(pods[0], phase=Phase.STOPPING),))) == []


def test_an_eviction_is_never_allowed_and_pods_have_names():
    budget = part_manifest(Part.BUDGET, "flights", "app-uid")
    service = part_manifest(Part.SERVICE, "flights", "app-uid")
    app = an_app()
    assert app.spec is not None
    pod = pod_manifest("flights", "default", "app-uid", 1, app.spec, COORDINATOR)

    assert budget["spec"]["maxUnavailable"] == 0
    assert budget["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None"
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert [each["metadata"]["ownerReferences"][0]["uid"] for each in (budget, service)] == ["app-uid", "app-uid"]


def test_a_paused_application_is_only_looked_at():
    group = a_group(members=[a_member(0)])

    assert actions(observed(an_app(3, paused=True), group=group)) == [ReportGone("worker-0", "uid-0")]


def test_a_refused_application_gets_no_pods():
    assert actions(observed(an_app(problem=Problem(Reason.APPLICATION_ID_TAKEN, "…")))) == []


def test_a_settled_application_needs_no_early_look():
    app = an_app(1)
    pods = [a_pod(0, revision=the_revision(app))]

    assert plan(observed(app, pods, a_group(active(0, 0), members=[a_member(0)])), COORDINATOR).is_settled
    assert not plan(observed(app, pods, a_group(members=[a_member(0)], state="reconciling")), COORDINATOR).is_settled
    starting = [replace(pods[0], membership=Membership.ABSENT)]
    assert not plan(observed(app, starting, a_group()), COORDINATOR).is_settled


def ended(seen: Any) -> list[Any]:
    """What is done when Service and budget are gone already."""
    return actions(replace(seen, parts={}))


def test_the_finalizer_goes_when_no_pod_is_left():
    going = an_app(is_going=True)

    assert ended(observed(going, [a_pod(0)], with_claims=False)) == [DeletePod(0, "uid-0", "the StreamsApp is deleted")]
    assert ended(observed(going, [a_pod(0, phase=Phase.STOPPING)], with_claims=False)) == []
    assert ended(observed(going)) == [RemoveFinalizer()]
    assert ended(observed(an_app(is_going=True, finalizers=()))) == []


def test_the_finalizer_waits_for_what_the_workers_share():
    parts = [DeletePart(part, f"uid-of-{part.value}") for part in Part]

    assert actions(observed(an_app(is_going=True))) == parts


def test_pausing_does_not_hold_up_the_end():
    assert ended(observed(an_app(is_going=True, paused=True))) == [RemoveFinalizer()]


@pytest.mark.parametrize(
    ("status", "phase", "trouble"),
    [
        ({}, Phase.STARTING, None),
        ({"state": {"running": {}}}, Phase.RUNNING, None),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, Phase.STARTING, None),
        (
            {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}},
            Phase.STARTING,
            Trouble("ErrImagePull", "no such image"),
        ),
        (
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 2}}},
            Phase.RESTARTING,
            Trouble("CrashLoopBackOff", "exit code 2", 2),
        ),
        (
            {"state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "it raised\n"}}},
            Phase.RESTARTING,
            Trouble("Error", "exit code 1; it raised", 1),
        ),
        (
            {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}},
            Phase.RUNNING,
            Trouble("Error", "exit code 1", 1),
        ),
        ({"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 0}}}, Phase.RUNNING, None),
    ],
)
def test_a_pod_is_read_as_its_node_reports_it(status: dict[str, Any], phase: Phase, trouble: Trouble | None):
    pod = pod_manifest("flights", "default", "app-uid", 1, an_app().spec, COORDINATOR)  # type: ignore[arg-type]
    pod["metadata"]["uid"] = "uid-1"
    seen = read_pod({**pod, "status": {"containerStatuses": [{"name": "worker", **status}] if status else []}})

    assert (seen.slot, seen.phase, seen.trouble) == (1, phase, trouble)
    assert seen.revision == the_revision(an_app())


def test_a_member_of_another_incarnation_is_the_former_process():
    app = an_app(1)
    assert app.spec is not None
    pod = pod_manifest("flights", "default", "app-uid", 0, app.spec, COORDINATOR)
    pod["metadata"]["uid"] = "uid-new"

    group = a_group(members=[a_member(0)])
    assert observe(app, group, True, [pod], [], observed().now).pods[0].membership is Membership.ABSENT
    pod["metadata"]["uid"] = "uid-0"
    assert observe(app, group, True, [pod], [], observed().now).pods[0].membership is Membership.MEMBER


def test_the_revision_follows_the_pod_and_nothing_else():
    app = read_app(a_manifest())
    scaled = read_app(a_manifest(workers={"replicas": 7}, assignment={"numStandbyReplicas": 1}))
    upgraded = read_app(a_manifest(pipeline={"module": "pipeline:topology", "image": "flights:2"}))

    assert the_revision(app) == the_revision(scaled)
    assert the_revision(app) != the_revision(upgraded)


def test_a_template_is_merged_over_our_pod_and_can_not_take_its_identity():
    template = {
        "metadata": {"name": "other", "labels": {"team": "x", "sluice.dev/worker": "worker-9"}},
        "spec": {"containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}]}, {"name": "sidecar"}]},
    }
    app = read_app(a_manifest(workers={"template": template}))
    assert app.spec is not None
    pod = pod_manifest("flights", "default", "app-uid", 1, app.spec, COORDINATOR)

    assert pod["metadata"]["name"] == "flights-worker-1"
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["labels"]["sluice.dev/worker"] == "worker-1"
    worker, sidecar = pod["spec"]["containers"]
    assert sidecar == {"name": "sidecar"}
    assert worker["image"] == "flights:1"
    names = [variable["name"] for variable in worker["env"]]
    assert names == ["SLUICE_POD_UID", "SLUICE_KAFKA_CONFIG", "SLUICE_COORDINATOR_CA", "A"]


def test_lists_without_names_are_replaced():
    assert merge({"command": ["a", "b"]}, {"command": ["c"]}) == {"command": ["c"]}


def test_an_application_that_can_not_be_read_says_which_field():
    app = read_app(a_manifest(surprise=1))

    assert app.spec is None
    assert app.problem is not None
    assert "unknown field 'surprise'" in app.problem.message


def twin(**changes: Any) -> App:
    return replace(an_app(), name="twin", uid="twin-uid", created="2025-01-01T00:00:00Z", **changes)


def test_the_younger_of_two_applications_with_one_id_is_refused_by_the_name_of_the_elder():
    problem = find_elder(an_app(), [an_app(), twin()])

    assert problem is not None
    assert problem.reason is Reason.APPLICATION_ID_TAKEN
    assert "default/twin" in problem.message
    assert find_elder(twin(), [an_app(), twin()]) is None


def test_applications_on_different_kafkas_may_share_an_id():
    other = read_app(a_manifest(kafka={"bootstrapServers": "elsewhere:9092"}))

    assert find_elder(an_app(), [replace(other, uid="other", created="2025-01-01T00:00:00Z")]) is None


APP = ("default", "flights")
CALLER = PodCaller("default", "flights-worker-1", "uid-1")


def test_a_pod_speaks_as_itself():
    CALLER.check_member(APP, "worker-1", "uid-1")


@pytest.mark.parametrize(
    ("app", "worker", "incarnation"),
    [
        (("other", "flights"), "worker-1", "uid-1"),
        (("default", "other"), "worker-1", "uid-1"),
        (APP, "worker-0", "uid-1"),
        (APP, "worker-1", "uid-0"),
    ],
)
def test_a_pod_speaks_for_nobody_else(app: tuple[str, str], worker: str, incarnation: str):
    with pytest.raises(ProblemError) as refused:
        CALLER.check_member(app, worker, incarnation)
    assert refused.value.status == 403


def test_a_pod_commands_nobody():
    for check in (CALLER.check_commander, lambda: CALLER.check_reader(APP)):
        with pytest.raises(ProblemError):
            check()


REVIEW = {
    "authenticated": True,
    "audiences": ["sluice.dev/coordinator"],
    "user": {
        "username": "system:serviceaccount:default:default",
        "extra": {
            "authentication.kubernetes.io/pod-name": ["flights-worker-1"],
            "authentication.kubernetes.io/pod-uid": ["uid-1"],
        },
    },
}


def test_a_review_names_the_pod():
    assert read_review(REVIEW) == CALLER


@pytest.mark.parametrize(
    "change",
    [
        {"authenticated": False},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"user": {"username": "system:serviceaccount:default:default"}},
        {"user": {"username": "admin", "extra": REVIEW["user"]["extra"]}},  # type: ignore[index]
    ],
)
def test_a_token_that_is_no_pods_is_refused(change: dict[str, Any]):
    with pytest.raises(ProblemError) as refused:
        read_review({**REVIEW, **change})
    assert refused.value.status == 401


def test_a_worker_gets_the_ca_by_which_it_verifies_the_coordinator():
    app = an_app(1)
    assert app.spec is not None
    pod = pod_manifest("flights", "default", "app-uid", 0, app.spec, COORDINATOR)

    (container,) = pod["spec"]["containers"]
    assert {"name": "SLUICE_COORDINATOR_CA", "value": "the CA"} in container["env"]
    assert "the CA" not in " ".join(container["args"])
