"""From types to a structural OpenAPI schema."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from sluice_protocol.wire import camel, to_json

_PLAIN = {int: "integer", str: "string", bool: "boolean"}


def schema_of(kind: type, description: str = "") -> dict[str, Any]:
    """The schema of a dataclass of described fields: descriptions, defaults, bounds, CEL rules.

    An object whose fields all have defaults gets the default {}, so that the API server fills them in.
    """
    hints = typing.get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.metadata]
    schema: dict[str, Any] = {
        "type": "object",
        "description": description or (kind.__doc__ or "").strip(),
        "properties": {camel(field.name): _property(field, hints[field.name]) for field in fields},
    }
    required = [camel(field.name) for field in fields if _is_required(field)]
    if required:
        schema["required"] = required
    if rules := getattr(kind, "__cel_rules__", ()):
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in rules]
    return schema


def _property(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    """The property of one field; a keyword that is None takes the generated one away."""
    schema = {**_of(hint, field.metadata["description"]), **field.metadata["schema"]}
    default = _default(field)
    if default is not None:
        schema["default"] = default
    return {keyword: value for keyword, value in schema.items() if value is not None}


def _of(hint: Any, description: str) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _of(next(one for one in arguments if one is not type(None)), description)
    if dataclasses.is_dataclass(hint):
        return schema_of(typing.cast(type, hint), description)
    described = {"description": description}
    if origin is tuple:
        return {"type": "array", **described, "items": _of(arguments[0], "One of them.")}
    if origin is Mapping:
        return {"type": "object", **described, "additionalProperties": {"type": "string"}}
    return {"type": _PLAIN[hint], **described}


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    """Whole objects, nested defaults included: the API server evaluates CEL rules on a default as it stands."""
    if field.default_factory is not dataclasses.MISSING:
        return to_json(field.default_factory()) if dataclasses.is_dataclass(field.default_factory) else None
    return None if field.default in (dataclasses.MISSING, None, ()) else to_json(field.default)
