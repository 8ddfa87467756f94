"""Who bears a token: workers prove it with the one that Kubernetes has put into their pod, people with their own for
the API (TokenReview); what people may do here is what they may do to the StreamsApp (SubjectAccessReview).

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
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Json, Kube
from sluice_operator.names import TOKEN_AUDIENCE, pod_name
from sluice_operator.spec.model import GROUP, PLURAL
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

    async def check_reader(self, app: tuple[str, str]) -> None:
        """Workers have no use for it."""
        raise ProblemError(403, f"pod {self.namespace}/{self.pod} may not read the group of {'/'.join(app)}")

    async def check_editor(self, app: tuple[str, str]) -> None:
        """Nor for this."""
        self.check_commander()

    def check_commander(self) -> None:
        """Only the operator drains workers."""
        raise ProblemError(403, f"pod {self.namespace}/{self.pod} may only send its heartbeats")


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """Whoever has a token for the API: a person, or a program that stands for one. `user` as TokenReview says it."""

    kube: Kube
    user: Mapping[str, Any]

    def check_member(self, app: tuple[str, str], worker: str, incarnation: str) -> None:
        """Workers have tokens of their own."""
        raise ProblemError(403, f"{self.user['username']} can't speak as {worker} of {'/'.join(app)}: the token is not "
                                f"for {TOKEN_AUDIENCE}")  # fmt: skip

    async def check_reader(self, app: tuple[str, str]) -> None:
        """Whoever may see its status may see its group."""
        await self._check(app, "get", "status")

    async def check_editor(self, app: tuple[str, str]) -> None:
        """Whoever may change it."""
        await self._check(app, "patch", "")

    def check_commander(self) -> None:
        """Only the operator drains workers."""
        raise ProblemError(403, f"{self.user['username']} may not drain workers: scale the StreamsApp instead")

    async def _check(self, app: tuple[str, str], verb: str, subresource: str) -> None:
        namespace, name = app
        asked = {"group": GROUP, "resource": PLURAL, "subresource": subresource, "verb": verb, "namespace": namespace,
                 "name": name}  # fmt: skip
        spec = {"user": self.user["username"], "uid": self.user.get("uid", ""), "groups": self.user.get("groups", []),
                "extra": self.user.get("extra", {}), "resourceAttributes": asked}  # fmt: skip
        try:
            review = await self.kube.call("POST", paths.ACCESS_REVIEWS, {"spec": spec})
        except KubeError as error:
            raise ProblemError(503, f"your rights can't be reviewed now: {error}") from None
        if not review["status"].get("allowed"):
            what = f"{PLURAL}/{subresource}" if subresource else PLURAL
            raise ProblemError(403, f"{self.user['username']} may not {verb} {what} {name} in namespace {namespace}")


class TokenAdmission:
    """Asks the API who bears a token."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[bytes, tuple[float, Caller]] = {}

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

    async def _review(self, token: str) -> Caller:
        """First as a worker's: nearly all are."""
        status = await self._ask({"token": token, "audiences": [TOKEN_AUDIENCE]})
        if status.get("authenticated"):
            return read_review(status)
        for_the_api = await self._ask({"token": token})
        if for_the_api.get("authenticated"):
            return ApiCaller(self._kube, for_the_api["user"])
        return read_review(status)

    async def _ask(self, spec: Json) -> Json:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        try:
            review = await self._kube.call("POST", paths.TOKEN_REVIEWS, body)
        except KubeError as error:
            raise ProblemError(503, f"the token can't be reviewed now: {error}") from None
        status: Json = review["status"]
        return status


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
