"""One look at an application: finalizer, pause, end, uniqueness, and who may speak as whom."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from operator_builders import (
    CLUSTER_ID,
    COORDINATOR,
    NOW,
    a_group,
    a_manifest,
    a_member,
    a_pod,
    active,
    an_app,
    observed,
    the_revision,
)

from sluice_assignor import AssignmentConfig, RackAwareStrategy
from sluice_coordinator.admission import ProblemError
from sluice_operator.kube.tokens import PodCaller, read_review
from sluice_operator.observed import (
    App,
    Cleanup,
    Membership,
    Observed,
    Part,
    Phase,
    Problem,
    Trouble,
    observe,
    read_app,
    read_pod,
    refusal_of,
    with_credentials,
)
from sluice_operator.reasons import Reason
from sluice_operator.reconcile import AddFinalizer, RemoveFinalizer, plan
from sluice_operator.status import status_of
from sluice_operator.uniqueness import find_elder, find_twin
from sluice_operator.workers.actions import (
    CreateClaim,
    CreatePart,
    CreatePod,
    DeletePart,
    DeletePod,
    DeleteTopics,
    LeaveTopics,
    ReportGone,
    ReportReturn,
)
from sluice_operator.workers.manifests import claim_manifest, merge, pod_manifest, revision
from sluice_operator.workers.shared import part_manifest
from sluice_protocol.heartbeat import StatusCode


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


def test_nobody_waits_for_a_restarted_worker_that_is_not_wanted_any_more():
    app = an_app(1)
    pods = [a_pod(0, revision=the_revision(app))]
    seen = observed(app, pods, a_group(active(0, 0), members=[a_member(0)]))

    assert plan(replace(seen, restarted={1: seen.now}), COORDINATOR).is_settled
    assert not plan(replace(seen, restarted={0: seen.now}), COORDINATOR).is_settled


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


@pytest.mark.parametrize(
    ("reason", "is_settled"),
    [(Reason.SECRET_NOT_FOUND, False), (Reason.SECRET_KEY_MISSING, False), (Reason.APPLICATION_ID_TAKEN, True)],
)
def test_a_secret_that_nobody_watches_needs_an_early_look(reason: Reason, is_settled: bool):
    app = an_app(problem=Problem(reason, "…"))

    assert plan(observed(app), COORDINATOR).is_settled is is_settled


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


def the_manifests(slot: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pod and claim as the API server has them."""
    app = an_app()
    assert app.spec is not None
    pod = pod_manifest(app.name, app.namespace, app.uid, slot, app.spec, COORDINATOR)
    claim = claim_manifest(app.name, slot, app.spec)
    pod["metadata"]["uid"], claim["metadata"]["uid"] = f"uid-{slot}", f"claim-{slot}"
    return pod, claim


def renamed(item: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], **metadata}}


