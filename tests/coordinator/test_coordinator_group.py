"""The rules of membership, one a test: what has happened in, what the coordinator does out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coordinator_simulation import COUNTS, END, STATEFUL, Process, World

from sluice_assignor import AssignmentConfig, RackAwareStrategy
from sluice_coordinator.group import Recorded, effects, events
from sluice_protocol.heartbeat import Code, Grant, HeartbeatAnswer, Role, Status, StatusCode, TaskCopy
from sluice_protocol.ids import JOIN, Epoch, TaskId
from sluice_protocol.topology import Subtopology, TopologyDescription

STATELESS = TopologyDescription("orders", (Subtopology(0, source_topics=("orders",)),))
ALL = {"0_0", "0_1", "0_2", "0_3"}
HERE = World().cluster_id


def answers_to(world: World, process: Process) -> list[HeartbeatAnswer]:
    answers = [delivery.answer for delivery in world.answers if delivery.process is process]
    return [answer for answer in answers if answer.code is not Code.STALE_SEQUENCE]


def ask(world: World, process: Process, **changes: object) -> HeartbeatAnswer | None:
    """Send one request of the process past the network, and see what it is answered at once."""
    process.sequence += 1
    process.waiting = process.sequence
    world.answers = [delivery for delivery in world.answers if delivery.process is not process]
    asked = replace(process.request(), **changes)
    world.coordinator.receive(process, asked)
    found = [delivery.answer for delivery in world.answers if delivery.process is process]
    return next((answer for answer in found if answer.sequence == asked.sequence), None)


def a_group(slots: list[int], **world: object) -> tuple[World, list[Process]]:
    """Workers that have joined one after the other and hold their parts, everything at rest."""
    made = World(**world)
    processes = made.start_all(slots)
    assert made.view.state == "stable"
    assert made.view.pending_moves == 0
    return made, processes


def a_warm_scale_out() -> tuple[World, Process, Process]:
    """One worker runs everything, a second has joined and warms up."""
    world, [old] = a_group([0])
    new = world.start(1)
    world.settle()
    return world, old, new


# Joining and leaving.


def test_the_first_worker_gets_every_task() -> None:
    _, [worker] = a_group([0])

    assert worker.held(Role.ACTIVE) == ALL


def test_a_slot_is_on_record_before_its_first_answer() -> None:
    world = World()
    world.settle()
    worker = world.start(3)
    world.deliver_request()

    assert world.coordinator.requests[-1] == effects.RecordFootprint(Recorded(4, 1, HERE))
    assert not answers_to(world, worker)

    while world.coordinator.requests:
        world.coordinator.serve()
    assert answers_to(world, worker)
    assert world.storage.slots == 4


def test_a_worker_that_leaves_frees_its_tasks_at_once() -> None:
    world, [first, second] = a_group([0, 1])

    second.leave()
    world.settle(fences=False)

    assert first.held(Role.ACTIVE) == ALL


def test_when_the_last_worker_has_left_the_next_start_needs_no_adoption() -> None:
    world, [worker] = a_group([0])
    assert world.storage.slots == 1

    worker.leave()
    world.settle()
    world.restart_coordinator()

    assert world.storage == Recorded(cluster_id=HERE)
    assert world.view.state == "empty"


def test_a_start_waits_for_no_worker_that_has_left() -> None:
    world, [*_, last] = a_group([0, 1, 2])
    last.leave()
    world.settle()
    assert world.storage.slots == 2

    world.restart_coordinator()
    world.pass_time(3_000)

    assert world.view.state == "stable"


def test_who_joins_while_less_is_put_on_record_is_answered_once_its_slot_is_there_again() -> None:
    world, [_, last] = a_group([0, 1])
    last.leave()
    world.deliver_request()
    [less] = [each for each in world.coordinator.requests if isinstance(each, effects.RecordFootprint)]
    assert less.footprint.slots == 1

    joined = world.start(1)
    while world.requests:
        world.deliver_request()
    assert not answers_to(world, joined)
    world.settle()

    assert world.storage.slots == 2
    assert joined.epoch != JOIN


# Which Kafka.


def codes(world: World) -> set[StatusCode]:
    return {status.code for status in world.view.statuses}


def test_the_cluster_is_on_record_before_anything_is_done_there() -> None:
    world = World()
    world.start(0)
    world.deliver_request()
    assert world.coordinator.requests == [effects.RecordFootprint(Recorded(cluster_id=HERE))]

    world.coordinator.serve()

    assert effects.PrepareTopics(STATEFUL) in world.coordinator.requests
    assert world.storage.cluster_id == HERE


def test_nothing_is_done_on_a_kafka_that_has_not_said_which_one_it_is() -> None:
    world, [worker] = a_group([0])
    world.restart_coordinator()
    world.coordinator.lose_kafka()
    world.kill(worker)
    world.start(0)
    world.pass_time(20_000)
    assert (world.fences, world.coordinator.requests) == ([], [])

    world.coordinator.reach_kafka(HERE)
    world.settle()
    world.pass_time(3_000)

    assert world.view.state == "stable"


def test_on_another_cluster_nobody_is_fenced_and_nothing_is_given() -> None:
    world, [stays, dies] = a_group([0, 1])
    kept = stays.held(Role.ACTIVE)
    world.cluster_id = "kafka-b"
    world.restart_coordinator()
    world.kill(dies)
    newcomer = world.start(2)
    world.pass_time(90_000)

    assert (world.fences, world.coordinator.requests) == ([], [])
    assert (stays.held(Role.ACTIVE), newcomer.holdings) == (kept, {})
    assert world.storage.cluster_id == HERE
    [message] = [each.message for each in world.view.statuses if each.code is StatusCode.KAFKA_CLUSTER_CHANGED]
    assert all(part in message for part in (HERE, "kafka-b", "spec.kafka.bootstrapServers", "--bootstrap"))


def test_a_group_that_is_back_on_its_cluster_goes_on() -> None:
    world, [stays, dies] = a_group([0, 1])
    world.coordinator.reach_kafka("kafka-b")
    world.kill(dies)
    world.pass_time(30_000)
    assert StatusCode.KAFKA_CLUSTER_CHANGED in codes(world)

    world.coordinator.reach_kafka(HERE)
    world.settle()
    world.pass_time(10_000, restored=END)

    assert stays.held(Role.ACTIVE) == ALL
    assert codes(world) == set()


def test_a_record_of_an_older_version_takes_the_first_cluster_that_answers() -> None:
    world, [worker] = a_group([0])
    world.storage = replace(world.storage, cluster_id=None)
    world.restart_coordinator()
    world.pass_time(15_000)

    assert worker.held(Role.ACTIVE) == ALL
    assert world.storage == Recorded(1, 1, HERE)
    assert codes(world) == set()


def test_where_another_application_has_the_id_nothing_is_done_until_it_is_gone() -> None:
    world = World()
    taken = Status(StatusCode.APPLICATION_ID_TAKEN, "it is that of another")
    world.coordinator.handle(events.FootprintRefused(taken))
    recording = world.coordinator.requests.pop()
    worker = world.start(0)
    world.settle()
    assert (world.view.statuses, worker.holdings) == ((taken,), {})

    world.coordinator.requests.append(recording)
    world.settle()
    world.pass_time(4_000, restored=END)

    assert worker.held(Role.ACTIVE) == ALL
    assert codes(world) == set()


# Racks.

NEAR_AND_FAR = {("orders", partition): frozenset({"ab"[partition // 2]}) for partition in range(4)}
LEAST_TRAFFIC = AssignmentConfig(strategy="HighAvailability", rack_aware_strategy=RackAwareStrategy.MIN_TRAFFIC)


def test_tasks_go_where_their_partitions_are_near() -> None:
    _, [first, second] = a_group(
        [0, 1], topology=STATELESS, racks={0: "a", 1: "b"}, partition_racks=NEAR_AND_FAR, assignment=LEAST_TRAFFIC
    )

    assert first.held(Role.ACTIVE) == {"0_0", "0_1"}
    assert second.held(Role.ACTIVE) == {"0_2", "0_3"}


def test_racks_are_asked_for_only_where_they_are_heeded() -> None:
    for assignment, topics in ((LEAST_TRAFFIC, ("orders", "orders-counts-changelog")), (AssignmentConfig(), ())):
        world = World(assignment=assignment, racks={0: "a"})
        world.start(0)
        world.deliver_request()
        while not isinstance(world.coordinator.requests[0], effects.FetchEndOffsets):
            world.coordinator.serve()

        assert world.coordinator.requests[0].topics == topics


def test_a_wish_that_is_left_out_is_said_once() -> None:
    world, _ = a_group(
        [0, 1, 2], topology=STATELESS, racks={0: "a", 1: "b"}, partition_racks=NEAR_AND_FAR, assignment=LEAST_TRAFFIC
    )

    said = [fact for fact in world.coordinator.facts if "left out" in fact]
    assert len(said) == 1
    assert said[0].startswith("saving traffic between racks is left out: worker ")


# Warm-ups and hand-overs.


def test_a_new_worker_warms_up_before_it_runs_anything() -> None:
    _, old, new = a_warm_scale_out()

    assert old.held(Role.ACTIVE) == ALL
    assert new.held(Role.ACTIVE) == set()
    assert len(new.held(Role.WARMUP)) == 2


def test_a_hot_warm_up_takes_over_without_waiting_for_a_probe() -> None:
    world, old, new = a_warm_scale_out()
    warming = new.held(Role.WARMUP)

    new.restore(END)
    new.post()
    world.settle()

    assert new.held(Role.ACTIVE) == warming
    assert old.held(Role.ACTIVE) == ALL - warming


def test_every_move_that_is_wanted_is_shown_with_its_reason() -> None:
    world, _, new = a_warm_scale_out()
    new.restore(END // 2)
    new.post()
    world.settle()

    assert [(str(move.task), move.destination) for move in world.view.planned] == [
        (task, "worker-1") for task in sorted(new.held(Role.WARMUP))
    ]
    assert world.view.planned[0].why.endswith(
        f" warms up on worker-1, {END // 2:,} offsets left; until then worker-0 has it "
        "(worker-0 runs 4 tasks more than worker-1)"
    )


def test_a_move_that_is_made_is_shown_no_more() -> None:
    world, _, new = a_warm_scale_out()

    new.restore(END)
    new.post()
    world.settle()

    assert not world.view.pending_moves
    assert not world.view.planned


def test_a_warm_up_that_is_not_hot_stays_one() -> None:
    world, _, new = a_warm_scale_out()

    new.restore(END // 2)
    new.post()
    world.settle()

    assert new.held(Role.ACTIVE) == set()


def test_a_hand_over_takes_one_answer_to_each_side() -> None:
    world, old, new = a_warm_scale_out()
    new.restore(END)
    new.post()
    world.deliver_request()
    world.coordinator.serve()

    [revocation] = answers_to(world, old)
    assert len(revocation.grants) == 2
    assert not answers_to(world, new)

    world.answers.clear()
    old.receive(revocation)
    while old.executing is not None:
        old.work()
    world.deliver_request()

    [takeover] = answers_to(world, new)
    assert [grant.role for grant in takeover.grants] == [Role.ACTIVE, Role.ACTIVE]
    assert not answers_to(world, old)


def test_a_planned_move_is_recorded_with_the_lag_of_its_new_holder() -> None:
    world, _, new = a_warm_scale_out()

    new.restore(END)
    new.post()
    world.settle()

    moves = world.view.moves
    assert {(move.source, move.destination, move.planned, move.lag) for move in moves} == {
        ("worker-0", "worker-1", True, 0)
    }
    assert {move.reason for move in moves} == {"caught up; takes over"}


def test_the_probing_interval_takes_a_step_when_no_news_came() -> None:
    world, _, new = a_warm_scale_out()
    for task in new.disk:
        new.disk[task] = END
    stepping = world.coordinator.group.stepping
    stepping.step = replace(stepping.step, awaited=frozenset())
    world.pass_time(594_000, step=3_000)
    assert new.held(Role.ACTIVE) == set()

    world.pass_time(9_000, step=3_000)

    assert len(new.held(Role.ACTIVE)) == 2


def test_without_the_ends_of_the_changelogs_nothing_moves() -> None:
    world, old, new = a_warm_scale_out()
    new.restore(END)
    new.post()
    world.settle(kafka=False)

    assert old.held(Role.ACTIVE) == ALL


def test_tasks_that_stay_are_not_granted_anew() -> None:
    world, [first, _] = a_group([0, 1])
    before = first.actives

    world.start(2)
    world.settle()
    world.pass_time(2_000, restored=END)

    kept = {task: grant for task, grant in first.actives.items() if task in before}
    assert kept
    assert all(before[task] == grant for task, grant in kept.items())


# Revoke before assign.


def test_a_task_that_is_no_longer_listed_is_not_free_before_its_revocation_is_carried_out() -> None:
    world, old, new = a_warm_scale_out()
    new.restore(END)
    new.post()
    world.deliver_request()
    world.coordinator.serve()

    ask(world, old, grants=())

    assert not answers_to(world, new)


def test_a_grant_that_was_never_heard_of_still_counts() -> None:
    world, old, new = a_warm_scale_out()
    given = new.held(Role.WARMUP)
    new.restore(END)
    new.post()
    world.deliver_request()
    new.is_frozen = True
    world.settle()
    assert old.held(Role.ACTIVE) == ALL - given

    world.coordinator.handle(events.DrainRequested("worker-1"))
    world.settle()

    assert old.held(Role.ACTIVE) == ALL - given


def test_a_revoked_grant_is_given_anew_rather_than_back() -> None:
    world, old, new = a_warm_scale_out()
    revoked = set(new.held(Role.WARMUP))
    before = old.actives
    new.restore(END)
    new.post()
    world.deliver_request()
    world.coordinator.serve()
    world.coordinator.handle(events.MemberGone(new.worker, new.incarnation))
    world.kill(new)
    world.fence_returns(world.fences[0])

    world.settle()

    assert old.held(Role.ACTIVE) == ALL
    for task, grant in old.actives.items():
        assert (grant.epoch > before[task].epoch) == (str(task) in revoked)


def test_a_worker_that_does_not_let_go_in_time_is_fenced() -> None:
    world, old, new = a_warm_scale_out()
    new.restore(END)
    new.post()
    world.deliver_request()
    world.coordinator.serve()
    for _ in range(59):
        world.advance(1_000)
        ask(world, old)
        ask(world, new)
    assert not world.fences

    world.advance(1_000)

    assert [fence.worker for fence in world.fences] == ["worker-0"]


# Death and fences.


def test_a_death_that_is_seen_is_fenced_at_once_and_its_tasks_wait_for_the_fence() -> None:
    world, [first, second] = a_group([0, 1])
    world.kill(second)

    world.coordinator.handle(events.MemberGone("worker-1", second.incarnation))
    world.settle(fences=False)
    assert [fence.worker for fence in world.fences] == ["worker-1"]
    assert len(first.held(Role.ACTIVE)) == 2

    world.settle()
    assert first.held(Role.ACTIVE) == ALL
    world.pass_time(3_000)
    assert {(move.source, move.planned) for move in world.view.moves} >= {("worker-1", False)}


def test_a_fence_covers_every_subtopology() -> None:
    world, [_, second] = a_group([0, 1], topology=COUNTS, partitions=(2, 2))
    group = world.coordinator.group

    done = group.handle(events.MemberGone("worker-1", second.incarnation), world.now_ms)

    assert [effect for effect in done if isinstance(effect, effects.Fence)] == [
        effects.Fence("worker-1", ("orders-worker-1-0", "orders-worker-1-1"))
    ]


def test_the_death_of_an_earlier_process_is_ignored() -> None:
    world, [_, second] = a_group([0, 1])

    world.coordinator.handle(events.MemberGone("worker-1", "another"))

    assert not world.fences
    assert len(second.held(Role.ACTIVE)) == 2


def test_silence_leads_to_a_fence() -> None:
    world, [first, second] = a_group([0, 1])
    second.is_frozen = True

    world.pass_time(6_000, fences=False)
    assert not world.fences
    world.pass_time(4_000, fences=False)
    assert [fence.worker for fence in world.fences] == ["worker-1"]
    assert len(first.held(Role.ACTIVE)) == 2

    world.settle()
    assert first.held(Role.ACTIVE) == ALL


def test_a_fence_that_failed_is_tried_again() -> None:
    world, [_, second] = a_group([0, 1])
    world.kill(second)
    world.coordinator.handle(events.MemberGone("worker-1", second.incarnation))
    world.fences.clear()

    world.coordinator.handle(events.FenceFailed("worker-1", "timed out"))
    assert not world.fences
    world.advance(1_000)

    assert [fence.worker for fence in world.fences] == ["worker-1"]


def test_a_join_waits_for_the_fence_and_then_begins_anew() -> None:
    world, [_, second] = a_group([0, 1])
    world.kill(second)
    world.coordinator.handle(events.MemberGone("worker-1", second.incarnation))
    joiner = world.start(1)
    world.settle(fences=False)
    assert not answers_to(world, joiner)

    world.fence_returns(world.fences[0])
    [answer] = answers_to(world, joiner)
    assert answer.code is Code.FENCED

    world.settle()
    world.pass_time(3_000, restored=END)
    assert len(joiner.held(Role.ACTIVE)) == 2


def test_a_newer_process_of_a_worker_ends_the_older() -> None:
    world, [_, older] = a_group([0, 1])

    older.begin_anew = lambda: world.kill(older)
    newer = world.start(1)
    world.settle()
    world.pass_time(3_000, restored=END)

    assert not older.is_alive
    assert len(newer.held(Role.ACTIVE)) == 2
    assert [member.incarnation for member in world.view.members if member.worker == "worker-1"] == [newer.incarnation]


def test_a_join_of_an_older_process_that_arrives_late_costs_nobody_correctness() -> None:
    world = World()
    late = world.start(0)
    world.requests.clear()
    newer = world.start(0)
    world.settle()
    world.pass_time(3_000, restored=END)

    world.coordinator.receive(late, late.request())
    world.settle(fences=False)

    assert [fence.worker for fence in world.fences] == ["worker-0"]
    world.kill(late)
    world.settle()
    newer.post()
    world.settle()
    world.pass_time(3_000, restored=END)
    assert newer.held(Role.ACTIVE) == ALL


def test_a_join_that_arrives_again_after_its_sender_was_fenced_disturbs_nobody() -> None:
    world = World()
    first = world.start(0)
    again = first.request()
    world.settle()
    world.coordinator.handle(events.MemberGone("worker-0", first.incarnation))
    world.kill(first)
    world.settle()
    successor = world.start(0)
    world.settle()

    world.coordinator.receive(first, again)

    assert not world.fences
    assert successor.held(Role.ACTIVE) == ALL


def test_a_coordinator_that_stood_still_blames_nobody() -> None:
    world, _ = a_group([0, 1])
    world.now_ms += 60_000

    world.coordinator.handle(events.Tick())

    assert not world.fences


# Requests.


def test_an_older_sequence_number_is_ignored() -> None:
    world, [worker] = a_group([0])

    answer = ask(world, worker, sequence=1, grants=(), member_epoch=Epoch(1, 99))

    assert answer is not None
    assert answer.code is Code.STALE_SEQUENCE
    assert len(world.coordinator.group.members[0].holdings.tasks(Role.ACTIVE)) == 4


def test_a_newer_request_takes_the_place_of_the_one_that_is_held() -> None:
    world, [worker] = a_group([0])
    assert ask(world, worker) is None
    world.answers.clear()

    worker.post()
    world.deliver_request()

    [answer] = [delivery.answer for delivery in world.answers if delivery.process is worker]
    assert (answer.code, answer.sequence) == (Code.STALE_SEQUENCE, worker.sequence - 1)


def test_an_answer_that_was_lost_is_sent_again_at_once() -> None:
    world, _, new = a_warm_scale_out()
    new.restore(END)
    old = world.processes[0]
    new.post()
    world.deliver_request()
    world.coordinator.serve()
    [lost] = answers_to(world, old)

    again = ask(world, old)

    assert again is not None
    assert (again.epoch, again.grants) == (lost.epoch, lost.grants)
    assert ask(world, old) is None, "a worker that is busy with the list must not ask in circles"


def test_a_poll_without_news_is_answered_after_the_interval() -> None:
    world, [worker] = a_group([0])
    assert ask(world, worker) is None

    world.advance(2_999)
    assert not answers_to(world, worker)
    world.advance(1)

    assert [answer.code for answer in answers_to(world, worker)] == [Code.OK]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"worker": "rex"}, "worker 'rex'"),
        ({"process_id": "one"}, "processId 'one'"),
        ({"capacity": 0}, "capacity of worker-0 is 0"),
        ({"copies": (TaskCopy(TaskId(0, 0), -7),)}, "offsetSum of 0_0 on worker-0 is -7"),
        ({"copies": (TaskCopy(TaskId(0, 0), 7, size_bytes=-1),)}, "sizeBytes of 0_0 on worker-0 is -1"),
        ({"topology_hash": "0"}, "topologyHash of worker-0"),
    ],
)
def test_an_invalid_request_is_refused_by_the_name_of_its_field(changes: dict[str, object], sentence: str) -> None:
    world = World()
    worker = Process(world, 0, 1)

    answer = ask(world, worker, **changes)

    assert answer is not None
    assert answer.code is Code.INVALID_REQUEST
    assert sentence in answer.message


def test_two_workers_on_copies_of_one_state_directory_are_refused() -> None:
    world, [first] = a_group([0])
    second = Process(world, 1, 9)

    answer = ask(world, second, process_id=first.process_id)

    assert answer is not None
    assert answer.code is Code.INVALID_REQUEST
    assert "copies of each other" in answer.message


def test_a_member_that_lists_what_it_was_not_given_is_fenced() -> None:
    world, [_, second] = a_group([0, 1])
    foreign = next(task for task in world.tasks if task not in second.actives)

    ask(world, second, grants=(*second.actives.values(), Grant(foreign, Role.ACTIVE, Epoch(1, 1))))

    assert [fence.worker for fence in world.fences] == ["worker-1"]


# Restart of the coordinator.


def test_after_a_restart_everything_is_adopted_and_nothing_moves() -> None:
    world, processes = a_group([0, 1, 2])
    before = [process.actives for process in processes]

    world.restart_coordinator()
    world.pass_time(5_000)

    assert [process.actives for process in processes] == before
    assert world.view.state == "stable"
    assert world.view.moves == ()


def test_a_warm_up_goes_on_across_a_restart() -> None:
    world, _, new = a_warm_scale_out()
    warming = new.held(Role.WARMUP)
    new.restore(END // 2)

    world.restart_coordinator()
    world.pass_time(4_000)
    assert new.held(Role.WARMUP) == warming

    new.restore(END)
    new.post()
    world.settle()
    assert new.held(Role.ACTIVE) == warming


def test_nothing_is_granted_before_every_slot_has_reported() -> None:
    world, [_, second, third] = a_group([0, 1, 2])
    world.kill(third)
    world.restart_coordinator()
    joiner = world.start(5)

    world.pass_time(9_900, fences=False)

    assert world.view.state == "adopting"
    assert joiner.held(Role.ACTIVE) == joiner.held(Role.WARMUP) == set()
    assert StatusCode.ASSIGNMENT_DELAYED in {status.code for status in world.view.statuses}
    assert len(second.held(Role.ACTIVE)) in (1, 2)


def test_a_worker_that_the_new_coordinator_never_heard_is_fenced_before_its_tasks_go_elsewhere() -> None:
    world, [first, second] = a_group([0, 1])
    second.is_frozen = True
    world.restart_coordinator()

    world.pass_time(11_000, fences=False)
    assert [fence.worker for fence in world.fences] == ["worker-1"]
    assert len(first.held(Role.ACTIVE)) == 2

    world.settle()
    assert first.held(Role.ACTIVE) == ALL
    assert second.is_fenced


def test_a_slot_counts_as_reported_only_once_it_has_carried_out_an_answer_of_the_new_leader() -> None:
    """Until then it may still be carrying out an answer of the old one, with tasks that it doesn't list yet."""
    world, _ = a_group([0])
    new = world.start(1)
    world.settle()
    world.restart_coordinator()
    for process in world.live:
        ask(world, process, topology=process.topology)

    assert world.view.state == "adopting"

    world.settle()
    world.pass_time(100)
    assert world.view.state == "stable"
    assert new.held(Role.WARMUP)


