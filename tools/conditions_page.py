"""docs/conditions.md: every condition of a StreamsApp, and every reason that it can give, as the code has them."""

from __future__ import annotations

from collections.abc import Iterator

from sluice_operator.conditions import JUDGES
from sluice_operator.reasons import Reason
from sluice_operator.reconcile import CLEANUP_LIMIT

_INTRODUCTION = f"""# Conditions

`kubectl describe sapp NAME` shows them, `kubectl wait --for=condition=Ready sapp/NAME` waits for one. All of them
always exist, in this order. A change of a status or a reason is worth an event, a Warning if it is bad; what is said
again is counted, and an application that says too much is cut short.

When a StreamsApp with `spec.deletionPolicy: Delete` is deleted and its topics can't be, it goes without them
{CLEANUP_LIMIT.seconds // 60} minutes after its deletion was asked for. The event `TopicsLeft` names what it leaves.
"""

_READY = "Does every task run? Also gives the reasons of other conditions that stand in its way."


def conditions_page(header: str) -> str:
    """The whole page."""
    return "\n".join([header, _INTRODUCTION, *(line for kind in JUDGES for line in _section(kind))])


def _section(kind: str) -> Iterator[str]:
    yield f"## {kind}\n"
    yield (_READY if kind == "Ready" else JUDGES[kind].__doc__ or "") + "\n"
    yield "| Reason | What it means | What to do |"
    yield "|---|---|---|"
    for reason in Reason:
        if reason.condition == kind:
            yield f"| `{reason.word}` | {reason.meaning} | {reason.remedy} |"
    yield ""
