"""`sluice status` in words: what the group and its processes look like, in tables and in sentences of facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice_cli.running.view import LocalView, ProcessView
from sluice_cli.status.numbers import show_bytes, show_count, show_percent, show_plural, show_seconds
from sluice_cli.status.sentences import grievances, warming_sentence
from sluice_cli.status.text import EMPTY, Line, Span, line, table
from sluice_protocol.heartbeat import Role
from sluice_protocol.ids import worker_slot
from sluice_protocol.view import GroupView, MemberView, TaskView

_STATE_STYLES = {
    "running": "green", "stable": "green", "restoring": "yellow", "reconciling": "yellow", "draining": "yellow",
    "drained": "yellow", "starting": "yellow", "stopping": "yellow", "releasing": "yellow", "adopting": "yellow",
    "fencing": "red", "failed": "red", "waiting": "red", "not-ready": "red",
}  # fmt: skip
_ROLE_ORDER = {Role.ACTIVE: 0, Role.STANDBY: 1, Role.WARMUP: 2}
_NOTHING = "-"


def report(local: LocalView, group: GroupView | None, now_ms: int, *, wide: bool = False) -> list[Line]:
    """The whole report. `group` is None while the coordinator doesn't answer; `now_ms` since the epoch."""
    processes = {process.name: process for process in local.workers}
    lines = [_headline(local, group), EMPTY, *_workers(processes, group, now_ms, wide=wide)]
    if group is not None and group.tasks:
        lines += [EMPTY, *_tasks(group, wide=wide)]
    sentences = [*_sentences_of_processes(local), *_sentences(group)]
    return [*lines, EMPTY, *sentences] if sentences else lines


def group_report(group: GroupView, now_ms: int, *, wide: bool = False) -> list[Line]:
    """The part that a coordinator knows alone: members, tasks, facts."""
    lines = _workers(None, group, now_ms, wide=wide)
    if group.tasks:
        lines += [EMPTY, *_tasks(group, wide=wide)]
    sentences = list(_sentences(group))
    return [*lines, EMPTY, *sentences] if sentences else lines


def _headline(local: LocalView, group: GroupView | None) -> Line:
    running = sum(process.pid is not None for process in local.workers)
    workers = f"{running} of {local.desired} workers run" if running <= local.desired else _leaving(running, local)
    if group is None:
        return (Span(f"{local.application_id}: "), Span("coordinator not reachable", "red"), Span(f", {workers}"))
    moves = f", {show_plural(group.pending_moves, 'move')} to go" if group.pending_moves else ""
    return (
        Span(f"{local.application_id}: ", "bold"),
        _state(group.state),
        Span(f" at epoch {group.epoch}, {workers}{moves}"),
    )


def _leaving(running: int, local: LocalView) -> str:
    return f"{show_plural(running, 'worker')} run, {running - local.desired} of them leaving"


def _workers(
    processes: Mapping[str, ProcessView] | None, group: GroupView | None, now_ms: int, *, wide: bool
) -> list[Line]:
    """Without processes there are no columns about them."""
    members = {member.worker: member for member in group.members} if group else {}
    head = ["WORKER", "STATE", "PID", "TASKS", "LOAD", "BUSY", "HEARD"]
    if wide:
        head += ["EPOCH", "RESTARTS", "RESTORED", "PROCESS ID"]
    known = processes or {}
    names = sorted(members.keys() | known.keys(), key=worker_slot)
    rows = [_worker(name, known.get(name), members.get(name), group, now_ms, wide=wide) for name in names]
    if processes is None:
        kept = [column for column, title in enumerate(head) if title not in ("PID", "RESTARTS")]
        head, rows = [head[column] for column in kept], [[row[column] for column in kept] for row in rows]
    return table(head, rows, right=("PID", "TASKS", "LOAD", "BUSY", "HEARD", "RESTARTS", "RESTORED"))


