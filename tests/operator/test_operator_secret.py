"""The Secret with the coordinator's certificates on a real API server: one authority, whoever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from operator_coordination import coordinating

from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator import coordination as coordination_module
from sluice_operator.certificates import Certificates, CertificatesDamagedError, Lifetimes, from_data, to_data
from sluice_operator.kube import paths
from sluice_operator.kube.certificates import ServingCertificates
from sluice_operator.kube.client import Kube

pytestmark = pytest.mark.kubernetes

SECONDS = 20.0
NAMES = ("coordinator", "coordinator.sluice.svc")
SHORT = Lifetimes(serving=timedelta(seconds=1))
"""Due at once: it is made out from five minutes ago."""


def run(cluster: KubernetesCluster, story: Callable[[Kube], Awaitable[None]]) -> None:
    info = kopf.ConnectionInfo(server=cluster.url, ca_path=str(cluster.ca_file), token=cluster.client.token)

    async def told() -> None:
        async with Kube(lambda: info) as kube:
            await story(kube)

    asyncio.run(told())


def of(kube: Kube, namespace: str, lifetimes: Lifetimes | None = None) -> ServingCertificates:
    return ServingCertificates(kube, namespace, "coordinator-tls", NAMES, lifetimes)


def stored(cluster: KubernetesCluster, namespace: str) -> dict[str, Any]:
    return dict(cluster.client.get(f"{paths.secrets(namespace)}/coordinator-tls"))


def test_operators_that_start_together_share_one_authority(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        several = [of(kube, namespace) for _ in range(5)]
        await asyncio.gather(*(each.load() for each in several))

        assert len({each.current.ca for each in several}) == 1
        assert len({each.current.certificate for each in several}) == 1

    run(kubernetes, story)
    secret = stored(kubernetes, namespace)
    assert secret["type"] == "kubernetes.io/tls"
    assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def test_only_the_leader_renews_and_the_others_follow(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        await of(kube, namespace, SHORT).load()
        leader, follower = of(kube, namespace), of(kube, namespace)
        await asyncio.gather(leader.load(), follower.load())
        first = follower.current

        await follower.follow(leads=False)
        assert follower.current == first
        await leader.follow(leads=True)
        assert leader.current.certificate != first.certificate
        assert leader.current.ca == first.ca
        assert leader.current.expires > datetime.now(UTC) + timedelta(days=80)
        assert follower.current == first

        await follower.follow(leads=False)
        assert follower.current == leader.current

    run(kubernetes, story)


def test_two_that_renew_at_the_same_moment_end_with_the_same(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        await of(kube, namespace, SHORT).load()
        several = [of(kube, namespace) for _ in range(4)]
        await asyncio.gather(*(each.load() for each in several))

        await asyncio.gather(*(each.follow(leads=True) for each in several))
        await asyncio.gather(*(each.follow(leads=True) for each in several))

        assert len({each.current.certificate for each in several}) == 1

    run(kubernetes, story)


def test_a_secret_that_was_deleted_comes_back_with_the_authority_that_workers_trust(
    kubernetes: KubernetesCluster, namespace: str
):
    async def story(kube: Kube) -> None:
        leader, follower = of(kube, namespace), of(kube, namespace)
        await leader.load()
        await follower.load()
        kubernetes.client.delete(f"{paths.secrets(namespace)}/coordinator-tls")

        await follower.follow(leads=False)
        assert not kubernetes.client.exists(f"{paths.secrets(namespace)}/coordinator-tls")
        await leader.follow(leads=True)
        assert from_data(stored(kubernetes, namespace)["data"]) == leader.current

    run(kubernetes, story)


def test_a_damaged_secret_is_named_and_what_is_served_stays(kubernetes: KubernetesCluster, namespace: str):
    async def story(kube: Kube) -> None:
        leader = of(kube, namespace)
        await leader.load()
        before = leader.current
        damage = {"data": {"tls.key": stored(kubernetes, namespace)["data"]["ca.key"]}}
        kubernetes.client.patch(f"{paths.secrets(namespace)}/coordinator-tls", damage)

        with pytest.raises(CertificatesDamagedError, match=rf"Secret {namespace}/coordinator-tls: tls\.key is not"):
            await leader.follow(leads=True)
        assert leader.current == before
        with pytest.raises(CertificatesDamagedError, match="Delete it"):
            await of(kube, namespace).load()

    run(kubernetes, story)


def nameless(certificates: Certificates) -> Certificates:
    """With a serving certificate that says no name, as somebody else's tool may make it."""
    authority = x509.load_pem_x509_certificate(certificates.ca.encode())
    signing = serialization.load_pem_private_key(certificates.ca_key.encode(), password=None)
    key = serialization.load_pem_private_key(certificates.key.encode(), password=None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(authority.subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(authority.not_valid_before_utc)
        .not_valid_after(authority.not_valid_after_utc)
    )
    pem = builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    return replace(certificates, certificate=pem)


def test_certificates_are_kept_after_a_surprise(
    kubernetes: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(coordination_module, "_FOLLOW_SECONDS", 0.1)
    secret = f"{paths.secrets(namespace)}/coordinator-tls"

    async def said(words: str) -> None:
        async with asyncio.timeout(SECONDS):
            while words not in caplog.text:
                await asyncio.sleep(0.05)

    async def story() -> None:
        async with coordinating(kubernetes, namespace):
            good = kubernetes.client.get(secret)["data"]
            kubernetes.client.patch(secret, {"data": to_data(nameless(from_data(good)))})
            await said("the coordinator's certificates can't be kept")

            kubernetes.client.patch(secret, {"data": {"ca.crt": None}})
            await said("ca.crt is missing")

    asyncio.run(story())
