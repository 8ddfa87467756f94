"""The Secret with the coordinator's certificates, and the TLS under which this process serves them.

Whoever comes first creates it; a write that finds another one there takes what it finds. From then on the leader
renews it, and everybody follows what is in the Secret, without a restart: a handshake uses what was loaded last.
"""

from __future__ import annotations

import logging
import os
import ssl
from datetime import UTC, datetime

from sluice_operator.certificates import (
    Certificates,
    CertificatesDamagedError,
    Lifetimes,
    are_due,
    from_data,
    issue,
    renew,
    to_data,
)
from sluice_operator.errors import ConflictError, KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Json, Kube

_ATTEMPTS = 5

log = logging.getLogger("sluice.operator")


class ServingCertificates:
    """`load` before anything else; then `follow` from time to time. Belongs to the event loop of `kube`."""

    def __init__(
        self, kube: Kube, namespace: str, secret: str, names: tuple[str, ...], lifetimes: Lifetimes | None = None
    ) -> None:
        """`names`: under which the coordinator is reached."""
        self.kube = kube
        self._namespace = namespace
        self._secret = secret
        self._names = names
        self._lifetimes = lifetimes or Lifetimes()
        self._current: Certificates | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    @property
    def current(self) -> Certificates:
        """Those that are served. Raises LookupError before `load`."""
        if self._current is None:
            raise LookupError("the certificates have not been loaded")
        return self._current

    async def load(self) -> None:
        """Take what is in the Secret; create it if there is none. Raises KubeError, CertificatesDamagedError."""
        for _ in range(_ATTEMPTS):
            found = await self.kube.get(self._path)
            if found is not None:
                return self._serve(self._read(found))
            fresh = issue(self._names, datetime.now(UTC), self._lifetimes)
            if await self.kube.create(paths.secrets(self._namespace), self._body(fresh)):
                log.info("created Secret %s/%s with a new authority", self._namespace, self._secret)
                return self._serve(fresh)
        raise KubeError(409, "Conflict", f"Secret {self._namespace}/{self._secret} comes and goes")

    async def follow(self, *, leads: bool) -> None:
        """Take over what others have renewed; the leader renews what is due, and puts back what is gone.

        Raises KubeError, CertificatesDamagedError; what is served stays as it was then.
        """
        found = await self.kube.get(self._path)
        if found is None:
            if leads:
                await self.kube.create(paths.secrets(self._namespace), self._body(self.current))
            return
        stored = self._read(found)
        if leads and are_due(stored, self._names, datetime.now(UTC)):
            stored = await self._renew(found, stored)
        if stored != self._current:
            self._serve(stored)

    async def _renew(self, found: Json, stored: Certificates) -> Certificates:
        renewed = renew(stored, self._names, datetime.now(UTC), self._lifetimes)
        body = self._body(renewed)
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        try:
            await self.kube.call("PUT", self._path, body)
        except ConflictError:
            return stored  # somebody was quicker: what they wrote is taken at the next look
        log.info("renewed the serving certificate in Secret %s/%s", self._namespace, self._secret)
        return renewed

    def _read(self, secret: Json) -> Certificates:
        try:
            return from_data(secret.get("data") or {})
        except CertificatesDamagedError as error:
            raise CertificatesDamagedError(
                f"Secret {self._namespace}/{self._secret}: {error}. Delete it: the operator makes another one, and "
                "replaces the workers, which have to trust it."
            ) from None

    def _serve(self, certificates: Certificates) -> None:
        load_chain(self.context, certificates)
        self._current = certificates
        log.info("serving with a certificate that is good until %s", certificates.expires.isoformat())

    def _body(self, certificates: Certificates) -> Json:
        return {
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": self._secret, "labels": {"app.kubernetes.io/managed-by": "sluice-operator"}},
            "data": to_data(certificates),
        }  # fmt: skip

    @property
    def _path(self) -> str:
        return f"{paths.secrets(self._namespace)}/{self._secret}"


def load_chain(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Python's ssl reads keys from files only; this one is in memory, so that no key ever lies on a disk."""
    descriptor = os.memfd_create("sluice-coordinator-tls")
    try:
        os.write(descriptor, (certificates.key + certificates.certificate).encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
