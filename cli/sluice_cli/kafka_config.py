"""Further librdkafka settings on their way to a process of ours: by environment, since they may hold passwords."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sluice_cli.errors import MistakeError
from sluice_protocol.launch import KAFKA_CONFIG_VARIABLE


def read_kafka_config(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the environment. Raises MistakeError; the message shows no value."""
    text = environment.get(KAFKA_CONFIG_VARIABLE, "{}")
    try:
        fields = json.loads(text)
    except ValueError:
        raise MistakeError(f"{KAFKA_CONFIG_VARIABLE} is not JSON; it must be an object of texts") from None
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise MistakeError(f"{KAFKA_CONFIG_VARIABLE} must be a JSON object whose values are texts")
    return fields
