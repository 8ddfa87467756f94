"""Volumes for claims: made where the first pod of a claim is placed, gone with the claim.

Two storage classes tell the two kinds of disks that people have: `zonal` (the default; reachable from every node of its
zone, as a cloud's disks are) and `local` (one node only). A claim stays where it is until it is deleted. As on real
nodes, a claim that is used on one node can't be attached to another until its pods there have ended.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.launch import CannotRunError
from sluice_devkit.node_agent.objects import HOST_LABEL, ZONE_LABEL, claim_key, claims_of, is_ending, uid_of
from sluice_devkit.node_agent.placement import Candidate, Reach

PROVISIONER = "sluice.dev/node-agent"
LOCAL, ZONAL = "local", "zonal"

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROTECTION = "kubernetes.io/pvc-protection"
_LABELS = {LOCAL: HOST_LABEL, ZONAL: ZONE_LABEL}
_VOLUMES = "/api/v1/persistentvolumes"

Key = tuple[str, str]


class Claims:
    """All claims of the cluster. `users` gives the pods that exist, for the protection of claims in use."""

    def __init__(self, api: Api, directory: Path, users: Callable[[], Iterable[Json]]) -> None:
        self._api = api
        self._directory = directory
        self._users = users
        self._claims: dict[Key, Json] = {}
        self._keys: dict[str, Key] = {}
        self._reaches: dict[str, Reach] = {}

    async def install(self) -> None:
        """Make the storage classes, and learn about the volumes that an earlier agent has made."""
        for volume in (await self._api.get(_VOLUMES))["items"]:
            self._reaches[volume["metadata"]["name"]] = _reach_of(volume)
        for name in _LABELS:
            is_default = {"storageclass.kubernetes.io/is-default-class": str(name == ZONAL).lower()}
            body = {
                "metadata": {"name": name, "annotations": is_default},
                "provisioner": PROVISIONER,
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowVolumeExpansion": True,
            }
            await self._api.ensure("/apis/storage.k8s.io/v1/storageclasses", body)

    async def follow(self) -> None:
        """Keep up with the claims for ever."""
        async for uid, claim in self._api.watch("/api/v1/persistentvolumeclaims"):
            if claim is None:
                await self._forget(uid)
                continue
            key = claim_key(claim, claim["metadata"]["name"])
            self._claims[key], self._keys[uid] = claim, key
            await self._release(key)

    def directory(self, namespace: str, name: str) -> Path:
        """Where the data of a bound claim lies. Raises CannotRunError while it isn't bound."""
        claim = self._claims.get((namespace, name))
        if claim is None or not claim["spec"].get("volumeName"):
            raise CannotRunError("ContainerCreating", f"claim {name} is not bound")
        return self._directory / str(claim["spec"]["volumeName"])

    def missing(self, pod: Json) -> list[str]:
        """The claims of the pod that don't exist, or are going."""
        found = {name: self._claims.get(claim_key(pod, name)) for name in claims_of(pod)}
        return [name for name, claim in found.items() if claim is None or is_ending(claim)]

    def reaches(self, pod: Json) -> list[Reach]:
        """From where the pod's bound claims can be reached."""
        claims = [self._claims.get(claim_key(pod, name)) for name in claims_of(pod)]
        volumes = [claim["spec"].get("volumeName") for claim in claims if claim is not None]
        return [self._reaches[volume] for volume in volumes if volume in self._reaches]

    async def bind(self, pod: Json, node: Candidate) -> None:
        """Give every claim of the pod that has none a volume that the node can reach."""
        for name in claims_of(pod):
            key = claim_key(pod, name)
            if not self._claims[key]["spec"].get("volumeName"):
                self._claims[key] = await self._provision(self._claims[key], node)

    async def release_unused(self) -> None:
        """Let the deleted claims go that no pod uses any longer."""
        for key in list(self._claims):
            await self._release(key)

    async def _provision(self, claim: Json, node: Candidate) -> Json:
        metadata, spec = claim["metadata"], claim["spec"]
        volume = f"pvc-{metadata['uid']}"
        label = _LABELS.get(spec.get("storageClassName") or ZONAL, ZONE_LABEL)
        reach = Reach(label, node.name if label == HOST_LABEL else node.zone)
        directory = self._directory / volume
        await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
        await self._api.ensure(_VOLUMES, _volume(volume, claim, directory, reach))
        self._reaches[volume] = reach
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
        chosen = {_SELECTED_NODE: node.name}
        await self._api.merge(path, {"metadata": {"annotations": chosen}, "spec": {"volumeName": volume}})
        bound = {"phase": "Bound", "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"]}
        await self._api.patch_status(f"{_VOLUMES}/{volume}", {"status": {"phase": "Bound"}})
        return await self._api.patch_status(path, {"status": bound})

    async def _release(self, key: Key) -> None:
        """Take the protection from a deleted claim that nobody uses, as the controller manager would."""
        claim = self._claims.get(key)
        if claim is None:
            return  # gone while another one was released
        finalizers = claim["metadata"].get("finalizers", [])
        if not is_ending(claim) or _PROTECTION not in finalizers or key in self._in_use():
            return
        left = [finalizer for finalizer in finalizers if finalizer != _PROTECTION]
        path = f"/api/v1/namespaces/{key[0]}/persistentvolumeclaims/{key[1]}"
        await _unless_gone(self._api.merge(path, {"metadata": {"uid": uid_of(claim), "finalizers": left}}))

    def _in_use(self) -> set[Key]:
        return {claim_key(pod, name) for pod in self._users() for name in claims_of(pod)}

    async def _forget(self, uid: str) -> None:
        """The claim is gone: so is its volume, with the data."""
        key = self._keys.pop(uid)
        if key not in self._claims or uid_of(self._claims[key]) != uid:
            return
        volume = self._claims.pop(key)["spec"].get("volumeName")
        if volume:
            self._reaches.pop(volume, None)
            await asyncio.to_thread(shutil.rmtree, self._directory / volume, ignore_errors=True)
            await _unless_gone(self._api.merge(f"{_VOLUMES}/{volume}", {"metadata": {"finalizers": None}}))
            await _unless_gone(self._api.delete(f"{_VOLUMES}/{volume}"))


def _volume(name: str, claim: Json, directory: Path, reach: Reach) -> Json:
    metadata, spec = claim["metadata"], claim["spec"]
    expression = {"key": reach.label, "operator": "In", "values": [reach.value]}
    return {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": str(directory)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def _reach_of(volume: Json) -> Reach:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    expression = terms[0]["matchExpressions"][0]
    return Reach(expression["key"], expression["values"][0])


async def _unless_gone(change: Awaitable[Json]) -> None:
    try:
        await change
    except ApiError as error:
        if error.status not in (404, 409):
            raise
