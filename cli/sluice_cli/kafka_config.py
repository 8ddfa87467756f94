"""Further librdkafka settings on their way to a process of ours: by environment, since they may hold passwords."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sluice_cli.errors import MistakeError
from sluice_protocol.launch import KAFKA_CONFIG_DIRECTORY_VARIABLE, KAFKA_CONFIG_VARIABLE


def read_kafka_config(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the environment and of the directory that it names. Raises MistakeError; the message shows no
    value."""
    directory = environment.get(KAFKA_CONFIG_DIRECTORY_VARIABLE)
    return {**_of_object(environment), **(_of_directory(Path(directory)) if directory else {})}


def _of_directory(directory: Path) -> dict[str, str]:
    """Names that begin with a dot are Kubernetes' own, when it mounts a Secret."""
    try:
        return {file.name: file.read_text() for file in directory.iterdir() if not file.name.startswith(".")}
    except (OSError, UnicodeDecodeError) as error:
        raise MistakeError(f"{KAFKA_CONFIG_DIRECTORY_VARIABLE} {directory} can't be read: {error}") from None


def _of_object(environment: Mapping[str, str]) -> dict[str, str]:
    text = environment.get(KAFKA_CONFIG_VARIABLE, "{}")
    try:
        fields = json.loads(text)
    except ValueError:
        raise MistakeError(f"{KAFKA_CONFIG_VARIABLE} is not JSON; it must be an object of texts") from None
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise MistakeError(f"{KAFKA_CONFIG_VARIABLE} must be a JSON object whose values are texts")
    return fields
