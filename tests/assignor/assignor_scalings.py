"""Groups that grow and shrink, and how Kafka's assignor gets them there: the table that strategies are compared on.

Every task has the same state; at the beginning everything is at rest where HighAvailability places it. Where the
process id of a newcomer sorts decides how much of Kafka's round robin moves, so the order is part of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from uuid import UUID

from sluice_assignor import AssignmentConfig, Event, GroupState, Join, Leave, Pace, Task, Timeline, Worker, simulate
from sluice_protocol.ids import TaskId

END = 100_000
ACCEPTABLE_LAG = END // 100
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Scaling:
    """`order` has a letter for each worker, in the order of process ids: stays, joins, leaves.

    `needed`: the fewest tasks that must change their worker, so that afterwards no two workers differ by more than one
    and no task restores that has a caught-up copy.
    `moved`, `hand_overs`, `probes` and `warm_minutes` are Kafka's: tasks moved, changes of an active, steps at the
    probing interval of 10 minutes, and the minutes it would take if a step came whenever a copy is hot.
    """

    tasks: int
    order: str
    standbys: int
    warmups: int
    restore_minutes: int
    needed: int
    moved: int
    hand_overs: int
    probes: int
    warm_minutes: int
    cold: int = 0

    def __str__(self) -> str:
        before, after = (sum(letter in kinds for letter in self.order) for kinds in ("sl", "sj"))
        return f"{self.tasks}-tasks-{before}-to-{after}-s{self.standbys}-w{self.warmups}-{self.restore_minutes}m"

    def run(self, strategy: str, *, step_when_warm: bool) -> Timeline:
        config = AssignmentConfig(strategy, ACCEPTABLE_LAG, self.warmups, self.standbys)
        return simulate(self._at_rest(), config, self._pace(step_when_warm), self._events())

    def _pace(self, step_when_warm: bool) -> Pace:
        rate = ceil((END - ACCEPTABLE_LAG) / (60 * self.restore_minutes))
        return Pace(rate, step_when_warm=step_when_warm)

    def _at_rest(self) -> GroupState:
        names = [TaskId(0, partition) for partition in range(self.tasks)]
        cold = GroupState({name: Task(name, True, END) for name in names}, {w.process_id: w for w in self._of("sl")})
        config = AssignmentConfig("HighAvailability", ACCEPTABLE_LAG, self.warmups, self.standbys)
        return simulate(cold, config, Pace(restore_rate=1000 * END)).final

    def _events(self) -> list[Event]:
        return [
            *(Join(0, worker) for worker in self._of("j")),
            *(Leave(0, worker.process_id) for worker in self._of("l")),
        ]

    def _of(self, kinds: str) -> list[Worker]:
        return [Worker(UUID(int=place + 1), 1) for place, letter in enumerate(self.order) if letter in kinds]


SCALINGS = (
    #        tasks  order                  standbys warm-ups minutes needed moved hand-overs probes warm minutes
    Scaling(20, "sjs", 0, 2, 1, 6, 13, 13, 7, 7),
    Scaling(100, "ssssj", 0, 2, 1, 20, 80, 80, 40, 40),
    Scaling(100, "ssssj", 0, 2, 5, 20, 80, 80, 40, 200),
    Scaling(100, "ssssj", 0, 2, 15, 20, 80, 80, 80, 600),
    Scaling(100, "ssjssjjj", 0, 2, 1, 48, 74, 74, 37, 37),
    Scaling(100, "ssjssjjj", 0, 2, 5, 48, 74, 74, 37, 185),
    Scaling(100, "ssssj", 1, 2, 1, 20, 80, 160, 60, 60),
    Scaling(100, "ssssj", 0, 10, 1, 20, 80, 80, 8, 8),
    Scaling(100, "ssjssjjj", 0, 10, 5, 48, 74, 74, 8, 40),
    Scaling(500, "ssjsjsssssss", 0, 2, 1, 82, 426, 426, 213, 213),
    Scaling(500, "ssjjssjjssssjjjsjjjs", 0, 2, 1, 250, 425, 425, 213, 213),
    Scaling(500, "ssjjssjjssssjjjsjjjs", 0, 20, 1, 250, 425, 425, 22, 22),
    Scaling(100, "ssssl", 0, 2, 1, 20, 80, 60, 30, 30, cold=20),
    Scaling(100, "ssssl", 1, 2, 1, 30, 80, 99, 50, 50),
)
"""The rows of the measured table.

500 tasks on 12 workers need 82 moves: twelve workers of 41 or 42. Where a worker with standbys is lost, its 20 tasks
go to theirs, which are not spread evenly: 10 more moves between caught-up copies even that out, or 10 tasks would stand
still.
"""
