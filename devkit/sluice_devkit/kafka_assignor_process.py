"""Kafka's own assignor in a process of its own, so that its JVM's memory and threads are nobody else's.

Cases go in as lines of JSON, answers come out the same way and in the same order. While Kafka thinks about a case, the
caller may think about it too: `ask` doesn't wait, `answer` does. The process ends when its input does, so that it
never outlives the one that started it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import IO

from sluice_devkit.kafka_assignor import HIGH_AVAILABILITY, Answer, Case, KafkaAssignor


class KafkaAssignorProcess:
    """Raises nothing of its own: what goes wrong in the process is on its standard error, and `answer` says that."""

    def __enter__(self) -> KafkaAssignorProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sluice_devkit.kafka_assignor_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def decide(self, case: Case, assignor: str = HIGH_AVAILABILITY) -> Answer:
        self.ask(case, assignor)
        return self.answer()

    def ask(self, case: Case, assignor: str = HIGH_AVAILABILITY) -> None:
        """Let Kafka begin. Ask for a few answers at most before they are taken, or the pipe fills up."""
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps({"assignor": assignor, "case": case}) + "\n")
            self._process.stdin.flush()

    def answer(self) -> Answer:
        """The answer to the earliest question that has none yet. Raises RuntimeError when Kafka failed."""
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise RuntimeError("Kafka's assignor gave no answer; its standard error above says why")
        answer: Answer = json.loads(line)
        return answer


def answer_all(questions: Iterable[str], answers: IO[str]) -> None:
    kafka = KafkaAssignor()
    for line in questions:
        question = json.loads(line)
        answers.write(json.dumps(kafka.decide(question["case"], question["assignor"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    answer_all(sys.stdin, sys.stdout)
