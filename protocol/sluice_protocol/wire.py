"""Frozen dataclasses to JSON and back, strictly: an unknown or missing field, or a wrong type, is refused by name.

The messages are the schema. A general serialiser would be a dependency of every part for what are these few rules:
field names in camelCase, tuples as lists, ids as their text, enums as their value, None fields left out.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from sluice_protocol.ids import Epoch, TaskId

T = TypeVar("T")

_TEXT_IDS = (TaskId, Epoch)


class MalformedMessageError(ValueError):
    """A message that doesn't have the form of its type; says which field, which value, and what was expected."""


def encode(message: object) -> bytes:
    """The message as UTF-8 JSON."""
    return json.dumps(to_json(message), separators=(",", ":")).encode()


def decode(kind: type[T], data: bytes) -> T:
    """Read a message of the kind from UTF-8 JSON. Raises MalformedMessageError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError(f"{kind.__name__}: not JSON ({error})") from None
    return from_json(kind, value)


def to_json(value: object) -> Any:
    """The value in terms of JSON."""
    if isinstance(value, _TEXT_IDS):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {camel(name): to_json(part) for name, part in pairs if part is not None}
    if isinstance(value, Mapping):
        return {str(to_json(key)): to_json(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    return value


def from_json(kind: type[T], value: Any, where: str = "") -> T:
    """Build a value of the kind from JSON terms. Raises MalformedMessageError with the path of the field."""
    return typing.cast(T, _read(kind, value, where or getattr(kind, "__name__", str(kind))))


def _read(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return None if value is None else _read(options[0], value, where)
    if origin is tuple:
        _expect(isinstance(value, list), value, "a list", where)
        element = typing.get_args(kind)[0]
        return tuple(_read(element, part, f"{where}[{index}]") for index, part in enumerate(value))
    if origin in (dict, Mapping):
        _expect(isinstance(value, dict), value, "an object", where)
        key_kind, part_kind = typing.get_args(kind)
        return {_read(key_kind, key, where): _read(part_kind, part, f"{where}.{key}") for key, part in value.items()}
    if kind in _TEXT_IDS or (isinstance(kind, type) and issubclass(kind, Enum)):
        return _read_text(kind, value, where)
    if dataclasses.is_dataclass(kind):
        return _read_message(typing.cast(type, kind), value, where)
    return value if kind is Any else _read_plain(kind, value, where)


def _read_text(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, str), value, "a text", where)
    try:
        return kind(value) if issubclass(kind, Enum) else kind.parse(value)
    except ValueError as error:
        raise MalformedMessageError(f"{where}: {error}") from None


def _read_message(kind: type, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), value, "an object", where)
    known = _fields(kind)
    unknown = sorted(value.keys() - known.keys())
    if unknown:
        raise MalformedMessageError(f"{where}: unknown field {unknown[0]!r}; it knows {', '.join(known)}")
    arguments = {}
    for key, (field, field_kind) in known.items():
        if key in value:
            arguments[field.name] = _read(field_kind, value[key], f"{where}.{key}")
        elif type(None) in typing.get_args(field_kind):
            arguments[field.name] = None  # None is never written, whatever the field's default
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise MalformedMessageError(f"{where}: field {key!r} is missing")
    try:
        return kind(**arguments)
    except ValueError as error:
        raise MalformedMessageError(f"{where}: {error}") from None


@functools.cache
def _fields(kind: type) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    kinds = typing.get_type_hints(kind)
    return {camel(field.name): (field, kinds[field.name]) for field in dataclasses.fields(kind)}


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _expect(type(value) is kind, value, f"of type {kind.__name__}", where)
    return value


def _expect(holds: bool, value: Any, what: str, where: str) -> None:
    if not holds:
        raise MalformedMessageError(f"{where}: {str(value)[:80]!r} is not {what}")


def camel(name: str) -> str:
    """The name of a field as messages have it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
