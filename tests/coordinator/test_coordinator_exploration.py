"""The model test: random worlds, in which everything may be late, lost, twice or dead, keep the promises of the group.

Always: nobody shares an active task, warm-ups stay within their limit, epochs only grow, nobody obeys a leader of the
past, nothing is done on a Kafka that is not on record. In the end, once the faults stop: every task is active. A
failing seed is replayed by its number alone.
"""

from __future__ import annotations

import os
import random

import pytest
from coordinator_simulation import COUNTS, END, STATEFUL, Process, World

from sluice_assignor import AssignmentConfig
from sluice_coordinator.group import events

STEPS = int(os.environ.get("SLUICE_EXPLORATION_STEPS", "400"))
SEEDS = int(os.environ.get("SLUICE_EXPLORATION_SEEDS", "200"))
SLOTS = 4


class Explorer:
    """Picks what happens next, by weight, from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        topology, partitions = self.random.choice([(STATEFUL, (5,)), (COUNTS, (3, 3))])
        config = AssignmentConfig(
            acceptable_recovery_lag=self.random.choice([0, 100, END]),
            max_warmup_replicas=self.random.choice([1, 2]),
            num_standby_replicas=self.random.choice([0, 0, 1]),
        )
        self.world = World(topology, partitions, config)
        self.faults = self.random.choice([0.2, 1.0, 3.0])
        self.actions = [
            (30, self.deliver_answer), (30, self.deliver_request), (40, self.work), (15, self.serve),
            (12, self.advance), (10, self.fence_returns), (8, self.restore), (6, self.post), (4, self.time_out),
            (3, self.start), (2, self.notice_fence), (1, self.drain),
            (0.5 * self.faults, self.kill), (1 * self.faults, self.kill_seen), (1 * self.faults, self.freeze),
            (2 * self.faults, self.thaw), (0.5 * self.faults, self.leave), (1 * self.faults, self.lose_request),
            (1 * self.faults, self.lose_answer), (1 * self.faults, self.duplicate_request),
            (1 * self.faults, self.fence_silently), (1 * self.faults, self.fence_fails),
            (0.5 * self.faults, self.restart_coordinator), (0.2 * self.faults, self.replace_coordinator),
            (0.3 * self.faults, self.end_zombie), (0.5 * self.faults, self.lie_about_death),
            (0.5 * self.faults, self.serve_failing), (0.3 * self.faults, self.fail_task), (0.3, self.resume),
            (0.3 * self.faults, self.lose_kafka), (0.3 * self.faults, self.reach_another_kafka), (3, self.reach_kafka),
        ]  # fmt: skip

    def run(self, steps: int) -> None:
        weights = [weight for weight, _ in self.actions]
        for _ in range(steps):
            _, action = self.random.choices(self.actions, weights)[0]
            action()
            self.world.check()
        self.heal()

    def heal(self) -> None:
        """No more faults: within two minutes every task runs, and the group is at rest."""
        world = self.world
        for zombie in world.zombies:
            zombie.is_alive = False
        world.zombies.clear()
        for process in world.live:
            process.is_frozen = False
            process.failed.clear()
            if process.is_fenced:
                process.begin_anew()
                process.post()
        self.reach_kafka()
        for slot in range(SLOTS):
            world.coordinator.handle(events.DrainCancelled(f"worker-{slot}"))
        if not world.live:
            world.start(0)
        self._only_one_process_a_slot()
        world.settle()
        world.pass_time(150_000, step=250, restored=2_000)
        held = world.holders()
        assert held.keys() == {str(task) for task in world.tasks}, f"in the end held: {held}\n{self.facts()}"
        assert world.view.state == "stable", f"{world.view}\n{self.facts()}"
        assert world.view.pending_moves == 0, f"{world.view}\n{self.facts()}"

    def _only_one_process_a_slot(self) -> None:
        """Two live processes of a slot would fence each other for ever; whoever starts them ends one."""
        newest = {process.worker: process for process in self.world.live}
        for process in self.world.live:
            if newest[process.worker] is not process:
                self.world.kill(process)

    def facts(self) -> str:
        return "\n".join(self.world.coordinator.facts[-25:])

    # What can happen.

    def deliver_answer(self) -> None:
        ready = [i for i, delivery in enumerate(self.world.answers) if not delivery.process.is_frozen]
        if ready:
            self.world.deliver_answer(self.random.choice(ready[:3]))

    def lose_kafka(self) -> None:
        self.world.coordinator.lose_kafka()

    def reach_another_kafka(self) -> None:
        self.world.coordinator.reach_kafka("another")

    def reach_kafka(self) -> None:
        if self.world.coordinator.cluster_id != self.world.cluster_id:
            self.world.coordinator.reach_kafka(self.world.cluster_id)

    def deliver_request(self) -> None:
        if self.world.requests:
            self.world.deliver_request(self.random.randrange(min(3, len(self.world.requests))))

    def duplicate_request(self) -> None:
        if self.world.requests:
            self.world.deliver_request(self.random.randrange(len(self.world.requests)), keep=True)

    def lose_request(self) -> None:
        if self.world.requests:
            self.world.requests.pop(self.random.randrange(len(self.world.requests)))

    def lose_answer(self) -> None:
        if self.world.answers:
            self.world.answers.pop(self.random.randrange(len(self.world.answers)))

    def work(self) -> None:
        self._some(lambda process: process.executing is not None, Process.work)

    def post(self) -> None:
        self._some(lambda _: True, Process.post)

    def time_out(self) -> None:
        self._some(lambda process: process.is_due_to_ask, Process.post)

    def restore(self) -> None:
        self._some(lambda _: True, lambda process: process.restore(self.random.choice([2_000, END])))

    def notice_fence(self) -> None:
        def notice(process: Process) -> None:
            process.begin_anew()
            process.post()

        self._some(lambda process: process.is_fenced, notice)

    def start(self) -> None:
        slot = self.random.randrange(SLOTS)
        there = [process for process in self.world.live if process.worker.endswith(f"-{slot}")]
        if len(there) < (2 if self.random.random() < 0.1 * self.faults else 1):
            self.world.start(slot)

    def kill(self) -> None:
        self._some(lambda _: True, self.world.kill, frozen=True)

    def kill_seen(self) -> None:
        def kill(process: Process) -> None:
            self.world.kill(process)
            self.world.coordinator.handle(events.MemberGone(process.worker, process.incarnation))

        self._some(lambda _: True, kill, frozen=True)

    def lie_about_death(self) -> None:
        def tell(process: Process) -> None:
            self.world.coordinator.handle(events.MemberGone(process.worker, process.incarnation))

        self._some(lambda _: True, tell, frozen=True)

    def freeze(self) -> None:
        self._some(lambda _: True, lambda process: setattr(process, "is_frozen", True))

    def thaw(self) -> None:
        self._some(lambda process: process.is_frozen, lambda process: setattr(process, "is_frozen", False), frozen=True)

    def leave(self) -> None:
        self._some(lambda _: True, Process.leave)

    def drain(self) -> None:
        worker = f"worker-{self.random.randrange(SLOTS)}"
        event = self.random.choice([events.DrainRequested(worker), events.DrainCancelled(worker)])
        self.world.coordinator.handle(event)

    def fail_task(self) -> None:
        def fail(process: Process) -> None:
            process.failed.add(self.random.choice(sorted(process.actives)))

        self._some(lambda process: bool(process.actives), fail)

    def resume(self) -> None:
        self.world.coordinator.handle(events.ResumeRequested())

    def fence_returns(self) -> None:
        if self.world.fences:
            self.world.fence_returns(self.random.choice(self.world.fences))

    def fence_silently(self) -> None:
        """The broker has done it; the coordinator does not know yet."""
        if self.world.fences:
            self.world.fence_now(self.random.choice(self.world.fences))

    def fence_fails(self) -> None:
        """The coordinator believes that it failed; it may have been done, or be done much later."""
        if self.world.fences:
            fence = self.random.choice(self.world.fences)
            if self.random.random() < 0.5:
                self.world.fences.remove(fence)
            fence.coordinator.handle(events.FenceFailed(fence.worker, "timed out"))

    def serve(self) -> None:
        holders = [one for one in (self.world.coordinator, *self.world.zombies) if one.requests]
        if holders:
            self.random.choice(holders).serve()

    def serve_failing(self) -> None:
        if self.world.coordinator.requests:
            self.world.coordinator.serve(kafka=False)

    def advance(self) -> None:
        self.world.advance(self.random.choice([10, 100, 500, 900]))

    def restart_coordinator(self) -> None:
        self.world.restart_coordinator()

    def replace_coordinator(self) -> None:
        self.world.restart_coordinator(leaves_zombie=True)

    def end_zombie(self) -> None:
        if self.world.zombies:
            self.world.zombies.pop().is_alive = False

    def _some(self, condition, action, *, frozen: bool = False) -> None:
        able = [process for process in self.world.live if (frozen or not process.is_frozen) and condition(process)]
        if able:
            action(self.random.choice(able))


@pytest.mark.parametrize("block", range(10))
def test_promises_hold_whatever_happens(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        try:
            Explorer(seed).run(STEPS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
