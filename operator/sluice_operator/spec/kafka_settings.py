"""Which settings of an application's Kafka clients the operator's own clients take.

Whoever may write a StreamsApp must not get at what the operator may: a setting can make librdkafka read a file, load a
library, run a command or call a URL. The operator's clients take what is named here and nothing else; what only tunes
clients is for the workers alone. Source: librdkafka, CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_TAKEN = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "ssl.key.password",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
    "ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list",
    "broker.address.family", "broker.address.ttl", "client.dns.lookup", "client.id", "connections.max.idle.ms",
    "metadata.max.age.ms", "request.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms",
})  # fmt: skip
_TAKEN_GROUPS = ("socket.", "reconnect.backoff.")

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""By which the operator can log in with what a StreamsApp may say."""

REFUSED_GROUPS = (
    "plugin.", "sasl.kerberos.", "sasl.oauthbearer.", "enable.sasl.oauthbearer.", "ssl.engine.", "ssl.keystore.",
    "ssl.providers",
)  # fmt: skip
"""How the names of settings begin without which nobody could log in, and which the operator's clients may not take."""
REFUSED_ENDS = (".location", ".file")
"""How such names end."""

_CERTIFICATE = "ssl.certificate.pem and ssl.key.pem"
_INSTEAD = {
    "ssl.ca.location": "ssl.ca.pem", "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem", "ssl.keystore.location": _CERTIFICATE, "ssl.keystore.password": _CERTIFICATE,
}  # fmt: skip
_LOGIN = f"sasl.mechanism {', '.join(MECHANISMS)} with sasl.username and sasl.password, or {_CERTIFICATE}"


def check_names(where: str, names: Iterable[str]) -> None:
    """Raises ValueError naming `where`, the setting and what to use instead."""
    for name in names:
        if name.startswith(REFUSED_GROUPS) or name.endswith(REFUSED_ENDS):
            raise ValueError(
                f"{where} may not hold {name}: the operator logs in with these settings too, and must not read files, "
                f"load code or call URLs for them; {_advice(name)}"
            )


def taken(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that the operator's clients take. Raises ValueError, without a value that a Secret may hold, if they could
    not log in."""
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        if name in settings and settings[name] not in MECHANISMS:
            raise ValueError(f"the operator can't log in by this {name}; use {_LOGIN}")
    return {name: value for name, value in settings.items() if name in _TAKEN or name.startswith(_TAKEN_GROUPS)}


def _advice(name: str) -> str:
    if name in _INSTEAD:
        return f"use {_INSTEAD[name]}"
    return f"use {_LOGIN}" if "sasl." in name else "leave it out"
