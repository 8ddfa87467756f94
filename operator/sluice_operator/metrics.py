"""What the operator counts, beside what its coordinator does. Labels are bounded: by verbs, kinds, codes and words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sluice_operator.errors import ConflictError, KubeError

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class OperatorMetrics:
    """Its methods may be called in any thread."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._reconcile_seconds = Histogram(
            "sluice_operator_reconcile_seconds", "One look at one application, and what came of it.",
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self._reconcile_errors = Counter(
            "sluice_operator_reconcile_errors", "Looks that failed: conflict (looked at again at once), refused or "
            "unreachable (by the Kubernetes API), internal.", ["reason"], registry=registry,
        )  # fmt: skip
        self.api_calls = Counter(
            "sluice_operator_api_calls", "Requests to the Kubernetes API; code 0: no answer.",
            ["verb", "resource", "code"], registry=registry,
        )  # fmt: skip
        self.api_seconds = Histogram(
            "sluice_operator_api_seconds", "Time to the answer of the Kubernetes API, without watches.", ["verb"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self._leader = Gauge("sluice_operator_leader", "1 while this process leads.", registry=registry)
        self._expiry = Gauge(
            "sluice_operator_certificate_expiry_seconds", "Unix time at which a certificate ends: ca, serving.",
            ["certificate"], registry=registry,
        )  # fmt: skip

    def follow_leader(self, is_leading: Callable[[], bool]) -> None:
        """Ask it whenever somebody asks for metrics."""
        self._leader.set_function(lambda: float(is_leading()))

    def serves(self, ca_expires: datetime, expires: datetime) -> None:
        """These are the ends of the certificates that are served."""
        self._expiry.labels("ca").set(ca_expires.timestamp())
        self._expiry.labels("serving").set(expires.timestamp())

    @contextmanager
    def reconcile(self) -> Iterator[None]:
        """Around one look at an application."""
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            self._reconcile_errors.labels(_reason(error)).inc()
            raise
        finally:
            self._reconcile_seconds.observe(time.monotonic() - began)


def _reason(error: Exception) -> str:
    match error:
        case ConflictError():
            return "conflict"
        case KubeError(status=0):
            return "unreachable"
        case KubeError():
            return "refused"
    return "internal"