def test_a_stranger_with_grants_is_asked_for_its_topology() -> None:
    world, [worker] = a_group([0])
    world.restart_coordinator()

    asked = ask(world, worker)
    assert asked is not None
    assert asked.code is Code.UNKNOWN_MEMBER

    adopted = ask(world, worker, topology=worker.topology)
    assert adopted is not None
    assert adopted.code is Code.OK
    assert {str(grant.task) for grant in adopted.grants} == ALL


def test_of_two_claims_the_newer_wins_and_the_other_is_fenced() -> None:
    world = World(storage=Recorded(2, 1, HERE))
    claims = [Grant(TaskId(0, 0), Role.ACTIVE, Epoch(0, group)) for group in (4, 7)]
    for slot, claim in enumerate(claims):
        process = Process(world, slot, slot)
        ask(world, process, grants=(claim,), member_epoch=claim.epoch, topology=STATEFUL)

    assert [fence.worker for fence in world.fences] == ["worker-0"]
    assert world.coordinator.group.members[0].worker == "worker-1"


def test_a_join_into_a_slot_that_has_not_reported_is_fenced_first() -> None:
    world, [worker] = a_group([0])
    world.kill(worker)
    world.restart_coordinator()
    joiner = world.start(0)
    world.settle(fences=False)
    assert [fence.worker for fence in world.fences] == ["worker-0"]

    world.settle()
    world.pass_time(3_000)

    assert joiner.held(Role.ACTIVE) == ALL


