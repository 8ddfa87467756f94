"""The headers of a dead letter, as KIP-1034 names them: where the record was, and what was wrong with it."""

from __future__ import annotations

from sluice_pipeline.source.batch import Rejected


def dead_letter_headers(rejected: Rejected, subtopology: int) -> dict[str, bytes]:
    """Headers for the copy of a record in the dead-letter topic; numbers as their decimal text."""
    record = rejected.record
    kind, _, message = rejected.reason.partition(": ")
    return {
        "__streams.errors.exception": kind.encode(),
        "__streams.errors.message": (message or rejected.reason).encode(),
        "__streams.errors.topic": record.topic.encode(),
        "__streams.errors.partition": b"%d" % record.partition,
        "__streams.errors.offset": b"%d" % record.offset,
        "__streams.errors.timestamp": b"%d" % record.timestamp,
        "__streams.errors.taskid": f"{subtopology}_{record.partition}".encode(),
    }
