"""Workers come, die, are cut off and go, as a user sees it: what moves, what is restored, what is right."""

from __future__ import annotations

from collections import defaultdict

import pytest
from e2e_application import PARTITIONS, SECONDS, Shop, holders, is_stable
from tcp_proxy import TcpProxy

from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import TaskId
from sluice_protocol.view import GroupView

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

USERS = 8_000
THROTTLE = 60_000
"""Bytes a second: slow enough that a warm-up can be watched."""


def test_a_worker_gets_warm_before_it_gets_tasks_finds_its_copies_again_and_is_drained(shop: Shop) -> None:
    shop.create_topics("orders", "totals")
    shop.order_many(4 * USERS, USERS)
    lags: dict[TaskId, list[int]] = defaultdict(list)

    def watch(group: GroupView) -> GroupView:
        for task in group.tasks:
            if task.role is Role.WARMUP and task.lag is not None and [task.lag] != lags[task.task][-1:]:
                lags[task.task].append(task.lag)
        return group

    with shop.run(workers=1, restore_bytes_per_second=THROTTLE) as application:
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
        with shop.steady_orders(rate=100, users=USERS):
            application.scale(2)
            scaled_out = application.wait(lambda group: is_stable(2)(watch(group)), SECONDS)

        shop.wait_processed()
        dead = next(member.member_id for member in scaled_out.members if member.worker == "worker-1")
        application.kill_worker(1)
        application.wait(lambda group: dead not in {member.member_id for member in group.members}, SECONDS)
        restarted = application.wait(is_stable(2), SECONDS)

        with shop.steady_orders(rate=100, users=USERS):
            application.scale(1)
            application.wait_settled(SECONDS)
            alone = application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
        restarts = application.local_view().coordinator.restarts

    fell = [task for task, seen in lags.items() if len(seen) > 1 and seen[0] > 100 >= seen[-1]]
    assert fell, f"no warm-up with a falling lag was seen: {dict(lags)}"
    assert sorted(holders(scaled_out).values()).count("worker-1") == PARTITIONS / 2
    planned = [move for move in alone.moves if move.planned and move.source is not None]
    assert {move.destination for move in planned} == {"worker-0", "worker-1"}
    assert all(move.lag <= alone.acceptable_recovery_lag for move in planned), planned
    returned = next(member for member in restarted.members if member.worker == "worker-1")
    assert returned.restored_records < USERS / 4, "the copies on its disk were not used"
    assert set(holders(alone).values()) == {"worker-0"}
    assert restarts == 0
    assert shop.totals() == shop.expected
    assert shop.owners().keys() == set(range(PARTITIONS))


def test_a_coordinator_killed_in_the_middle_of_a_scale_out_moves_no_task_twice(shop: Shop) -> None:
    shop.create_topics("orders", "totals")
    shop.order_many(2 * USERS, USERS)
    with shop.run(workers=1, restore_bytes_per_second=THROTTLE) as application:
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
        with shop.steady_orders(rate=100, users=USERS):
            application.scale(2)
            application.wait(
                lambda group: any(task.role is Role.WARMUP and (task.lag or 0) > 100 for task in group.tasks), SECONDS
            )
            application.kill_coordinator()
            group = application.wait(is_stable(2), SECONDS)
        shop.wait_processed()
        restarts = {process.name: process.restarts for process in application.local_view().workers}

    assert sorted(holders(group).values()) == ["worker-0"] * 2 + ["worker-1"] * 2
    assert sorted(shop.owners().values()) == [["worker-0"]] * 2 + [["worker-0", "worker-1"]] * 2
    assert restarts == {"worker-0": 0, "worker-1": 0}
    assert shop.totals() == shop.expected


def test_a_worker_cut_off_from_the_coordinator_alone_is_fenced_before_its_tasks_go_elsewhere(shop: Shop) -> None:
    shop.create_topics("orders", "totals")
    with (
        TcpProxy() as network,
        shop.run(workers=2, coordinator_urls={"worker-1": network.url}) as application,
    ):
        network.lead_to(application.coordinator().url)
        with shop.steady_orders(rate=200, users=200):
            group = application.wait(is_stable(2), SECONDS)
            cut_off = {task for task, worker in holders(group).items() if worker == "worker-1"}
            network.cut()
            application.kill_coordinator()
            application.wait(
                lambda group: set(holders(group).values()) == {"worker-0"} and is_stable(1)(group), SECONDS
            )
            shop.wait_until(lambda: all(shop.owners()[task.partition][-1] == "worker-0" for task in cut_off))
            network.heal()
            application.wait(is_stable(2), SECONDS)
        shop.wait_processed()
        restarts = {process.name: process.restarts for process in application.local_view().workers}

    assert len(cut_off) == PARTITIONS / 2
    assert restarts == {"worker-0": 0, "worker-1": 0}
    assert shop.totals() == shop.expected
    shop.owners()
