"""A StreamsApp in words: what its conditions say, what its group does, and who said which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sluice_cli.status.numbers import show_plural, show_seconds
from sluice_cli.status.report import group_report
from sluice_cli.status.text import EMPTY, Line, Span, line, table
from sluice_protocol.view import GroupView

_NOTHING = "-"
_GOOD = {"Ready": "True", "KafkaReachable": "True", "TopologyValid": "True"}
_EVENTS = 10

Json = Mapping[str, Any]


def status_report(app: Json, cluster: str, group: GroupView | str, now_ms: int, *, wide: bool = False) -> list[Line]:
    """`group`: what the coordinator says, or why it says nothing. `now_ms` since the epoch."""
    lines = [_headline(app), line(f"conditions: StreamsApp {_key(app)} of {cluster}{_staleness(app)}"), EMPTY]
    lines += [*_conditions(app, now_ms), EMPTY]
    if isinstance(group, str):
        return [*lines, line(f"tasks: {group}"), *_warmups(app)]
    lines += [line(f"tasks: the coordinator, {group.state} at epoch {group.epoch}"), EMPTY]
    return [*lines, *group_report(group, now_ms, wide=wide)]


def description(app: Json, events: Sequence[Json] | str, now_ms: int) -> list[Line]:
    """What is wanted, what there is, and what has happened; `events` may be why there are none."""
    lines = [_headline(app), EMPTY, *_spec(app["spec"]), EMPTY, *_conditions(app, now_ms)]
    if rows := app.get("status", {}).get("subtopologies"):
        lines += [EMPTY, *_subtopologies(rows)]
    lines += [EMPTY, *_warmups(app)] if app.get("status", {}).get("warmups") else []
    return [*lines, EMPTY, *([line(events)] if isinstance(events, str) else _events(events, now_ms))]


def _key(app: Json) -> str:
    return f"{app['metadata']['namespace']}/{app['metadata']['name']}"


def _headline(app: Json) -> Line:
    status = app.get("status", {})
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    state = _going(app) or (Span("ready", "green") if ready and ready["status"] == "True" else Span("not ready", "red"))
    wanted = app["spec"].get("workers", {}).get("replicas", 1)
    has = status.get("readyReplicas", 0)
    epoch = f" at epoch {status['epoch']}" if status.get("epoch") else ""
    return (
        Span(f"{_key(app)}: ", "bold"),
        state,
        Span(f"{epoch}, {has} of {show_plural(wanted, 'worker')} in the group"),
    )


def _going(app: Json) -> Span | None:
    return Span("is being deleted", "yellow") if app["metadata"].get("deletionTimestamp") else None


def _staleness(app: Json) -> str:
    generation, seen = app["metadata"]["generation"], app.get("status", {}).get("observedGeneration", 0)
    if seen == 0:
        return "; no operator has looked at it yet"
    return f"; the operator has not seen its last change yet (generation {generation})" if seen < generation else ""


def _conditions(app: Json, now_ms: int) -> list[Line]:
    conditions = app.get("status", {}).get("conditions", ())
    rows = [
        [Span(each["type"]), _state(each), Span(_ago(each["lastTransitionTime"], now_ms)), Span(each["reason"]),
         Span(each["message"])]
        for each in conditions
    ]  # fmt: skip
    return table(["CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"], rows, right=("SINCE",))


def _state(condition: Json) -> Span:
    wanted = _GOOD.get(condition["type"])
    style = "" if wanted is None else "green" if condition["status"] == wanted else "red"
    return Span(condition["status"], style)


def _warmups(app: Json) -> Iterable[Line]:
    """As rounded in the status."""
    for each in app.get("status", {}).get("warmups", ()):
        left = f": about {each['lag']} offsets left" if each.get("lag") is not None else ""
        yield line(f"{each['task']} warming on {each['worker']}{left}{', ' + each['eta'] if each.get('eta') else ''}")


def _subtopologies(rows: Sequence[Json]) -> list[Line]:
    cells = [
        [Span(str(each["id"])), Span("yes" if each["stateful"] else "no"), Span(str(each["currentParallelism"]))]
        for each in rows
    ]
    return table(["SUBTOPOLOGY", "STATEFUL", "TASKS"], cells, right=("SUBTOPOLOGY", "TASKS"))


def _spec(spec: Json) -> list[Line]:
    wanted = {
        "application id": spec["applicationId"],
        "kafka": spec["kafka"]["bootstrapServers"],
        "pipeline": f"{spec['pipeline']['module']} in {spec['pipeline']['image']}",
        "workers": str(spec.get("workers", {}).get("replicas", 1)),
        "strategy": spec.get("assignment", {}).get("strategy", _NOTHING),
    }
    return [line(f"{name + ':':<16}{value}") for name, value in wanted.items()]


def _events(events: Sequence[Json], now_ms: int) -> list[Line]:
    if not events:
        return [line("no events")]
    rows = [
        [Span(_ago(each.get("lastTimestamp"), now_ms)), Span(each.get("reason", "")), Span(each.get("message", ""))]
        for each in events[-_EVENTS:]
    ]
    return table(["EVENT", "REASON", "MESSAGE"], rows, right=("EVENT",))


def _ago(moment: str | None, now_ms: int) -> str:
    if not moment:
        return _NOTHING
    then = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return f"{show_seconds(max(0, now_ms // 1000 - int(then.timestamp())))} ago"
