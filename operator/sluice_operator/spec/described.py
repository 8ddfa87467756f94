"""Fields that know their description and their schema, so that the CRD and its reference say what the code says."""

from __future__ import annotations

import dataclasses
from typing import Any

REQUIRED = dataclasses.MISSING


def described(text: str, default: Any = REQUIRED, **schema: Any) -> Any:
    """A dataclass field with the keywords of its OpenAPI schema. A class as default makes it an object of defaults."""
    metadata = {"description": text, "schema": schema}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def rules(*rules: tuple[str, str]) -> Any:
    """Give a class CEL rules: pairs of rule and message."""

    def add(kind: type) -> type:
        kind.__cel_rules__ = rules  # type: ignore[attr-defined]
        return kind

    return add
