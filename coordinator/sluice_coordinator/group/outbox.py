"""What a group wants done, gathered while it takes one event in."""

from __future__ import annotations

from dataclasses import replace

from sluice_coordinator.group import effects
from sluice_coordinator.group.config import GroupConfig
from sluice_coordinator.group.members import Member, Poll
from sluice_protocol.heartbeat import Code, HeartbeatAnswer, Status
from sluice_protocol.ids import Epoch

FENCED = "this member's producers are dead: drop everything, take a new member id, init_transactions, join"
SUPERSEDED = "a newer request of this member took its place"


class Outbox:
    """Effects in the order in which they were asked for."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self._effects: list[effects.Effect] = []

    def take(self, *, on_kafka: bool) -> tuple[effects.Effect, ...]:
        """Everything since the last time; what is to be done on Kafka stays here until it may be done."""
        taken = tuple(effect for effect in self._effects if on_kafka or not isinstance(effect, effects.OnKafka))
        self._effects = [effect for effect in self._effects if isinstance(effect, effects.OnKafka) and not on_kafka]
        return taken

    def do(self, effect: effects.Effect) -> None:
        """What waits already is not asked for twice."""
        if effect not in self._effects:
            self._effects.append(effect)

    def tell(self, text: str) -> None:
        """A sentence for people."""
        self.do(effects.Fact(text))

    def answer_list(self, member: Member, poll: Poll, statuses: tuple[Status, ...]) -> None:
        """Tell a member what it should hold."""
        answer = replace(
            self._answer(Code.OK, member.epoch, poll.sequence),
            grants=member.holdings.listed(),
            statuses=statuses,
            resumed=member.resumed,
        )
        self.do(effects.Answer(poll.number, answer))

    def answer(self, poll: Poll, epoch: Epoch, code: Code, message: str = "") -> None:
        """Answer with nothing but a code."""
        self.do(effects.Answer(poll.number, self._answer(code, epoch, poll.sequence, message)))

    def _answer(self, code: Code, epoch: Epoch, sequence: int, message: str = "") -> HeartbeatAnswer:
        return HeartbeatAnswer(
            code=code,
            epoch=epoch,
            sequence=sequence,
            message=message,
            acceptable_recovery_lag=self._config.assignment.acceptable_recovery_lag,
            heartbeat_interval_ms=self._config.heartbeat_interval_ms,
        )