def test_a_leader_that_hears_of_a_newer_one_starts_again_above_it() -> None:
    world, [worker] = a_group([0])

    answer = ask(world, worker, member_epoch=Epoch(8, 3))

    assert answer is not None
    assert answer.code is Code.UNKNOWN_MEMBER
    assert world.coordinator.leader == 9
    assert world.view.state == "adopting"


def test_a_leader_that_never_was_raises_nothing() -> None:
    world, [first, second] = a_group([0, 1])

    answer = ask(world, first, member_epoch=Epoch(10**4_000, 3))

    assert answer is not None
    assert answer.code is Code.INVALID_REQUEST
    assert "of a leader more than 1000000 above this one (1)" in answer.message
    assert world.coordinator.leader == 1
    assert world.view.state == "stable"
    assert second.held(Role.ACTIVE)


def test_a_member_that_was_fenced_stays_fenced() -> None:
    world, [_, second] = a_group([0, 1])
    second.is_frozen = True
    world.pass_time(15_000)

    answer = ask(world, second)

    assert answer is not None
    assert answer.code is Code.FENCED


# Draining.


def test_a_draining_worker_keeps_its_tasks_until_they_are_hot_elsewhere() -> None:
    world, [first, second] = a_group([0, 1])
    for task in world.tasks:
        if task not in first.actives:
            first.disk[task] = 0
    first.post()
    world.settle()

    world.coordinator.handle(events.DrainRequested("worker-1"))
    world.settle()
    assert len(second.held(Role.ACTIVE)) == 2
    assert len(first.held(Role.WARMUP)) == 2
    assert next(member.state for member in world.view.members if member.worker == "worker-1") == "draining"

    world.pass_time(4_000, restored=END)
    assert first.held(Role.ACTIVE) == ALL
    assert next(member.state for member in world.view.members if member.worker == "worker-1") == "drained"
    assert all(move.planned for move in world.view.moves)


