"""What librdkafka says of settings that it refuses, without what a Secret holds."""

from __future__ import annotations

from collections.abc import Mapping

_TELLING = 4
"""So many characters of a Secret's value in a row are not repeated."""


def refusal(said: str, settings: Mapping[str, str], public: Mapping[str, str]) -> str:
    """A sentence for people. `said`: librdkafka's of `settings`; those that are not `public` come from a Secret."""
    secrets = [value for name, value in settings.items() if public.get(name) != value]
    if not any(_reveals(said, value) for value in secrets):
        return f"librdkafka refuses the Kafka settings: {said}"
    named = sorted(name for name in settings if name in said)
    return (
        f"librdkafka refuses the Kafka settings ({', '.join(named) or 'it names none of them'}); its own words are "
        "left out, because they hold something of the Secret"
    )


def _reveals(said: str, value: str) -> bool:
    return any(value[at : at + _TELLING] in said for at in range(max(1, len(value) - _TELLING + 1)))
