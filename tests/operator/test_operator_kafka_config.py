"""Kafka settings of which librdkafka makes no client: what is said of them, and what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from operator_builders import a_manifest
from operator_coordination import coordinating

from sluice_coordinator.topics.connections import AdminConnection, InvalidKafkaConfigError
from sluice_devkit.kubernetes.cluster import KubernetesCluster
from sluice_operator.coordination import Look
from sluice_operator.kafka_config import refusal
from sluice_operator.kube import paths
from sluice_operator.observed import App, read_app
from sluice_operator.reasons import Reason
from sluice_operator.spec.model import API_VERSION, KIND

SERVERS = "127.0.0.1:1"


def said_of(settings: Mapping[str, str], public: Mapping[str, str]) -> str:
    with pytest.raises(InvalidKafkaConfigError) as refused:
        AdminConnection(SERVERS, settings)
    return refusal(str(refused.value), settings, public)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"secruity.protocol": "SSL"}, 'No such configuration property: "secruity.protocol"'),
        ({"security.protocol": "SSL", "ssl.ca.location": "/not/there.pem"}, "ssl.ca.location failed"),
        ({"stats_cb": "x"}, "expected stats_cb property as a callable function"),
    ],
)
def test_librdkafkas_own_words_are_passed_on(settings: dict[str, str], words: str):
    assert words in said_of(settings, settings)


def test_a_missing_user_name_is_named_beside_a_secret():
    public = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}

    said = said_of({**public, "sasl.password": "hunter2"}, public)

    assert "sasl.username and sasl.password must be set" in said


@pytest.mark.parametrize("secret", ["hunter2", "hunter2 " * 3, "x"])
def test_a_secrets_value_is_not_repeated(secret: str):
    said = said_of({"security.protocol": secret, "client.id": "flights"}, {"client.id": "flights"})

    assert said == (
        "librdkafka refuses the Kafka settings (security.protocol); its own words are left out, because they hold "
        "something of the Secret"
    )


def test_no_part_of_a_secrets_value_is_repeated():
    said = refusal('Unrecognized sasl.oauthbearer.config beginning at: "unter2"', {"a": "scope=x hunter2"}, {})

    assert "unter" not in said


# The group.


def created(cluster: KubernetesCluster, namespace: str) -> App:
    spec = a_manifest(kafka={"bootstrapServers": SERVERS})["spec"]
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flights"}, "spec": spec}
    return read_app(cluster.client.create(paths.apps(namespace), body))


def with_config(app: App, config: dict[str, str]) -> App:
    assert app.spec is not None
    return replace(app, spec=replace(app.spec, kafka=replace(app.spec.kafka, config=config)))


def leader_of(look: Look) -> int:
    assert look.group is not None
    return look.group.epoch.leader


@pytest.mark.kubernetes
def test_a_group_goes_on_when_its_new_settings_are_invalid(kubernetes: KubernetesCluster, namespace: str):
    app = created(kubernetes, namespace)

    async def story() -> None:
        async with coordinating(kubernetes, namespace) as coordination:
            first = await coordination.look(app)
            refused = await coordination.look(with_config(app, {"security.protocol": "TSL"}))
            mended = await coordination.look(with_config(app, {"client.id": "flights"}))

        assert refused.problem is not None
        assert refused.problem.reason is Reason.INVALID_KAFKA_CONFIG
        assert 'Invalid value "TSL" for configuration property "security.protocol"' in refused.problem.message
        assert (first.problem, mended.problem) == (None, None)
        assert [leader_of(each) for each in (first, refused, mended)] == [1, 1, 2]

    asyncio.run(story())


@pytest.mark.kubernetes
def test_an_application_with_invalid_settings_has_been_looked_at(kubernetes: KubernetesCluster, namespace: str):
    app = created(kubernetes, namespace)

    async def story() -> None:
        async with coordinating(kubernetes, namespace) as coordination:
            look = await coordination.look(with_config(app, {"security.protocol": "TSL"}))

            assert look.group is None
            assert coordination.looked_at == {app.key}

    asyncio.run(story())