def test_a_drain_that_is_taken_back_gives_tasks_again() -> None:
    world, [_, second] = a_group([0, 1])
    world.coordinator.handle(events.DrainRequested("worker-1"))
    world.pass_time(4_000, restored=END)
    assert second.held(Role.ACTIVE) == set()

    world.coordinator.handle(events.DrainCancelled("worker-1"))
    world.pass_time(4_000, restored=END)

    assert len(second.held(Role.ACTIVE)) == 2


def test_a_worker_that_leaves_takes_its_drain_with_it() -> None:
    world, [_, second] = a_group([0, 1])
    world.coordinator.handle(events.DrainRequested("worker-1"))
    world.pass_time(4_000, restored=END)
    second.leave()
    world.settle()

    back = world.start(1)
    world.pass_time(4_000, restored=END)

    assert len(back.held(Role.ACTIVE)) == 2


# Topologies and topics.


def of_sources(*sources: str, sinks: tuple[str, ...] = ()) -> TopologyDescription:
    one = Subtopology(0, source_topics=sources, changelog_topics=("orders-counts-changelog",), sink_topics=sinks)
    return TopologyDescription("orders", (one,))


def test_another_topology_is_refused_and_the_old_workers_stay() -> None:
    world, [first] = a_group([0])
    stranger = Process(world, 1, 9)
    stranger.topology = of_sources("payments")

    answer = ask(world, stranger)

    assert answer is not None
    assert answer.code is Code.INVALID_TOPOLOGY
    assert "source topics payments, in the running one orders" in answer.message
    assert first.held(Role.ACTIVE) == ALL


