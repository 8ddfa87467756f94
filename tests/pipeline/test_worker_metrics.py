from __future__ import annotations

from sluice_pipeline.restore.messages import Progress
from sluice_pipeline.worker.assignment import Phase
from sluice_pipeline.worker.copies import Copies
from sluice_pipeline.worker.metrics import WorkerMetrics
from sluice_protocol.ids import TaskId

TASK = TaskId(0, 1)


def progress(restored_records: int) -> Progress:
    return Progress(TASK, restored_records, 100, 0, restored_records, 0, 0)


def test_tasks_are_counted_by_their_phase_and_none_is_left_over():
    metrics = WorkerMetrics()

    metrics.hold([Phase.FOLLOWING, Phase.RUNNING, Phase.RUNNING])
    metrics.hold([Phase.RUNNING])

    tasks = {phase: metrics.registry.get_sample_value("sluice_worker_tasks", {"phase": phase.value}) for phase in Phase}
    assert tasks == {**dict.fromkeys(Phase, 0), Phase.RUNNING: 1}


def test_restored_records_are_those_since_the_last_word_of_the_restorer():
    copies = Copies()
    copies.opened(TASK)

    assert [copies.progressed(progress(count)) for count in (10, 10, 25)] == [10, 0, 15]


def test_a_copy_that_is_opened_again_counts_from_nothing():
    copies = Copies()
    copies.opened(TASK)
    copies.progressed(progress(10))
    copies.opened(TASK)

    assert copies.progressed(progress(3)) == 3
    (reported,) = copies.report()
    assert reported.restored_records == 13
