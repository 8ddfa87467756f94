"""What will go wrong, and when: a pure function of the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from sluice_pipeline.observer import Step

HITS = 2
"""How often each step is aimed at, at the least."""

SIZES = (1, 2, 3)

_SCALING = 0.3
"""How often a fault comes with another number of workers: each new one costs the start of a Spark."""

_ARRIVALS: dict[Step | None, int] = {Step.INITIALISED: 2, Step.RELEASED: 1}
"""How often one process surely takes a step; the others come with every batch."""


class Kind(Enum):
    AIMED_CRASH = "worker killed at a step"
    KILL_WORKER = "worker killed"
    FREEZE_WORKER = "worker frozen past its session, woken later"
    KILL_COORDINATOR = "coordinator killed"
    RESTART_BROKER = "broker killed and restarted"


AT_ANY_TIME = tuple(kind for kind in Kind if kind is not Kind.AIMED_CRASH)
FEWEST = HITS * len(Step) + len(AT_ANY_TIME)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the `pause` before it in seconds, the number of workers wanted from then on, and whom it hits.

    `victim` chooses among the workers that run when its time comes; a process may take an aimed step `passing` times.
    """

    number: int
    kind: Kind
    pause: float
    workers: int
    victim: int
    step: Step | None = None
    passing: int = 0

    def __str__(self) -> str:
        what = self.kind.value if self.step is None else f"{self.kind.value}: {self.step.name}"
        return f"{self.number}. {what}; {self.workers} workers wanted"


def schedule(seed: int, faults: int) -> tuple[Fault, ...]:
    """So many faults in random order: every step at least twice, every other kind at least once."""
    if faults < FEWEST:
        raise ValueError(f"FAULTS is {faults}; it must be at least {FEWEST} to hit every step {HITS} times")
    chance = random.Random(seed)
    what: list[tuple[Kind, Step | None]] = [(Kind.AIMED_CRASH, step) for step in Step for _ in range(HITS)]
    what += [(kind, None) for kind in AT_ANY_TIME]
    while len(what) < faults:
        if chance.random() < 0.4:
            what.append((Kind.AIMED_CRASH, chance.choice(list(Step))))
        else:
            what.append((chance.choice(AT_ANY_TIME), None))
    chance.shuffle(what)
    planned: list[Fault] = []
    workers = SIZES[1]
    for number, (kind, step) in enumerate(what, 1):
        workers = chance.choice(SIZES) if chance.random() < _SCALING else workers
        planned.append(_fault(number, kind, step, workers, chance))
    return tuple(planned)


def _fault(number: int, kind: Kind, step: Step | None, workers: int, chance: random.Random) -> Fault:
    return Fault(
        number,
        kind,
        pause=round(chance.uniform(0.0, 3.0), 3),
        workers=workers,
        victim=chance.randrange(60),
        step=step,
        passing=chance.randrange(_ARRIVALS.get(step, 3)),
    )
