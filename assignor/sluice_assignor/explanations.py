"""Why a task moves, in one sentence for people: short enough for a status or an event."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sluice_assignor.model import Move, MoveReason


def explain(move: Move, names: Mapping[UUID, str]) -> str:
    """The move as a sentence. Workers that have no name are shown by their process id."""
    task, destination = move.task, _name(move.destination, names)
    source = "nobody" if move.source is None else _name(move.source, names)
    left = f"{move.left_to_restore:,} offsets left"
    sentences = {
        MoveReason.UNASSIGNED: f"{task} goes to {destination}: nobody held it",
        MoveReason.BALANCE: f"{task} goes from {source} to {destination}",
        MoveReason.WARMING: f"{task} warms up on {destination}, {left}; until then {source} has it",
        MoveReason.WAITING_FOR_SLOT: f"{task} is number {move.in_line} in line to warm up on {destination}, {left}; "
        f"until then {source} has it",
        MoveReason.SWAPPED_WITH_STANDBY: f"{task} goes from {source} to {destination}, its caught-up standby",
        MoveReason.HOT: f"{task} goes from {source} to {destination}, which has caught up",
        MoveReason.DRAINING: f"{task} goes from {source} to {destination}: {source} is draining",
        MoveReason.STANDBY: f"{destination} becomes a standby of {task}, {left}",
    }
    return sentences[move.reason] + _unbalanced(move, source, destination)


def _unbalanced(move: Move, source: str, destination: str) -> str:
    if not move.unbalanced_by:
        return ""
    tasks = "task" if move.unbalanced_by == 1 else "tasks"
    return f" ({source} runs {move.unbalanced_by} {tasks} more than {destination})"


def _name(process_id: UUID, names: Mapping[UUID, str]) -> str:
    return names.get(process_id, str(process_id))