def _worker(
    name: str,
    process: ProcessView | None,
    member: MemberView | None,
    group: GroupView | None,
    now_ms: int,
    *,
    wide: bool,
) -> list[Span]:
    active = sum(task.worker == name and task.role is Role.ACTIVE for task in group.tasks) if group else 0
    cells = [
        Span(name),
        _state(_worker_state(process, member)),
        Span(str(process.pid) if process and process.pid else _NOTHING),
        Span(str(active) if member else _NOTHING),
        Span(f"{show_count(member.load.records_per_second)}/s" if member else _NOTHING),
        Span(show_percent(member.load.busy_permille) if member else _NOTHING),
        Span(f"{show_seconds(max(0, now_ms - member.last_heard_ms) // 1000)} ago" if member else _NOTHING),
    ]
    if wide:
        cells += [
            Span(str(member.epoch) if member else _NOTHING),
            Span(str(process.restarts) if process else _NOTHING),
            Span(show_bytes(member.restored_bytes) if member else _NOTHING),
            Span(member.process_id if member else _NOTHING),
        ]
    return cells


def _worker_state(process: ProcessView | None, member: MemberView | None) -> str:
    """The process has the word while it isn't simply running; then the group has it."""
    if process is not None and process.state in ("starting", "stopping", "waiting"):
        return process.state
    if member is not None:
        return member.state
    return process.state if process is not None else "gone"


def _tasks(group: GroupView, *, wide: bool) -> list[Line]:
    head = ["TASK", "ROLE", "WORKER", "STATE", "LAG", "ETA"]
    if wide:
        head += ["RESTORED", "END", "RATE", "EPOCH"]
    tasks = sorted(group.tasks, key=lambda task: (task.task, _ROLE_ORDER[task.role], task.worker))
    rows = [_task(task, wide=wide) for task in tasks]
    return table(head, rows, right=("LAG", "ETA", "RESTORED", "END", "RATE"))


def _task(task: TaskView, *, wide: bool) -> list[Span]:
    cells = [
        Span(str(task.task)),
        Span(task.role.value),
        Span(task.worker or _NOTHING),
        _state(task.state),
        Span(_NOTHING if task.lag is None else show_count(task.lag)),
        Span(_NOTHING if task.eta_seconds is None else show_seconds(task.eta_seconds)),
    ]
    if wide:
        cells += [
            Span(_NOTHING if task.offset_sum is None else str(task.offset_sum)),
            Span(_NOTHING if task.end_offset_sum is None else str(task.end_offset_sum)),
            Span(_NOTHING if task.rate is None else f"{show_count(task.rate)}/s"),
            Span(str(task.epoch)),
        ]
    return cells


def _sentences_of_processes(local: LocalView) -> Iterable[Line]:
    for process in (local.coordinator, *local.workers):
        yield from _process_sentences(process)


def _sentences(group: GroupView | None) -> Iterable[Line]:
    if group is None:
        return
    yield from (line(sentence, "red") for sentence in grievances(group))
    warming = (task for task in group.tasks if task.role is Role.WARMUP and task.state != "releasing")
    yield from (line(warming_sentence(task)) for task in sorted(warming, key=lambda task: task.task))
    yield from (line(f"planned: {move.why}") for move in group.planned)
    yield from _waiting(group)


def _process_sentences(process: ProcessView) -> Iterable[Line]:
    if process.state == "waiting":
        pause = -(-(process.restart_in_ms or 0) // 1000)
        when = f"is started again in {show_seconds(pause)}" if pause else "is started again"
        yield line(
            f"{process.name} died ({process.last_exit}, restarted {_times(process.restarts)}) and {when}; "
            f"its log: {process.log}",
            "red",
        )


def _times(count: int) -> str:
    return "once before" if count == 1 else f"{count} times before"


def _waiting(group: GroupView) -> Iterable[Line]:
    waiting = sum(not task.worker for task in group.tasks)
    if waiting:
        yield line(f"{show_plural(waiting, 'task')} {'waits' if waiting == 1 else 'wait'} for a worker", "yellow")


def _state(state: str) -> Span:
    return Span(state, _STATE_STYLES.get(state, ""))
