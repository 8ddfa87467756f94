"""The operator's own certificate authority, and the certificate under which it serves the coordinator.

A cluster need not have anything that issues certificates, and only workers have to trust this one: so that it signs for
itself. Workers hold the authority's certificate, which outlives many serving ones; those are renewed when a third of
their life is left. Pure: the clock is an argument.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW = timedelta(minutes=5)
"""Clocks of other machines may be behind."""
_KEYS = {"ca": "ca.crt", "ca_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}


class CertificatesDamagedError(ValueError):
    """What should be certificates and their keys is something else."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """For how long certificates are made out."""

    ca: timedelta = timedelta(days=3_650)
    serving: timedelta = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The authority's certificate and key, and the serving ones (PEM)."""

    ca: str
    ca_key: str = field(repr=False)
    certificate: str
    key: str = field(repr=False)

    @property
    def expires(self) -> datetime:
        """When the serving certificate ends."""
        return _read_certificate(self.certificate).not_valid_after_utc

    @property
    def ca_expires(self) -> datetime:
        """When the authority ends."""
        return _read_certificate(self.ca).not_valid_after_utc


def names_of(url: str) -> tuple[str, ...]:
    """The names under which the coordinator's URL can be spelled: all those of a Service, else its host alone."""
    host = urlsplit(url).hostname or ""
    if _is_address(host):
        return (str(ipaddress.ip_address(host)),)
    parts = host.split(".")
    if len(parts) < 3 or parts[2] != "svc":
        return (host,)
    name, namespace = parts[:2]
    return name, f"{name}.{namespace}", f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"


def issue(names: Sequence[str], now: datetime, lifetimes: Lifetimes) -> Certificates:
    """A new authority, and its first serving certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sluice-coordinator-ca")])
    ca = (
        _builder(subject, subject, key.public_key(), now, now + lifetimes.ca)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _serve(_pem(ca), _key_pem(key), names, now, lifetimes)


def renew(certificates: Certificates, names: Sequence[str], now: datetime, lifetimes: Lifetimes) -> Certificates:
    """Another serving certificate by the same authority."""
    return _serve(certificates.ca, certificates.ca_key, names, now, lifetimes)


def are_due(certificates: Certificates, names: Sequence[str], now: datetime) -> bool:
    """Is it time for another serving certificate: two thirds of its life are over, or it lacks a name?"""
    serving = _read_certificate(certificates.certificate)
    began, ends = serving.not_valid_before_utc, serving.not_valid_after_utc
    return now >= ends - (ends - began) / 3 or not set(names) <= _names_in(serving)


def to_data(certificates: Certificates) -> dict[str, str]:
    """The data of a Secret."""
    return {key: base64.b64encode(getattr(certificates, name).encode()).decode() for name, key in _KEYS.items()}


def from_data(data: Mapping[str, str]) -> Certificates:
    """Read the data of a Secret. Raises CertificatesDamagedError naming the key."""
    texts = {name: _decoded(key, data.get(key)) for name, key in _KEYS.items()}
    certificates = Certificates(**texts)
    _check(certificates)
    return certificates


def _serve(ca: str, ca_key: str, names: Sequence[str], now: datetime, lifetimes: Lifetimes) -> Certificates:
    authority = _read_certificate(ca)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sluice-coordinator")])
    ends = min(now + lifetimes.serving, authority.not_valid_after_utc)
    certificate = (
        _builder(subject, authority.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(authority.public_key())), critical=False
        )
        .sign(_read_key(ca_key), hashes.SHA256())
    )
    return Certificates(ca, ca_key, _pem(certificate), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _check(certificates: Certificates) -> None:
    """The parts belong together. Raises CertificatesDamagedError."""
    ca, serving = _read_certificate(certificates.ca, "ca.crt"), _read_certificate(certificates.certificate, "tls.crt")
    pairs = (("ca", ca, certificates.ca_key), ("tls", serving, certificates.key))
    for name, certificate, key in pairs:
        if _read_key(key, f"{name}.key").public_key() != certificate.public_key():
            raise CertificatesDamagedError(f"{name}.key is not the key of {name}.crt")
    try:
        serving.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        raise CertificatesDamagedError("tls.crt was not signed by ca.crt") from None


def _decoded(key: str, value: str | None) -> str:
    if not value:
        raise CertificatesDamagedError(f"{key} is missing")
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise CertificatesDamagedError(f"{key} is not PEM") from None


def _read_certificate(pem: str, what: str = "the certificate") -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        raise CertificatesDamagedError(f"{what} is not a certificate (PEM)") from None


def _read_key(pem: str, what: str = "the key") -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError):
        raise CertificatesDamagedError(f"{what} is not a key (PEM)") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificatesDamagedError(f"{what} is not a key of an elliptic curve")
    return key


def _public(key: object) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise CertificatesDamagedError("ca.crt is not of an elliptic curve")
    return key


def _names_in(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _general_name(name: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(name)) if _is_address(name) else x509.DNSName(name)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