def test_a_topology_that_differs_only_in_its_outputs_may_join() -> None:
    world, [_] = a_group([0])
    newer = Process(world, 1, 9)
    newer.topology = of_sources("orders", sinks=("results",))
    world.processes.append(newer)
    newer.post()

    world.settle()
    world.pass_time(4_000, restored=END)

    assert len(newer.held(Role.ACTIVE)) == 2


def test_when_nobody_runs_it_any_more_another_topology_may_take_its_place() -> None:
    world, [first] = a_group([0])
    first.leave()
    world.settle()
    successor = Process(world, 0, 9)
    successor.topology = world.topology = of_sources("payments")
    world.processes.append(successor)
    successor.post()

    world.settle()

    assert successor.held(Role.ACTIVE) == ALL


@pytest.mark.parametrize("dies", [False, True])
def test_topics_are_prepared_anew_for_whoever_comes_after_the_last_worker(dies: bool) -> None:
    world, [first, second] = a_group([0, 1])
    first.leave()
    world.settle()
    if dies:
        world.kill(second)
        world.coordinator.handle(events.MemberGone("worker-1", second.incarnation))
    else:
        second.leave()
    world.settle()
    assert world.view.state == "empty"

    world.missing_topic = "orders"
    back = world.start(0)
    world.settle()
    assert back.held(Role.ACTIVE) == set()

    world.missing_topic = None
    world.pass_time(6_000)
    assert back.held(Role.ACTIVE) == ALL


