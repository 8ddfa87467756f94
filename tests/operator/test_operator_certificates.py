"""The coordinator's own certificates: whom they name, when they are renewed, and what is no certificate."""

from __future__ import annotations

import base64
import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from sluice_operator.certificates import (
    CertificatesDamagedError,
    Lifetimes,
    are_due,
    from_data,
    issue,
    names_of,
    renew,
    to_data,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIFETIMES = Lifetimes()
URL = "https://sluice-coordinator.sluice-system.svc:8080"
SERVICE = names_of(URL)


@pytest.mark.parametrize("host", ["c.ns.svc", "c.ns.svc.cluster.local"])
def test_a_service_goes_by_all_its_names(host: str):
    assert names_of(f"https://{host}:8080") == ("c", "c.ns", "c.ns.svc", "c.ns.svc.cluster.local")


@pytest.mark.parametrize("host", ["127.0.0.1", "coordinator.example.org", "coordinator"])
def test_any_other_host_goes_by_its_own(host: str):
    assert names_of(f"https://{host}:8080") == (host,)


def test_what_is_written_reads_back():
    made = issue(SERVICE, NOW, LIFETIMES)

    assert from_data(to_data(made)) == made


def test_the_authority_outlives_many_serving_certificates():
    made = issue(SERVICE, NOW, LIFETIMES)

    assert made.expires == NOW + LIFETIMES.serving
    assert made.ca_expires == NOW + LIFETIMES.ca
    renewed = renew(made, SERVICE, NOW + timedelta(days=70), LIFETIMES)
    assert (renewed.ca, renewed.ca_key) == (made.ca, made.ca_key)
    assert renewed.key != made.key
    assert renewed.expires == NOW + timedelta(days=160)
    assert from_data(to_data(renewed)) == renewed


def test_no_certificate_outlives_its_authority():
    made = issue(SERVICE, NOW, LIFETIMES)

    assert renew(made, SERVICE, made.ca_expires - timedelta(days=1), LIFETIMES).expires == made.ca_expires


@pytest.mark.parametrize(("days", "is_due"), [(0, False), (59, False), (61, True), (91, True)])
def test_a_certificate_is_due_when_a_third_of_its_life_is_left(days: int, is_due: bool):
    assert are_due(issue(SERVICE, NOW, LIFETIMES), SERVICE, NOW + timedelta(days=days)) == is_due


def test_a_certificate_that_lacks_a_name_is_due():
    assert are_due(issue(("elsewhere", "10.0.0.1"), NOW, LIFETIMES), SERVICE, NOW)
    assert not are_due(issue(("10.0.0.1",), NOW, LIFETIMES), ("10.0.0.1",), NOW)


def test_no_key_is_shown():
    made = issue(SERVICE, NOW, LIFETIMES)

    assert "PRIVATE" not in repr(made)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ca.crt": ""}, "ca.crt is missing"),
        ({"tls.key": "%"}, "tls.key is not PEM"),
        ({"tls.crt": base64.b64encode(b"x").decode()}, "tls.crt is not a certificate"),
        ({"ca.key": base64.b64encode(b"x").decode()}, "ca.key is not a key"),
    ],
)
def test_what_is_no_certificate_is_named(change: dict[str, str], said: str):
    with pytest.raises(CertificatesDamagedError, match=said):
        from_data(to_data(issue(SERVICE, NOW, LIFETIMES)) | change)


def test_parts_that_do_not_belong_together_are_named():
    one, other = issue(SERVICE, NOW, LIFETIMES), issue(SERVICE, NOW, LIFETIMES)

    with pytest.raises(CertificatesDamagedError, match=r"tls\.key is not the key of tls\.crt"):
        from_data(to_data(dataclasses.replace(one, key=other.key)))
    with pytest.raises(CertificatesDamagedError, match=r"tls\.crt was not signed by ca\.crt"):
        from_data(to_data(dataclasses.replace(one, ca=other.ca, ca_key=other.ca_key)))
