"""Which of a StreamsApp's Kafka settings reach the operator's own clients."""

from __future__ import annotations

import base64
import re

import pytest
from operator_builders import a_manifest

from sluice_operator.observed import App, read_app, with_credentials
from sluice_operator.reasons import Reason


def an_app(config: dict[str, str], secret: dict[str, str] | None = None) -> App:
    """With the Secret read, if it names one."""
    kafka = {"bootstrapServers": "kafka:9092", "config": config}
    if secret is None:
        return read_app(a_manifest(kafka=kafka))
    kafka["secretRef"] = {"name": "login", "settings": {name: name for name in secret}}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in secret.items()}
    return with_credentials(
        read_app(a_manifest(kafka=kafka)), {"metadata": {"uid": "secret-uid", "resourceVersion": "1"}, "data": data}
    )


def operator_settings(app: App) -> dict[str, str]:
    assert app.spec is not None
    return dict(app.spec.coordinator_settings("", "", app.credentials).kafka_config)


LOGIN = {
    "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "shop", "ssl.ca.pem": "PEM",
    "ssl.endpoint.identification.algorithm": "https", "socket.keepalive.enable": "true",
    "reconnect.backoff.max.ms": "500", "client.dns.lookup": "use_all_dns_ips",
}  # fmt: skip


def test_the_operator_takes_what_it_needs_to_connect_and_log_in():
    app = an_app(LOGIN, {"sasl.password": "hunter2"})

    assert app.problem is None
    assert operator_settings(app) == {**LOGIN, "sasl.password": "hunter2"}


def test_the_operator_takes_a_clients_certificate():
    config = {"security.protocol": "SSL", "ssl.ca.pem": "CA", "ssl.certificate.pem": "CERTIFICATE"}
    key = {"ssl.key.pem": "KEY", "ssl.key.password": "hunter2"}

    assert operator_settings(an_app(config, key)) == {**config, **key}


@pytest.mark.parametrize(
    "name",
    [
        "fetch.max.bytes", "linger.ms", "debug", "log_level", "statistics.interval.ms", "builtin.features",
        "metadata.broker.list", "bootstrap.servers", "opaque", "oauth_cb", "SSL.CA.PEM", "a.setting.of.tomorrow",
    ],
)  # fmt: skip
def test_what_only_tunes_clients_or_nobody_knows_is_for_the_workers_alone(name: str):
    app = an_app({name: "1", "sasl.username": "shop"}, {f"{name}.too": "2"})

    assert app.problem is None
    assert operator_settings(app) == {"sasl.username": "shop"}


REFUSED = [
    ("ssl.ca.location", "use ssl.ca.pem"),
    ("ssl.certificate.location", "use ssl.certificate.pem"),
    ("ssl.key.location", "use ssl.key.pem"),
    ("ssl.keystore.location", "use ssl.certificate.pem and ssl.key.pem"),
    ("ssl.keystore.password", "use ssl.certificate.pem and ssl.key.pem"),
    ("ssl.crl.location", "leave it out"),
    ("https.ca.location", "leave it out"),
    ("ssl.engine.location", "leave it out"),
    ("ssl.engine.id", "leave it out"),
    ("ssl.providers", "leave it out"),
    ("plugin.library.paths", "leave it out"),
    ("sasl.kerberos.kinit.cmd", "use sasl.mechanism PLAIN"),
    ("sasl.kerberos.keytab", "use sasl.mechanism PLAIN"),
    ("sasl.oauthbearer.token.endpoint.url", "use sasl.mechanism PLAIN"),
    ("sasl.oauthbearer.assertion.file", "use sasl.mechanism PLAIN"),
    ("sasl.oauthbearer.assertion.private.key.file", "use sasl.mechanism PLAIN"),
    ("sasl.oauthbearer.config", "use sasl.mechanism PLAIN"),
    ("enable.sasl.oauthbearer.unsecure.jwt", "use sasl.mechanism PLAIN"),
]


@pytest.mark.parametrize(("name", "advice"), REFUSED)
def test_what_reads_files_loads_code_or_calls_urls_is_refused_by_name(name: str, advice: str):
    refused = {
        "spec.kafka.config": an_app({name: "/etc/passwd"}),
        "spec.kafka.secretRef.settings": an_app({}, {name: "/etc/passwd"}),
    }

    for where, app in refused.items():
        assert app.problem is not None
        assert not app.may_be_coordinated
        assert app.problem.reason is Reason.INVALID_SPEC
        assert re.search(f"^{re.escape(where)} may not hold {re.escape(name)}: .*{advice}", app.problem.message)
        assert "passwd" not in app.problem.message


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER"])
def test_a_mechanism_by_which_the_operator_cannot_log_in_is_refused_wherever_it_is_said(name: str, mechanism: str):
    for app in (an_app({name: mechanism}), an_app({}, {name: mechanism})):
        assert app.problem is not None
        assert app.problem.reason is Reason.INVALID_SPEC
        assert f"can't log in by this {name}; use" in app.problem.message
        assert mechanism not in app.problem.message
        assert not app.may_be_coordinated