def test_a_missing_source_topic_is_said_to_members_and_looked_for_again() -> None:
    world = World(missing_topic="orders")
    worker = world.start(0)
    world.settle()
    world.pass_time(3_000)
    assert worker.held(Role.ACTIVE) == set()
    assert [status.code for status in world.view.statuses] == [StatusCode.MISSING_SOURCE_TOPICS]
    assert world.view.state == "not-ready"

    world.missing_topic = None
    world.pass_time(3_000)

    assert worker.held(Role.ACTIVE) == ALL
    assert world.view.statuses == ()


# Failed tasks.


def test_a_failed_task_stays_where_it_is_even_if_a_warm_copy_waits() -> None:
    world, old, new = a_warm_scale_out()
    failing = min(TaskId.parse(task) for task in new.held(Role.WARMUP))
    old.failed.add(failing)
    old.post()
    world.settle()

    world.pass_time(4_000, restored=END)

    assert failing in old.actives
    assert next(view.state for view in world.view.tasks if view.task == failing) == "failed"


def test_resuming_asks_the_worker_once_and_lets_the_task_move_again() -> None:
    world, old, new = a_warm_scale_out()
    failing = min(TaskId.parse(task) for task in new.held(Role.WARMUP))
    old.failed.add(failing)
    old.post()
    world.pass_time(4_000, restored=END)

    world.coordinator.handle(events.ResumeRequested())
    world.pass_time(4_000, restored=END)

    assert old.resumed == [failing]
    assert failing in new.actives