def test_pods_and_claims_of_others_do_not_count_whatever_their_labels_say():
    pod, claim = the_manifests(1)
    labels = pod["metadata"]["labels"]
    strangers = [
        renamed(pod, name="flights-worker-1-debug"),
        renamed(pod, name="flights-worker-2"),
        renamed(pod, name="stranger", labels={"sluice.dev/app": "flights"}),
        renamed(pod, name="stranger", labels={**labels, "sluice.dev/worker": "tea-lady"}),
        renamed(pod, name="flights-worker-01", labels={**labels, "sluice.dev/worker": "worker-01"}),
        renamed(pod, ownerReferences=[]),
        renamed(pod, ownerReferences=[{"uid": "former-app"}]),
    ]
    copies = [
        renamed(claim, name="state-flights-worker-1-restored"),
        renamed(claim, name="state", labels={"sluice.dev/app": "flights"}),
        renamed(claim, name="state", labels={**labels, "sluice.dev/worker": ""}),
    ]

    seen = observe(an_app(), None, True, [*strangers, pod], [*copies, claim], NOW)

    assert [(each.slot, each.uid) for each in seen.pods] == [(1, "uid-1")]
    assert [(each.slot, each.uid) for each in seen.claims] == [(1, "claim-1")]
    assert observe(an_app(), None, True, strangers, copies, NOW).pods == ()


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_volume_is_not_owned_so_that_its_policy_may_still_change(policy: str):
    app = read_app(a_manifest(workers={"stateVolume": {"retentionPolicy": {"whenDeleted": policy}}}))
    assert app.spec is not None

    assert "ownerReferences" not in claim_manifest(app.name, 0, app.spec)["metadata"]


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
        "metadata": {"labels": {"team": "x"}},
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
    assert names == ["SLUICE_POD_UID", "SLUICE_KAFKA_CONFIG", "SLUICE_COORDINATOR_CA", "SLUICE_RACK", "A"]


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"metadata": {"labels": {"sluice.dev/worker": "worker-9"}}}, "metadata.labels may not hold sluice.dev/worker"),
        ({"spec": {"restartPolicy": "Never"}}, "spec.restartPolicy"),
        ({"spec": {"nodeName": "node-x"}}, "spec.nodeName"),
        ({"spec": {"containers": {"name": "worker"}}}, "spec.containers must be a list of objects that have a name"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers must be"),
        ({"spec": {"volumes": [{"name": "state", "emptyDir": {}}]}}, "spec.volumes[0]"),
        ({"spec": {"containers": [{"name": "worker", "image": "other"}]}}, "image may not be set: use spec.pipeline"),
        ({"spec": {"containers": [{"name": "worker", "env": [{"name": "SLUICE_SECRET"}]}]}}, "SLUICE_SECRET"),
        ({"spec": {"containers": [{"name": "worker", "env": ["A"]}]}}, "containers[worker].env must be"),
        ({"spec": {"containers": [{"name": "worker", "volumeMounts": [{"name": "state"}]}]}}, "may not mount state"),
    ],
)
def test_a_template_may_not_set_what_the_operator_owns(template: dict[str, Any], field: str):
    app = read_app(a_manifest(workers={"template": template}))

    assert app.problem is not None
    assert app.problem.reason is Reason.TEMPLATE_NOT_ALLOWED
    assert field in app.problem.message
    assert app.may_be_coordinated


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": {"labels": {"team": "x"}, "annotations": {"a": "b"}}},
        {"spec": {"serviceAccountName": "x", "tolerations": [{"key": "a"}], "nodeSelector": {"a": "b"}}},
        {"spec": {"containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}]}, {"name": "sidecar"}]}},
    ],
)
def test_a_template_may_set_everything_else(template: dict[str, Any]):
    assert read_app(a_manifest(workers={"template": template})).problem is None


# The Secret.

SECRET_REF = {"name": "kafka", "settings": {"sasl.password": "password"}}


def secret(data: dict[str, str], version: str = "1", uid: str = "secret-uid") -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"uid": uid, "resourceVersion": version}, "data": encoded}


def secretive() -> App:
    return read_app(a_manifest(kafka={"bootstrapServers": "kafka:9092", "secretRef": SECRET_REF}))


def test_the_operators_clients_get_what_the_secret_holds():
    app = with_credentials(secretive(), secret({"password": "hunter2"}))

    assert app.spec is not None
    assert app.spec.coordinator_settings("", "", app.credentials).kafka_config == {"sasl.password": "hunter2"}
    assert "hunter2" not in repr(app)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, Reason.SECRET_NOT_FOUND),
        ({}, Reason.SECRET_KEY_MISSING),
        (secret({"user": "x"}), Reason.SECRET_KEY_MISSING),
        ({"data": {"password": base64.b64encode(b"\xff").decode()}}, Reason.SECRET_KEY_MISSING),
    ],
)
def test_a_secret_that_does_not_hold_it_is_a_problem(found: Any, reason: Reason):
    app = with_credentials(secretive(), found)

    assert app.problem is not None
    assert app.problem.reason is reason
    assert "default/kafka" in app.problem.message
    assert not app.may_be_coordinated


def test_workers_get_the_secret_as_files_and_no_pod_says_what_is_in_it():
    app = with_credentials(secretive(), secret({"password": "hunter2"}))
    assert app.spec is not None
    pod = pod_manifest("flights", "default", "app-uid", 0, app.spec, COORDINATOR, app.secret_version)

    assert "hunter2" not in json.dumps(pod)
    volume = next(each for each in pod["spec"]["volumes"] if each["name"] == "kafka-credentials")
    assert volume["secret"] == {"secretName": "kafka", "items": [{"key": "password", "path": "sasl.password"}]}


