"""Rules that hold for every group, whatever its state, and for every strategy (KIP-441, "Assignment Algorithm")."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from assignor_groups import once_hot
from assignor_inputs import configs, for_every, groups, staying
from hypothesis import strategies as st

from sluice_assignor import Assignment, AssignmentConfig, Copy, Decision, GroupState, MoveReason, Task, Worker, decide
from sluice_assignor.model import MAX_LAG, RUNNING, UNKNOWN_OFFSET_SUM
from sluice_protocol.ids import TaskId


@for_every(groups(), configs())
def test_every_task_has_exactly_one_active(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    if staying(group):
        for assignment in (decision.target, decision.next):
            assert sorted(task for tasks in assignment.active.values() for task in tasks) == sorted(group.tasks)


@for_every(groups(), configs())
def test_every_worker_is_named_and_holds_a_task_in_one_role_only(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    for assignment in (decision.target, decision.next):
        for role in (assignment.active, assignment.standby, assignment.warmup):
            assert role.keys() == group.workers.keys()
        for process_id in group.workers:
            held = [*assignment.active[process_id], *copies_kept(assignment, process_id)]
            assert len(held) == len(set(held))


@for_every(groups(), configs())
def test_warm_ups_are_at_most_the_limit_and_the_target_has_none(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    assert sum(map(len, decision.next.warmup.values())) <= config.max_warmup_replicas
    if staying(group):
        assert not any(decision.target.warmup.values())


@for_every(groups(), configs())
def test_besides_warm_ups_a_task_has_as_many_copies_as_wanted(group: GroupState, config: AssignmentConfig):
    """Kafka's assertValidAssignment: the active, and standbys as far as there are workers; none without state."""
    wanted = min(len(staying(group)), 1 + config.num_standby_replicas)
    if not wanted:
        return

    assignment = decide(group, config).next

    for task in group.tasks.values():
        copies = sum(task.id in assignment.active[id_] or task.id in assignment.standby[id_] for id_ in group.workers)
        assert copies == (wanted if task.stateful else 1)
        assert task.stateful or not any(task.id in copies_kept(assignment, id_) for id_ in group.workers)


@for_every(groups(), configs())
def test_a_task_runs_on_a_caught_up_worker_while_there_is_one(group: GroupState, config: AssignmentConfig):
    """So a step never takes an active from a caught-up worker to one that is not.

    A copy whose position is not known is Kafka's exception: it counts as not caught up, yet as the closest of all.
    """
    if not staying(group):
        return

    assignment = decide(group, config).next

    unknown = {task for worker in group.workers.values() for task, copy in worker.copies.items() if is_unknown(copy)}
    for task in (task for id_, task in group.tasks.items() if id_ not in unknown):
        ready = {id_ for id_, worker in group.workers.items() if is_ready(worker, task, config)}
        if task.stateful and ready:
            assert holder(assignment, task.id) in ready


