"""The worker's one deciding thread: it takes events one at a time and makes what it holds into what it was granted.

Everything slow happens elsewhere (loops, restorers, a few threads that ask Kafka) and comes back as an event. After
each event the table of `assignment` is asked for every task, and the coordinator is told when there is news.
"""

from __future__ import annotations

import functools
import logging
import os
import queue
import time
from dataclasses import replace

from sluice_pipeline.engine.evaluation import Evaluation
from sluice_pipeline.engine.session import Engine
from sluice_pipeline.observer import Observer, Step
from sluice_pipeline.offsets import Offsets
from sluice_pipeline.plan import TopologyPlan
from sluice_pipeline.restore.messages import Failed, Finished, Follow, Opened, Progress, Stopped
from sluice_pipeline.restore.restorers import Restorers
from sluice_pipeline.state.directory import (
    StateDirectory,
    StateDirectoryError,
    TaskDirectory,
    TaskIdentity,
)
from sluice_pipeline.state.store import StoreError
from sluice_pipeline.transaction import KafkaUnavailableError, ProducerDeadError
from sluice_pipeline.worker.agent import Agent, heartbeat_path, secret_of
from sluice_pipeline.worker.assignment import Action, Held, Phase, next_action
from sluice_pipeline.worker.cleaner import Cleaner
from sluice_pipeline.worker.copies import Copies
from sluice_pipeline.worker.events import (
    Answered,
    LoopCrashed,
    NotPrepared,
    Prepared,
    ProducerDied,
    Refused,
    TaskBroke,
    TaskReleased,
    TaskStopped,
    Terminated,
    Ticked,
    WorkerEvent,
)
from sluice_pipeline.worker.incarnation import Incarnation, Incarnations, SourceFactory
from sluice_pipeline.worker.load import LoadMeter
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_pipeline.worker.takeovers import Takeovers
from sluice_pipeline.worker.task_loop import RunningTask
from sluice_protocol.heartbeat import Code, FailedTask, Grant, HeartbeatAnswer, HeartbeatRequest, Role
from sluice_protocol.ids import LEAVE, TaskId
from sluice_protocol.launch import EXIT_NOT_ADMITTED, WorkerLaunch
from sluice_protocol.route import Route

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_REFUSED = 2
"""A person has to act: a supervisor that restarts the process changes nothing."""
EXIT_BROKEN = 70
"""A loop or the JVM is lost; a fresh process goes on."""

_TICK_SECONDS = 1.0
_HUNG_SECONDS = 300.0
_STOP_SECONDS = 60.0
_LEAVE_SECONDS = 3.0
_WARM_UP_ROUNDS, _LEAST_ROUNDS = 30, 5
"""The engine is warmed up before the worker joins. Most of what a round warms serves all subtopologies."""
_TOMBSTONE_SECONDS = 43_200.0
"""Half of the changelogs' delete.retention.ms (a day): an older copy may miss deletions."""


