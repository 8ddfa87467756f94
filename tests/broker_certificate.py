"""A certificate for the brokers of a test, by an authority that nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime

from sluice_devkit.kafka import ServerCertificate
from sluice_operator.certificates import Lifetimes, issue


def a_certificate() -> ServerCertificate:
    issued = issue(("127.0.0.1",), datetime.now(UTC), Lifetimes())
    return ServerCertificate(issued.ca, issued.certificate, issued.key)
