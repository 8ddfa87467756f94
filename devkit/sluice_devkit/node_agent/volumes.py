"""A pod's volumes as directories of this machine, below one root in which its mount paths lead to them."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice_devkit.kubernetes.client import Json
from sluice_devkit.kubernetes.errors import ApiError
from sluice_devkit.node_agent.api import Api
from sluice_devkit.node_agent.launch import CannotRunError, field_of

_TOKEN_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class PodDirectory:
    """Where everything of one pod lies."""

    path: Path

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def log(self) -> Path:
        return self.path / "log"

    def volume(self, name: str) -> Path:
        return self.path / "volumes" / name


class Volumes:
    """Makes the volumes of one pod. `claim_directory` leads from the name of a bound claim to its data."""

    def __init__(self, api: Api, directory: PodDirectory, address: str, claim_directory: Callable[[str], Path]) -> None:
        self._api = api
        self._directory = directory
        self._address = address
        self._claim_directory = claim_directory

    async def mount(self, pod: Json) -> dict[str, Path]:
        """Make every volume and lead every mount path to it; returns the directories by mount path.

        Files that are there already are replaced one by one, each whole. Raises CannotRunError.
        """
        self._directory.root.mkdir(parents=True, exist_ok=True)
        directories = {volume["name"]: await self._make(pod, volume) for volume in pod["spec"].get("volumes", [])}
        mounts = {}
        for mount in pod["spec"]["containers"][0].get("volumeMounts", []):
            target = directories[mount["name"]] / mount.get("subPath", "")
            if mount.get("subPath") and not target.exists():
                target.mkdir(parents=True)
            self._lead(mount["mountPath"], target)
            mounts[mount["mountPath"]] = target
        return mounts

    async def values(self, pod: Json) -> list[tuple[str, str]]:
        """The container's own variables in their order, looked up. Raises CannotRunError."""
        container = pod["spec"]["containers"][0]
        values = []
        for source in container.get("envFrom", []):
            kind = "secret" if "secretRef" in source else "configMap"
            data = await self._data(pod, kind, source[f"{kind}Ref"])
            values += [(source.get("prefix", "") + key, value.decode()) for key, value in data.items()]
        for variable in container.get("env", []):
            value = await self._value(pod, variable)
            if value is not None:
                values.append((variable["name"], value))
        return values

    async def _value(self, pod: Json, variable: Json) -> str | None:
        source = variable.get("valueFrom")
        if source is None:
            return str(variable.get("value", ""))
        if "fieldRef" in source:
            return field_of(pod, source["fieldRef"]["fieldPath"], self._address)
        for kind in ("secret", "configMap"):
            if (reference := source.get(f"{kind}KeyRef")) is not None:
                data = await self._data(pod, kind, reference)
                if reference["key"] in data:
                    return data[reference["key"]].decode()
                if reference.get("optional"):
                    return None
                raise CannotRunError(
                    "CreateContainerConfigError", f"couldn't find key {reference['key']} in {kind} {reference['name']}"
                )
        raise CannotRunError("CreateContainerConfigError", f"the node agent can't do {', '.join(source)} in env")

    async def _make(self, pod: Json, volume: Json) -> Path:
        if "persistentVolumeClaim" in volume:
            return self._claim_directory(volume["persistentVolumeClaim"]["claimName"])
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        directory = self._directory.volume(volume["name"])
        directory.mkdir(parents=True, exist_ok=True)
        if "emptyDir" not in volume:
            await asyncio.to_thread(_write_files, directory, await self._files(pod, volume))
        return directory

    async def _files(self, pod: Json, volume: Json) -> dict[str, bytes]:
        if "projected" not in volume:
            return await self._source(pod, volume)
        files: dict[str, bytes] = {}
        for source in volume["projected"]["sources"]:
            files |= await self._source(pod, source)
        return files

    async def _source(self, pod: Json, source: Json) -> dict[str, bytes]:
        """The files of a volume, or of one source of a projected volume."""
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            return {wanted["path"]: (await self._token(pod, wanted)).encode()}
        if "downwardAPI" in source:
            items = source["downwardAPI"].get("items", [])
            return {
                item["path"]: field_of(pod, item["fieldRef"]["fieldPath"], self._address).encode() for item in items
            }
        for kind in ("secret", "configMap"):
            if kind in source:
                return _selected(source[kind], await self._data(pod, kind, source[kind]))
        kinds = ", ".join(key for key in source if key != "name")
        raise CannotRunError("CreateContainerConfigError", f"the node agent can't do volumes of {kinds}")

    async def _token(self, pod: Json, wanted: Json) -> str:
        """A token of the pod's service account that is bound to the pod."""
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        request = {
            "audiences": [wanted["audience"]] if wanted.get("audience") else [],
            "expirationSeconds": wanted.get("expirationSeconds", _TOKEN_SECONDS),
            "boundObjectRef": bound,
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        try:
            answer = await self._api.create(path, {"spec": request})
        except ApiError as error:
            raise CannotRunError("CreateContainerConfigError", f"token of {account}: {error.message}") from None
        return str(answer["status"]["token"])

    async def _data(self, pod: Json, kind: str, reference: Json) -> dict[str, bytes]:
        """The content of a Secret or ConfigMap; nothing when it is optional and not there."""
        name = reference.get("name") or reference["secretName"]
        try:
            found = await self._api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}")
        except ApiError as error:
            if error.status == 404 and reference.get("optional"):
                return {}
            raise CannotRunError("CreateContainerConfigError", f"{kind} {name}: {error.message}") from None
        data = found.get("data") or {}
        encoded = {**data, **(found.get("binaryData") or {})} if kind == "secret" else found.get("binaryData") or {}
        plain = {} if kind == "secret" else data
        return {
            **{key: value.encode() for key, value in plain.items()},
            **{key: base64.b64decode(value) for key, value in encoded.items()},
        }

    def _lead(self, mount_path: str, target: Path) -> None:
        link = self._directory.root / mount_path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(target.absolute())


def _selected(reference: Json, data: Mapping[str, bytes]) -> dict[str, bytes]:
    items = reference.get("items")
    if items is None:
        return dict(data)
    missing = [item["key"] for item in items if item["key"] not in data]
    if missing and not reference.get("optional"):
        name = reference.get("name") or reference.get("secretName")
        raise CannotRunError("CreateContainerConfigError", f"{name} has no key {', '.join(missing)}")
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data}


def _write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.touch(mode=0o600)
        unfinished.write_bytes(content)
        unfinished.replace(path)