def revision_with(found: dict[str, Any]) -> str:
    app = with_credentials(secretive(), found)
    assert app.spec is not None
    return revision("flights", "default", app.spec, COORDINATOR, app.secret_version)


def test_a_changed_secret_makes_pods_outdated():
    found = secret({"password": "a"}, "1")

    assert revision_with(found) == revision_with(found)
    assert revision_with(found) != revision_with(secret({"password": "b"}, "2"))
    assert revision_with(found) != revision_with(secret({"password": "a"}, "1", uid="that of its successor"))


def test_passwords_can_not_be_tried_on_a_pods_revision():
    assert revision_with(secret({"password": "a"})) == revision_with(secret({"password": "b"}))


# Zones.


def test_a_worker_learns_its_zone_and_its_tags_from_the_labels_of_its_pod():
    app = read_app(a_manifest(assignment={"rackAware": {"strategy": "MinTraffic", "tags": ["region", "team"]}}))
    assert app.spec is not None
    (container,) = pod_manifest("flights", "default", "app-uid", 0, app.spec, COORDINATOR)["spec"]["containers"]
    read = {
        variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in container["env"]
        if "valueFrom" in variable
    }

    assert read["SLUICE_RACK"] == "metadata.labels['topology.kubernetes.io/zone']"
    assert read["SLUICE_TAG_0"] == "metadata.labels['topology.kubernetes.io/region']"
    assert read["SLUICE_TAG_1"] == "metadata.labels['team']"
    assert {"--rack=$(SLUICE_RACK)", "--tag=region=$(SLUICE_TAG_0)"} <= set(container["args"])


def test_the_defaults_of_the_spec_are_those_of_the_assignor():
    app = read_app(a_manifest())
    assert app.spec is not None

    assert app.spec.assignment.config() == AssignmentConfig()


def test_what_the_spec_says_of_zones_and_strategies_reaches_the_assignor():
    app = read_app(
        a_manifest(
            assignment={
                "rackAware": {"strategy": "BalanceSubtopology", "trafficCost": 3, "tags": ["zone"]},
                "balanced": {"balanceFactor": 2, "statefulBalance": 30},
                "incremental": {"imbalancePercentage": 5},
                "optimal": {"subtopologySpread": 7},
            }
        )
    )
    assert app.spec is not None
    config = app.spec.assignment.config()

    assert config.rack_aware_strategy is RackAwareStrategy.BALANCE_SUBTOPOLOGY
    assert (config.traffic_cost, config.non_overlap_cost, config.rack_aware_tags) == (3, None, ("zone",))
    assert (config.balanced.balance_factor, config.balanced.stateful_balance) == (2, 0.3)
    assert (config.incremental.imbalance_percentage, config.optimal.subtopology_spread) == (5, 7)


# What is left in Kafka.


def going(minutes: float = 0, **changes: Any) -> Observed:
    manifest = a_manifest(deletionPolicy="Delete")
    app = replace(read_app(manifest), status={"internalTopics": ["flights-a-changelog"]}, deleted_at=NOW)
    return replace(observed(app), parts={}, now=NOW + timedelta(minutes=minutes), **changes)


TOPICS = ("flights-a-changelog",)


def test_topics_are_deleted_after_the_last_pod_and_before_the_finalizer():
    assert actions(replace(going(), pods=(a_pod(0, phase=Phase.STOPPING),))) == []
    assert actions(going()) == [DeleteTopics(TOPICS)]
    assert actions(going(cleanup=Cleanup.DONE)) == [RemoveFinalizer()]


def test_a_kafka_that_can_not_be_reached_keeps_nobody_for_ever():
    failed = {"cleanup": Cleanup.FAILED, "cleanup_problem": "Kafka does not answer."}

    assert actions(going(4.9, **failed)) == [DeleteTopics(TOPICS)]
    assert actions(going(5, **failed)) == [LeaveTopics(TOPICS, "Kafka does not answer."), RemoveFinalizer()]
    assert actions(going(60)) == [DeleteTopics(TOPICS)]


def test_topics_are_remembered_for_as_long_as_they_may_be_there():
    app = replace(an_app(), status={"internalTopics": ["flights-former-changelog"]})

    assert status_of(observed(app, group=a_group())).internal_topics == (
        "flights-by-plane-changelog", "flights-former-changelog",
    )  # fmt: skip
    assert status_of(observed(app)).internal_topics == ("flights-former-changelog",)


