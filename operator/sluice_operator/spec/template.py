"""What a pod template of the user may not set: the operator's own names, and what its guarantees hang on. Pure.

The API server can't say it by a rule, because a template is whatever a pod may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluice_operator.names import WORKER_CONTAINER
from sluice_operator.spec.model import Template

OWN_PREFIX = "sluice.dev/"
OWN_VARIABLES = "SLUICE_"
OWN_VOLUMES = ("state", "coordinator-token", "kafka-credentials")

_OF_THE_POD = {
    "restartPolicy": "a worker that ends is always started again",
    "hostname": "pods are named after their slots",
    "subdomain": "pods have the operator's Service",
    "nodeName": "the scheduler places pods, where their volumes are",
}
_OF_THE_WORKER = {
    "image": "use spec.pipeline.image",
    "command": "it is that of a worker",
    "args": "they follow from the spec",
    "resources": "use spec.workers.resources",
}


def forbidden(template: Template) -> str | None:
    """A sentence about the first thing that may not be set; None if nothing is wrong."""
    return next(_problems(template), None)


def _problems(template: Template) -> Iterator[str]:
    for field in ("labels", "annotations"):
        for key in getattr(template.metadata, field):
            if key.startswith(OWN_PREFIX):
                yield f"spec.workers.template.metadata.{field} may not hold {key}: it is the operator's"
    spec = template.spec
    where = "spec.workers.template.spec"
    yield from (f"{where}.{field} may not be set: {why}" for field, why in _OF_THE_POD.items() if field in spec)
    for field in ("containers", "initContainers", "volumes"):
        yield from _malformed(spec, field, where)
    for index, volume in enumerate(spec.get("volumes", ())):
        if volume["name"] in OWN_VOLUMES:
            yield f"{where}.volumes[{index}] may not be called {volume['name']}: it is the operator's"
    for container in spec.get("containers", ()):
        if container["name"] == WORKER_CONTAINER:
            yield from _problems_of_worker(container, f"{where}.containers[{WORKER_CONTAINER}]")


def _problems_of_worker(container: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from (f"{where}.{field} may not be set: {why}" for field, why in _OF_THE_WORKER.items() if field in container)
    for field in ("env", "volumeMounts"):
        yield from _malformed(container, field, where)
    for variable in container.get("env", ()):
        if variable["name"].startswith(OWN_VARIABLES):
            yield f"{where}.env may not hold {variable['name']}: it is the operator's"
    for mount in container.get("volumeMounts", ()):
        if mount["name"] in OWN_VOLUMES:
            yield f"{where}.volumeMounts may not mount {mount['name']}: it is the operator's"


def _malformed(parent: Mapping[str, Any], field: str, where: str) -> Iterator[str]:
    parts = parent.get(field, [])
    is_list = isinstance(parts, list)
    if not is_list or not all(isinstance(part, Mapping) and isinstance(part.get("name"), str) for part in parts):
        yield f"{where}.{field} must be a list of objects that have a name"
