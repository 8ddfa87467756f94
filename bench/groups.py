"""Applications that can be scaled while they run, ours and Kafka Streams', behind one face: one bench for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from bench import ours
from bench.ground import Ground, Job
from bench.harness import tell
from bench.peers.kafka_streams import DEFAULT, KafkaStreams
from sluice_devkit.offsets import CommitWitness, OffsetWatch
from sluice_protocol.ids import worker_name

NO_WARM_UPS = 2**63 - 1
"""An acceptable recovery lag that makes everybody caught up: tasks move cold."""

PROBING_SECONDS = 60
"""The shortest that Kafka Streams allows; its default is ten minutes."""


class NotBalancedError(RuntimeError):
    """A group did not get to where it should be."""


class TwoOwnersError(AssertionError):
    """A task was committed by somebody who didn't own it."""


class Group(Protocol):
    """A running application of one worker, to begin with; workers are numbered from 0 and the last one leaves first."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def owners(self) -> dict[int, str]:
        """The worker of every task that runs, by partition."""

    def worker(self, number: int) -> str:
        """Its name in `owners`."""

    def scale(self, count: int) -> None:
        """Want so many workers; returns at once."""

    def kill(self, number: int) -> None:
        """SIGKILL a worker."""

    def wait_balanced(self, count: int, timeout: float) -> None:
        """Wait until so many workers share the tasks evenly. Raises NotBalancedError."""


class SluiceGroup:
    """Sluice in local mode; its supervisor replaces what was killed.

    A gap that two owners had a part in would be worth nothing, so the witness is asked when the group ends.
    """

    def __init__(self, ground: Ground, job: Job, acceptable_recovery_lag: int) -> None:
        self._ground, self._job = ground, job
        self._application = ours.counts(ground, job, acceptable_recovery_lag)

    def __enter__(self) -> Self:
        self._application.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._application.stop()
        if kind is None:
            check_ownership(self._ground, self._job.name)

    def owners(self) -> dict[int, str]:
        return ours.owners(self._application.view())

    def worker(self, number: int) -> str:
        return worker_name(number)

    def scale(self, count: int) -> None:
        self._application.scale(count)

    def kill(self, number: int) -> None:
        self._application.kill_worker(number)

    def wait_balanced(self, count: int, timeout: float) -> None:
        self._application.wait_settled(timeout)
        owners = self.owners()
        if not are_balanced(owners, count, self._job.partitions):
            raise NotBalancedError(f"the group says that it has nothing left to do, and its tasks are at {owners}")


@dataclass(slots=True)
class StreamsGroup:
    """Instances of Kafka Streams, each with its own state directory; what was killed is started again by `scale`."""

    ground: Ground
    job: Job
    watch: OffsetWatch
    acceptable_recovery_lag: int
    instances: list[KafkaStreams] = field(default_factory=list)
    leaving: list[KafkaStreams] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.scale(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for instance in [*self.instances, *self.leaving]:
            instance.kill()

    def owners(self) -> dict[int, str]:
        return {partition: it.name for it in self.instances for partition in it.active_partitions()}

    def worker(self, number: int) -> str:
        return f"i{number}"

    def scale(self, count: int) -> None:
        while len(self.instances) < count:
            name = self.worker(len(self.instances))
            self.instances.append(KafkaStreams(self.ground, self.job, self._config(), name))
        while len(self.instances) > count:
            self.leaving.append(self.instances.pop())
            self.leaving[-1].terminate()

    def kill(self, number: int) -> None:
        self.instances.pop(number).kill()

    def wait_balanced(self, count: int, timeout: float) -> None:
        if not self.watch.wait_for(lambda: are_balanced(self.owners(), count, self.job.partitions), timeout):
            raise NotBalancedError(f"not balanced over {count} after {timeout:.0f} s: {self.owners()}")

    def _config(self) -> Mapping[str, str]:
        return {
            **DEFAULT,
            "acceptable.recovery.lag": str(self.acceptable_recovery_lag),
            "probing.rebalance.interval.ms": str(PROBING_SECONDS * 1000),
            "session.timeout.ms": "10000",
        }


def check_ownership(ground: Ground, group: str) -> None:
    """Every task had one owner at a time, as the log of all commits says. Raises TwoOwnersError."""
    with CommitWitness(ground.bootstrap_servers, group) as witness:
        violations, commits = witness.check(), witness.commits()
    if violations:
        raise TwoOwnersError(f"{group}: {len(violations)} of {len(commits)} commits; first {violations[0]}")
    tell(f"{group}: {len(commits):,} commits, each task with one owner at a time")


def are_balanced(owners: Mapping[int, str], workers: int, partitions: int) -> bool:
    """Every task runs, and no worker has two tasks more than another."""
    loads = [list(owners.values()).count(worker) for worker in set(owners.values())]
    return len(owners) == partitions and len(loads) == workers and max(loads) - min(loads) <= 1
