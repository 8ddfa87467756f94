"""Workers prove who they are with the token that Kubernetes has put into their pod (TokenReview).

A token names its pod and the pod's uid, so that a worker may speak only as itself. A verdict is remembered for less
than a minute; Kubernetes itself remembers the token of a deleted pod for 10 s (measured).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice_coordinator.admission import Caller, ProblemError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube, KubeError
from sluice_operator.workers.names import TOKEN_AUDIENCE, pod_name
from sluice_protocol.ids import worker_slot

_REMEMBERED_SECONDS = 50.0
_REMEMBERED = 10_000

_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


@dataclass(frozen=True, slots=True)
class PodCaller:
    """A pod, by its token."""

    namespace: str
    pod: str
    uid: str

    def check_member(self, app: tuple[str, str], worker: str, incarnation: str) -> None:
        """It is the pod of this worker of this application, and this very one."""
        try:
            expected = pod_name(app[1], worker_slot(worker))
        except ValueError as error:
            raise ProblemError(400, str(error)) from None
        if (self.namespace, self.pod, self.uid) != (app[0], expected, incarnation):
            raise ProblemError(
                403, f"the token is that of pod {self.namespace}/{self.pod}, which can't speak as {worker} of "
                f"{'/'.join(app)}",
            )  # fmt: skip

    def check_reader(self, app: tuple[str, str]) -> None:
        """Workers have no use for it."""
        raise ProblemError(403, f"pod {self.namespace}/{self.pod} may not read the group of {'/'.join(app)}")

    def check_commander(self) -> None:
        """Only the operator drains workers."""
        raise ProblemError(403, f"pod {self.namespace}/{self.pod} may only send its heartbeats")


class TokenAdmission:
    """Asks the API who bears a token."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[bytes, tuple[float, PodCaller]] = {}

    async def admit(self, authorization: str) -> Caller:
        """Raises ProblemError: 401 for a token that doesn't hold, 503 if it can't be reviewed now."""
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or not token:
            raise ProblemError(401, "no token: send the pod's own as `Authorization: Bearer …`")
        digest = hashlib.sha256(token.encode()).digest()
        since, caller = self._known.get(digest, (0.0, None))
        if caller is not None and time.monotonic() - since < _REMEMBERED_SECONDS:
            return caller
        caller = await self._review(token)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[digest] = (time.monotonic(), caller)
        return caller

    async def _review(self, token: str) -> PodCaller:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": {"token": token, "audiences": [TOKEN_AUDIENCE]}}  # fmt: skip
        try:
            review = await self._kube.call("POST", paths.TOKEN_REVIEWS, body)
        except KubeError as error:
            raise ProblemError(503, f"the token can't be reviewed now: {error}") from None
        return read_review(review["status"])


def read_review(status: Mapping[str, Any]) -> PodCaller:
    """The pod that a TokenReview speaks of. Raises ProblemError."""
    if not status.get("authenticated") or TOKEN_AUDIENCE not in status.get("audiences", ()):
        raise ProblemError(
            401, f"the token does not hold for {TOKEN_AUDIENCE}: {status.get('error', 'other audience')}"
        )
    user = status["user"]
    extra = user.get("extra", {})
    namespace = user["username"].removeprefix("system:serviceaccount:").partition(":")[0]
    if not (user["username"].startswith("system:serviceaccount:") and extra.get(_POD_NAME) and extra.get(_POD_UID)):
        raise ProblemError(401, "the token is not that of a pod")
    return PodCaller(namespace, extra[_POD_NAME][0], extra[_POD_UID][0])