def test_lists_without_names_are_replaced():
    assert merge({"command": ["a", "b"]}, {"command": ["c"]}) == {"command": ["c"]}


def test_an_application_that_can_not_be_read_says_which_field():
    app = read_app(a_manifest(surprise=1))

    assert app.spec is None
    assert app.problem is not None
    assert "unknown field 'surprise'" in app.problem.message


def recorded(cluster_id: str | None, slots: int = 0) -> dict[str, Any]:
    """A status."""
    return {"footprint": {"slots": slots, "subtopologies": 0, "clusterId": cluster_id}}


NEW = recorded(None)


def twin(servers: str = "kafka:9092", **changes: Any) -> App:
    """Older than an_app()."""
    app = read_app(a_manifest(kafka={"bootstrapServers": servers}))
    return replace(app, name="twin", uid="twin-uid", created="2025-01-01T00:00:00Z", **changes)


def test_no_pod_is_made_before_it_is_on_record_which_kafka_it_is():
    new = observed(an_app(1, status=NEW), group=a_group())

    assert actions(new) == []
    assert actions(replace(new, app=an_app(1))) == [CreateClaim(0), CreatePod(0)]


def test_no_pod_is_touched_before_the_kafka_of_a_changed_spec_has_answered():
    asked = replace(observed(an_app(1), group=a_group()), reaches_kafka=False)
    unreachable = replace(asked, group=a_group(code=StatusCode.KAFKA_UNREACHABLE))

    assert actions(asked) == []
    assert actions(unreachable) == [CreateClaim(0), CreatePod(0)]


@pytest.mark.parametrize("code", [StatusCode.KAFKA_CLUSTER_CHANGED, StatusCode.APPLICATION_ID_TAKEN])
def test_a_group_that_does_not_go_on_is_a_problem_of_its_application(code: StatusCode):
    problem = refusal_of(a_group(code=code))

    assert problem == Problem(Reason[code.value], f"{code.value} it is.")
    assert refusal_of(a_group(code=StatusCode.KAFKA_UNREACHABLE)) is None


def test_the_younger_of_two_applications_with_one_id_is_refused_by_the_name_of_the_elder():
    new, elder = an_app(status=NEW), twin(status=NEW)

    problem = find_elder(new, [new, elder])

    assert problem is not None
    assert problem.reason is Reason.APPLICATION_ID_TAKEN
    assert "default/twin" in problem.message
    assert find_elder(elder, [new, elder]) is None


def test_an_application_id_is_taken_on_a_cluster_whatever_its_address():
    new, elder = an_app(status=NEW), twin("other-name:9092")

    assert find_elder(new, [new, elder]) is None  # nobody knows yet
    assert find_elder(new, [new, elder], "kafka-b") is None
    problem = find_elder(new, [new, elder], CLUSTER_ID)

    assert problem is not None
    assert "default/twin" in problem.message
    assert find_twin(new, [new, elder], CLUSTER_ID) == elder


def test_whose_cluster_is_on_record_comes_before_an_older_one():
    assert find_elder(an_app(), [twin(status=NEW)]) is None
    assert find_elder(twin(status=NEW), [an_app()], CLUSTER_ID) is not None


def test_one_address_that_leads_to_two_clusters_has_two_applications():
    assert find_elder(an_app(status=recorded("kafka-b")), [twin()]) is None
    assert find_twin(an_app(status=recorded("kafka-b")), [twin()]) is None


def test_of_two_applications_made_in_one_second_the_one_that_has_run_is_the_elder():
    ran = an_app(uid="z", status=recorded(None, slots=1))
    new = an_app(name="twin", uid="a", status=NEW)

    problem = find_elder(new, [ran, new])

    assert problem is not None
    assert "default/flights" in problem.message


def test_topics_that_another_application_uses_too_have_a_twin():
    assert find_twin(an_app(), [an_app(), twin()]) == twin()
    assert find_twin(an_app(), [an_app()]) is None


def test_applications_on_different_kafkas_may_share_an_id():
    assert find_elder(an_app(status=NEW), [twin("elsewhere:9092", status=NEW)]) is None


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
    with pytest.raises(ProblemError):
        CALLER.check_commander()
    for check in (CALLER.check_reader, CALLER.check_editor):
        with pytest.raises(ProblemError):
            asyncio.run(check(APP))


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