class Worker:
    """One worker process, from its first join to its last goodbye."""

    def __init__(
        self,
        launch: WorkerLaunch,
        secret: str,
        plan: TopologyPlan,
        engine: Engine,
        state: StateDirectory,
        source_factory: SourceFactory,
        observer: Observer,
        metrics: WorkerMetrics,
    ) -> None:
        self._launch = launch
        self._description = plan.description()
        self._hash = self._description.hash()
        self._engine = engine
        self._evaluations = {part.id: Evaluation(engine.spark, part) for part in plan.subtopologies}
        self._state = state
        self._observer = observer
        self._metrics = metrics
        self._events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self._offsets = Offsets(launch.bootstrap_servers, launch.kafka_config, launch.application_id)
        self._incarnations = Incarnations(
            launch, plan, self._evaluations, source_factory, self._offsets, self._events.put, observer, metrics
        )
        self._restorers = Restorers(
            launch.bootstrap_servers,
            launch.kafka_config,
            launch.restorers,
            launch.restore_bytes_per_second,
            self._events.put,
        )
        self._agent = Agent(
            Route(launch.coordinator, launch.coordinator_ca),
            heartbeat_path(launch.namespace, launch.app or launch.application_id),
            secret_of(launch, secret),
            lambda answer, version: self._events.put(Answered(answer, version)),
            lambda message: self._events.put(Refused(message)),
            self._watch,
        )
        self._held: dict[TaskId, Held] = {}
        self._wanted: dict[TaskId, Grant] = {}
        self._takeovers = Takeovers(self._offsets, plan, launch.application_id, self._events.put)
        self._identities: dict[TaskId, TaskIdentity] = {}
        self._failed: dict[TaskId, FailedTask] = {}
        self._copies = Copies()
        self._cleaner = Cleaner(state, self._copies, launch.state_cleanup_delay_ms / 1000)
        self._hot: set[TaskId] = set()
        self._news = False
        self._said = 0
        self._needs_topology = True
        self._leader = 0
        self._load = LoadMeter()
        self._incarnation: Incarnation | None = None
        self._ending: int | None = None

    def terminate(self) -> None:
        """Ask it to finish its batches, hand over and leave; safe from a signal handler."""
        self._events.put(Terminated())

    def run(self) -> int:
        """Work until asked to end or told to; returns the exit code."""
        for task in self._state.tasks():
            found = self._state.inspect(task)
            if found is not None:
                self._copies.found(found)
        for evaluation in self._evaluations.values():
            evaluation.warm_up(max(_LEAST_ROUNDS, _WARM_UP_ROUNDS // len(self._evaluations)))
        self._agent.start()
        self._join()
        while self._ending is None:
            try:
                event = self._events.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                event = Ticked()
            self._handle(event)
            while self._ending is None and not self._events.empty():
                self._handle(self._events.get())
            if self._ending is None and self._incarnation is None:
                self._join()
            elif self._ending is None:
                self._reconcile()
                self._metrics.hold(held.phase for held in self._held.values())
                if self._news:
                    self._say()
        return self._close(self._ending)

    # --- incarnations

    def _join(self) -> None:
        """Become a member, or try again later while Kafka can't be reached."""
        try:
            self._incarnation = self._incarnations.begin()
        except KafkaUnavailableError as error:
            log.warning("%s; trying again", error)
            return
        except ProducerDeadError as error:
            self._end(EXIT_BROKEN, str(error))
            return
        self._needs_topology = True
        self._say()

    def _reincarnate(self, why: str) -> None:
        """Drop every task without writing, become a new member. Never initialise a fenced producer again."""
        log.warning("starting over as a new member: %s", why)
        self._drop_everything()
        if self._ending is None:
            self._join()

    def _drop_everything(self) -> None:
        """Stop loops and copies, and wait until every store is closed."""
        incarnation = self._incarnation
        if incarnation is None:
            return
        self._said = 0  # no answer counts until the next member has spoken
        deadline = time.monotonic() + _STOP_SECONDS
        hung = incarnation.stop_loops(deadline)
        if hung is not None:
            self._end(EXIT_BROKEN, f"{hung.name} did not stop within {_STOP_SECONDS:.0f} s")
            return
        self._stop_copies(deadline)
        self._forget_old_events()
        for task, held in self._held.items():
            if held.phase in (Phase.RUNNING, Phase.RELEASING):
                self._look_at(task)
        for memory in (self._held, self._wanted, self._failed, self._hot):
            memory.clear()
        self._takeovers.clear()
        self._incarnation = None

    def _stop_copies(self, deadline: float) -> None:
        in_restorers = {Phase.FOLLOWING, Phase.RESTORING, Phase.STOPPING}
        waiting = {task for task, held in self._held.items() if held.phase in in_restorers}
        for task in waiting:
            if self._held[task].phase is not Phase.STOPPING:
                self._restorers.stop(task)
        while waiting and time.monotonic() < deadline:
            try:
                event = self._events.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(event, Stopped | Finished | Failed):
                self._restorers.forget(event.task)
                waiting.discard(event.task)
                self._look_at(event.task)
            elif isinstance(event, Terminated):
                self._end(EXIT_OK, "asked to end")

    def _forget_old_events(self) -> None:
        """Whatever is still queued is of the membership that has ended, but for a wish to end."""
        while not self._events.empty():
            if isinstance(self._events.get(), Terminated):
                self._end(EXIT_OK, "asked to end")

    # --- events

    @functools.singledispatchmethod
    def _handle(self, event: object) -> None:
        """One event; those without a method of their own (a loop stopped, time passed) only lead to the next look."""

    @_handle.register
    def _(self, event: Answered) -> None:
        if event.version == self._said:
            self._answered(event.answer)

    @_handle.register
    def _(self, event: TaskStopped) -> None:
        self._failed_here(event.failed)

    @_handle.register
    def _(self, event: TaskBroke) -> None:
        log.warning("task %s: %s; restoring it", event.task, event.message)
        self._look_at(event.task)
        self._take_over(event.task)

    @_handle.register
    def _(self, event: ProducerDied) -> None:
        self._reincarnate(event.message)

    @_handle.register
    def _(self, event: LoopCrashed) -> None:
        self._end(EXIT_BROKEN, f"the loop of subtopology {event.subtopology} ended: {event.message}")

    @_handle.register
    def _(self, event: Refused) -> None:
        self._end(EXIT_NOT_ADMITTED, event.message)

    @_handle.register
    def _(self, event: Terminated) -> None:
        self._end(EXIT_OK, "asked to end")

    def _end(self, code: int, why: str) -> None:
        log.log(logging.INFO if code == EXIT_OK else logging.ERROR, "ending: %s", why)
        self._ending = code

    def _answered(self, answer: HeartbeatAnswer) -> None:
        incarnation = self._incarnation
        if incarnation is None or answer.epoch.leader < self._leader:
            self._news = True  # an older leader's word counts for nothing: ask again
            return
        self._leader = answer.epoch.leader
        if answer.code is Code.OK:
            incarnation.answer = answer
            self._needs_topology = False
            self._wanted = {grant.task: grant for grant in answer.grants}
            for task in answer.resumed:
                if self._failed.pop(task, None) is not None:
                    self._take_over(task)
            self._cleaner.delete_condemned(self._used())
            self._news = True  # the next poll
        elif answer.code is Code.FENCED:
            self._reincarnate(f"fenced by the coordinator: {answer.message}")
        elif answer.code is Code.UNKNOWN_MEMBER:
            self._needs_topology = True
            self._news = True
        elif answer.code in (Code.INVALID_TOPOLOGY, Code.INVALID_REQUEST):
            self._end(EXIT_NOT_ADMITTED, answer.message)
        else:
            log.warning("coordinator: %s %s", answer.code.value, answer.message)
            self._news = True

    @_handle.register
    def _(self, event: Opened) -> None:
        self._copies.opened(event.task)
        if event.wiped_because:
            log.info("task %s is restored from the start of its changelogs: %s", event.task, event.wiped_because)

    @_handle.register
    def _(self, event: Progress) -> None:
        self._metrics.restored.inc(max(0, self._copies.progressed(event)))
        self._observer.reached(Step.RESTORING)
        held, incarnation = self._held.get(event.task), self._incarnation
        if held is None or incarnation is None or incarnation.answer is None or held.grant.role is Role.ACTIVE:
            return
        lag = self._copies.lag(event.task)
        if lag is not None and lag <= incarnation.answer.acceptable_recovery_lag:
            if event.task not in self._hot:
                self._hot.add(event.task)
                self._news = True
        else:
            self._hot.discard(event.task)

    @_handle.register
    def _(self, event: Stopped) -> None:
        self._restorers.forget(event.task)
        self._copies.closed(event.task, event.boundaries)
        held = self._held.get(event.task)
        if held is not None and held.phase is Phase.STOPPING:
            self._let_go(event.task)

    @_handle.register
    def _(self, event: TaskReleased) -> None:
        if event.boundaries is None:
            self._look_at(event.task)
        else:
            self._copies.closed(event.task, event.boundaries)
        self._let_go(event.task)

    def _look_at(self, task: TaskId) -> None:
        """A copy was closed by somebody who can't say where it stands: read it from the disk."""
        found = self._state.inspect(task)
        if found is not None:
            self._copies.found(found)

    def _let_go(self, task: TaskId) -> None:
        """A task was closed as wanted, or has to begin again because it still is."""
        self._held.pop(task, None)
        self._takeovers.end(task)
        self._hot.discard(task)
        self._news = True

    def _failed_here(self, failed: FailedTask) -> None:
        log.error("task %s stopped, reason %s: %s", failed.task, failed.reason, failed.message)
        self._failed[failed.task] = failed
        held = self._held.get(failed.task)
        if held is not None:
            self._held[failed.task] = Held(held.grant, Phase.FAILED)
        takeover = self._takeovers.end(failed.task)
        if takeover is not None and takeover.identity is not None:
            self._restorers.stop(failed.task)
        else:
            self._look_at(failed.task)
        self._news = True

    @_handle.register
    def _(self, event: Failed) -> None:
        log.warning("task %s: %s; trying again", event.task, event.message)
        self._restorers.forget(event.task)
        held = self._held.get(event.task)
        if held is None or held.phase is Phase.STOPPING:
            self._let_go(event.task)
            return
        self._begin_later(event.task, held.grant)

    # --- what is held becomes what is wanted

    def _reconcile(self) -> None:
        for task in sorted(self._used()):
            while (action := next_action(self._wanted.get(task), self._held.get(task))) is not None:
                self._act(task, action)
        self._takeovers.ask_due()
        self._news |= self._cleaner.condemn_unused(self._used())

    def _used(self) -> set[TaskId]:
        return {*self._held, *self._wanted}

    def _act(self, task: TaskId, action: Action) -> None:
        wanted, held = self._wanted.get(task), self._held.get(task)
        if action is Action.REGRANT and wanted is not None and held is not None:
            self._held[task] = Held(wanted, held.phase)
        elif action in (Action.TAKE_OVER, Action.FOLLOW) and wanted is not None:
            self._copies.spare(task)
            self._begin(task, wanted)
        elif held is not None:
            self._give_up(task, held, action)

    def _give_up(self, task: TaskId, held: Held, action: Action) -> None:
        if action is Action.RELEASE and self._incarnation is not None:
            self._held[task] = Held(held.grant, Phase.RELEASING)
            self._incarnation.loops[task.subtopology].release(task)
        elif action is Action.STOP:
            self._held[task] = Held(held.grant, Phase.STOPPING)
            self._restorers.stop(task)
        elif action is Action.DROP:
            self._failed.pop(task, None)
            self._let_go(task)

    def _take_over(self, task: TaskId) -> None:
        held = self._held.get(task)
        if held is not None:
            self._begin(task, held.grant)

    def _begin(self, task: TaskId, grant: Grant) -> None:
        """Start (again) to prepare a task for the role of the grant."""
        held = self._held.get(task)
        following = held is not None and held.phase is Phase.FOLLOWING
        self._takeovers.begin(task, self._identities.get(task) if following else None)
        self._held[task] = Held(grant, Phase.RESTORING if following else Phase.PREPARING)
        self._hot.discard(task)

    def _begin_later(self, task: TaskId, grant: Grant) -> None:
        """The same after a pause, because it failed."""
        self._takeovers.begin_later(task)
        self._held[task] = Held(grant, Phase.PREPARING)
        self._hot.discard(task)

    @_handle.register
    def _(self, event: Prepared) -> None:
        takeover, held = self._takeovers.answered(event), self._held.get(event.task)
        if takeover is None or held is None:
            return
        takeover.prepared = event
        if event.identity is None:
            self._run_task(event, None)
            return
        if takeover.identity is None:
            self._identities[event.task] = event.identity
            self._restorers.follow(
                Follow(
                    str(self._state.path(event.task)),
                    event.identity,
                    _TOMBSTONE_SECONDS,
                    event.log_starts,
                    event.log_ends,
                )
            )
        if held.grant.role is Role.ACTIVE:
            self._held[event.task] = Held(held.grant, Phase.RESTORING)
            self._restorers.finish(event.task, event.log_ends)
        else:
            self._held[event.task] = Held(held.grant, Phase.FOLLOWING)
            self._takeovers.end(event.task)

    @_handle.register
    def _(self, event: NotPrepared) -> None:
        takeover, held = self._takeovers.answered(event), self._held.get(event.task)
        if takeover is None or held is None:
            return
        if event.failed is not None and held.grant.role is Role.ACTIVE:
            self._failed_here(event.failed)
            return
        log.warning("task %s: %s; trying again", event.task, event.message)
        self._takeovers.retry(event.task)

    @_handle.register
    def _(self, event: Finished) -> None:
        """The stores are closed at the changelog's end: open them here and run."""
        self._restorers.forget(event.task)
        self._copies.closed(event.task, event.boundaries)
        takeover, held = self._takeovers.get(event.task), self._held.get(event.task)
        if held is None or held.phase is Phase.STOPPING or takeover is None or takeover.prepared is None:
            self._let_go(event.task)
            return
        identity = takeover.prepared.identity
        if identity is not None:
            self._run_task(takeover.prepared, identity)

    def _run_task(self, prepared: Prepared, identity: TaskIdentity | None) -> None:
        task, incarnation = prepared.task, self._incarnation
        held = self._held.get(task)
        if held is None or incarnation is None:
            return
        directory = None
        if identity is not None:
            try:
                directory = TaskDirectory(self._state.path(task), identity, _TOMBSTONE_SECONDS)
            except (StateDirectoryError, StoreError, OSError) as error:
                self._begin_later(task, held.grant)
                log.warning("task %s: %s; trying again", task, error)
                return
        self._takeovers.end(task)
        self._held[task] = Held(held.grant, Phase.RUNNING)
        if directory is not None:
            self._copies.running(task)
        running = RunningTask(task, held.grant.epoch, directory, dict(prepared.positions))
        incarnation.loops[task.subtopology].add(running, commit_first=prepared.commit_first)
        self._news = True

    # --- what is said

    def _say(self) -> None:
        self._news = False
        if self._incarnation is not None:
            self._said = self._agent.submit(self._request(self._incarnation))

    def _request(self, incarnation: Incarnation) -> HeartbeatRequest:
        if incarnation.answer is not None and self._has_released():
            incarnation.epoch = incarnation.answer.epoch
        return HeartbeatRequest(
            member_id=incarnation.member_id,
            worker=self._launch.worker,
            process_id=self._state.process_id,
            incarnation=self._launch.incarnation,
            member_epoch=incarnation.epoch,
            sequence=0,
            topology_hash=self._hash,
            capacity=self._launch.threads,
            topology=self._description if self._needs_topology else None,
            rack=self._launch.rack,
            tags=self._launch.tags,
            grants=tuple(held.grant for _, held in sorted(self._held.items())),
            copies=self._copies.report(),
            failed=tuple(failed for _, failed in sorted(self._failed.items())),
            load=self._load.read(incarnation.loops.values()),
        )

    def _has_released(self) -> bool:
        """Whether everything that the last answer took away is closed."""
        taken_away = (
            task
            for task, held in self._held.items()
            if held.grant.role is Role.ACTIVE
            and (task not in self._wanted or self._wanted[task].role is not Role.ACTIVE)
        )
        return next(taken_away, None) is None

    # --- the end

    def _watch(self) -> None:
        """Called by the heartbeat's thread: a hung loop or a lost JVM ends the process at once."""
        incarnation = self._incarnation
        if not self._engine.is_alive():
            log.error("ending: Spark's JVM is lost")
            os._exit(EXIT_BROKEN)
        for loop in incarnation.loops.values() if incarnation is not None else ():
            since = loop.working_since
            if since is not None and time.monotonic() - since > _HUNG_SECONDS:
                log.error("ending: %s has worked on one batch for more than %.0f s", loop.name, _HUNG_SECONDS)
                os._exit(EXIT_BROKEN)

    def _close(self, code: int) -> int:
        """Finish the batches, close the stores, and leave."""
        goodbye = self._request(self._incarnation) if self._incarnation is not None else None
        self._drop_everything()
        self._restorers.close()
        if goodbye is not None and code == EXIT_OK and self._ending == EXIT_OK:
            self._agent.leave(_leaving(goodbye, self._copies), _LEAVE_SECONDS)
        self._takeovers.close()
        self._state.close()
        return self._ending or code


def _leaving(request: HeartbeatRequest, copies: Copies) -> HeartbeatRequest:
    return replace(request, member_epoch=LEAVE, grants=(), copies=copies.report())
