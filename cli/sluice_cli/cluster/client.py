"""StreamsApps through the Kubernetes API: a call each, with one time-out, and a sentence for whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice_cli.cluster.kubeconfig import Context
from sluice_cli.errors import CommandError, MistakeError, NothingRunsError
from sluice_operator.errors import KubeError
from sluice_operator.kube import paths
from sluice_operator.kube.client import Kube
from sluice_operator.names import selector

CALL_SECONDS = 10.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterClient:
    """The StreamsApps of one namespace. Every method raises CommandError."""

    context: Context
    namespace: str

    def app(self, name: str) -> Json:
        """The StreamsApp of that name."""
        return self._call("GET", paths.app((self.namespace, name)), name)

    def only(self) -> str:
        """The name of the only StreamsApp there is. Raises MistakeError if there are several."""
        items = self._call("GET", paths.apps(self.namespace))["items"]
        names = sorted(item["metadata"]["name"] for item in items)
        if not names:
            raise NothingRunsError(f"there is no StreamsApp in namespace {self.namespace}; say where with --namespace")
        if len(names) > 1:
            raise MistakeError(
                f"there are several StreamsApps in namespace {self.namespace} ({', '.join(names)}); name one"
            )
        return str(names[0])

    def scale(self, name: str, replicas: int) -> None:
        """Ask for so many workers, as `kubectl scale` does."""
        self._call("PATCH", f"{paths.app((self.namespace, name))}/scale", name, {"spec": {"replicas": replicas}})

    def claims(self, name: str) -> dict[str, str]:
        """The volume claims of its workers: their uids by name."""
        items = self._call("GET", paths.claims(self.namespace), query={"labelSelector": selector(name)})["items"]
        return {str(item["metadata"]["name"]): str(item["metadata"]["uid"]) for item in items}

    def delete_claim(self, name: str, uid: str) -> None:
        """Only if it still is that one."""
        self._call("DELETE", f"{paths.claims(self.namespace)}/{name}", body={"preconditions": {"uid": uid}})

    def events(self, name: str) -> list[Json]:
        """What has been said of the StreamsApp, oldest first."""
        query = {"fieldSelector": f"involvedObject.kind=StreamsApp,involvedObject.name={name}"}
        items: list[Json] = self._call("GET", paths.events(self.namespace), query=query)["items"]
        return sorted(items, key=lambda event: event.get("lastTimestamp") or "")

    def _call(
        self, method: str, path: str, name: str = "", body: Json | None = None, query: Mapping[str, str] | None = None
    ) -> Json:
        try:
            return asyncio.run(self._send(method, path, body, query))
        except TimeoutError:
            raise CommandError(f"{self.where} does not answer within {CALL_SECONDS:g} s") from None
        except KubeError as error:
            raise self._explained(error, name) from None

    async def _send(self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None) -> Json:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with asyncio.timeout(CALL_SECONDS), Kube(lambda: self.context.connection) as kube:
            return await kube.call(method, path, body, query=query, content_type=content)

    def _explained(self, error: KubeError, name: str) -> CommandError:
        where = f"namespace {self.namespace} of {self.where}"
        if error.status == 0:
            return CommandError(f"{self.where} can't be reached: {error}")
        if error.status == 401:
            return MistakeError(f"{self.where} does not accept the credentials of context {self.context.name}")
        if error.status == 403:
            return MistakeError(f"you may not do that in {where}: {error}")
        if error.status == 404 and error.reason == "NotFound" and name and f'"{name}" not found' in str(error):
            return NothingRunsError(f"there is no StreamsApp {name} in {where}; say where with --namespace")
        if error.status == 404:
            return MistakeError(
                f"{self.where} knows no StreamsApps; install the operator's chart there (charts/sluice)"
            )
        return CommandError(str(error))

    @property
    def where(self) -> str:
        """The cluster, for people."""
        return f"cluster {self.context.connection.server} (context {self.context.name})"