@for_every(groups(), configs(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_makes_no_difference(group, config, random):
    def shuffled(mapping):
        return dict(random.sample(list(mapping.items()), len(mapping)))

    workers = {id_: replace(worker, copies=shuffled(worker.copies)) for id_, worker in group.workers.items()}
    permuted = GroupState(shuffled(group.tasks), shuffled(workers))

    assert decide(permuted, config) == decide(group, config)


@for_every(groups(), configs())
def test_without_follow_up_the_target_is_reached(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    on_their_way = {MoveReason.WARMING, MoveReason.WAITING_FOR_SLOT}
    assert decision.follow_up == any(move.reason in on_their_way for move in decision.moves)
    assert decision.follow_up or decision.next == decision.target


@for_every(groups(), configs())
def test_steps_converge_to_the_target_and_then_change_nothing(group: GroupState, config: AssignmentConfig):
    group, decision = converged(group, config)

    assert decision.next == decision.target
    again = decide(once_hot(group, decision.next), config)
    assert (again.next, again.moves, again.follow_up) == (decision.next, (), False)


@for_every(groups(), configs())
def test_a_draining_worker_receives_nothing(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    for worker in group.workers.values():
        if worker.draining:
            process_id = worker.process_id
            held = worker.active | worker.standby | worker.warmup
            assert decision.next.active[process_id] <= held
            assert copies_kept(decision.next, process_id) <= held


@for_every(groups(), configs())
def test_a_draining_worker_ends_empty(group: GroupState, config: AssignmentConfig):
    if not staying(group):
        return

    _, decision = converged(group, config)

    for worker in group.workers.values():
        if worker.draining:
            assert not decision.next.active[worker.process_id]
            assert not copies_kept(decision.next, worker.process_id)


@for_every(groups(), configs())
def test_a_drained_worker_is_as_good_as_gone(group: GroupState, config: AssignmentConfig):
    """Workers that drain and hold nothing change nothing for the others, so Kafka's answer is still ours."""
    workers = {
        id_: replace(worker, active=frozenset(), standby=frozenset(), warmup=frozenset()) if worker.draining else worker
        for id_, worker in group.workers.items()
    }
    alone = {id_: worker for id_, worker in workers.items() if not worker.draining}
    if not alone:
        return

    decision = decide(replace(group, workers=workers), config)
    expected = decide(replace(group, workers=alone), config)

    assert {id_: decision.next.active[id_] for id_ in alone} == expected.next.active
    assert (decision.moves, decision.follow_up) == (expected.moves, expected.follow_up)


@for_every(groups(), configs())
def test_every_change_of_an_active_is_told(group: GroupState, config: AssignmentConfig):
    decision = decide(group, config)

    still_here = {MoveReason.WARMING, MoveReason.WAITING_FOR_SLOT, MoveReason.STANDBY}
    told = {move.task: (move.source, move.destination) for move in decision.moves if move.reason not in still_here}
    before = {task: id_ for id_, worker in group.workers.items() for task in worker.active}
    after = {task: id_ for id_, tasks in decision.next.active.items() for task in tasks}
    assert told == {task: (before.get(task), id_) for task, id_ in after.items() if before.get(task) != id_}


@for_every(groups(), configs())
def test_without_end_offsets_prior_owners_stay(group: GroupState, config: AssignmentConfig):
    decision = decide(replace(group, end_offsets_known=False), config)

    for process_id, worker in group.workers.items():
        assert worker.active <= decision.next.active[process_id]
    assert all(move.reason is MoveReason.UNASSIGNED for move in decision.moves)
    assert decision.follow_up


def converged(group: GroupState, config: AssignmentConfig) -> tuple[GroupState, Decision]:
    """Step until no follow-up is wanted; Kafka's own limit of steps applies after the first."""
    stateful = sum(task.stateful for task in group.tasks.values())
    for _ in range(2 * stateful * (1 + config.num_standby_replicas) + 2):
        decision = decide(group, config)
        if not decision.follow_up:
            return group, decision
        group = once_hot(group, decision.next)
    raise AssertionError(f"no end of steps in sight: {decision.moves}")


def copies_kept(assignment: Assignment, process_id: UUID) -> frozenset[TaskId]:
    return assignment.standby[process_id] | assignment.warmup[process_id]


def holder(assignment: Assignment, task: TaskId) -> UUID:
    return next(id_ for id_, tasks in assignment.active.items() if task in tasks)


def is_unknown(copy: Copy) -> bool:
    return copy.offset_sum == UNKNOWN_OFFSET_SUM


def is_ready(worker: Worker, task: Task, config: AssignmentConfig) -> bool:
    """Caught up; a draining worker counts for what it holds."""
    if worker.draining and task.id not in worker.active | worker.standby | worker.warmup:
        return False
    read = worker.copies.get(task.id, Copy(0)).offset_sum
    lag = task.end_offset_sum if read > task.end_offset_sum else task.end_offset_sum - read
    return read == RUNNING or config.acceptable_recovery_lag == MAX_LAG or lag <= config.acceptable_recovery_lag