# What people see.


def test_the_view_says_what_a_warm_up_has_left() -> None:
    world, _, new = a_warm_scale_out()
    new.restore(5_000)
    new.post()
    world.settle()

    warming = [view for view in world.view.tasks if view.role is Role.WARMUP]

    assert [(view.worker, view.state, view.offset_sum, view.end_offset_sum, view.lag) for view in warming] == [
        ("worker-1", "restoring", 5_000, END, END - 5_000)
    ] * 2
    assert world.view.pending_moves == 2


def test_a_task_that_nobody_holds_is_shown_as_waiting() -> None:
    world, [worker] = a_group([0])
    worker.leave()
    world.settle()

    assert {(view.worker, view.state) for view in world.view.tasks} == {("", "waiting")}


def test_a_standby_becomes_the_active_one_when_its_worker_dies() -> None:
    config = AssignmentConfig(acceptable_recovery_lag=100, num_standby_replicas=1)
    world, [first, second] = a_group([0, 1], assignment=config)
    standbys = first.held(Role.STANDBY)
    assert standbys == second.held(Role.ACTIVE)

    world.kill(second)
    world.coordinator.handle(events.MemberGone("worker-1", second.incarnation))
    world.settle()

    assert first.held(Role.ACTIVE) == ALL
    assert first.held(Role.STANDBY) == set()


def test_a_member_that_joins_again_with_its_own_id_keeps_its_list() -> None:
    world, [worker] = a_group([0])

    answer = ask(world, worker, member_epoch=JOIN, grants=())

    assert answer is not None
    assert {str(grant.task) for grant in answer.grants} == ALL
