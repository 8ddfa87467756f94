"""Whom a Java trusts when it downloads: the same authorities as the machine's other programs.

A Java of the system has the system's authorities. One from a wheel has its own list only, and so fails where pip has
just succeeded: behind a proxy whose authority the system was told of. For such a Java, and wherever SSL_CERT_FILE names
a bundle, we write the bundle as a Java key store. (Java reads no PEM bundle, and keytool would take a run for each
certificate.)
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from sluice_jvm.java import Java

_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

_PASSWORD = "changeit"  # noqa: S105 - Java's own default: the file holds public certificates only
_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2


def trust_options(java: Java, directory: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """JVM options that make the Java trust the machine's bundle; none where its own list is right."""
    bundle = _bundle(java, environment)
    if bundle is None:
        return []
    store = key_store(_certificates(bundle))
    path = directory / f"trust-{hashlib.sha256(store).hexdigest()[:12]}.jks"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(store)
        unfinished.replace(path)
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def key_store(certificates: Iterable[bytes]) -> bytes:
    """DER certificates as a Java key store (JKS, version 2), the same bytes for the same certificates."""
    unique = sorted(set(certificates))
    entries = b"".join(
        struct.pack(">I", _TRUSTED_CERTIFICATE)
        + _utf(f"authority-{number}")
        + struct.pack(">q", 0)
        + _utf("X.509")
        + struct.pack(">I", len(certificate))
        + certificate
        for number, certificate in enumerate(unique)
    )
    content = struct.pack(">III", _MAGIC, _VERSION, len(unique)) + entries
    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content
    return content + hashlib.sha1(salted, usedforsecurity=False).digest()  # the format's own checksum


def _bundle(java: Java, environment: Mapping[str, str]) -> Path | None:
    named = environment.get("SSL_CERT_FILE")
    if named:
        return Path(named)
    if not java.is_wheel:
        return None
    return next((bundle for bundle in map(Path, _SYSTEM_BUNDLES) if bundle.exists()), None)


def _certificates(bundle: Path) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
