"""OAUTHBEARER between brokers: with tokens from a file, and from a token endpoint over https."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from tests.integration.secure_stage import Certificates, IdentityProvider, security_settings
from tests.integration.token_endpoint import Endpoint, serving

from ottla.client import Admin, Producer
from ottla.common.config.declaration import ConfigError
from ottla.testing.local_cluster import LocalCluster

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.sasl_ssl.oauthbearer"


def settings_of(certificates: Certificates, provider: IdentityProvider, token_url: str) -> dict[str, str]:
    settings = security_settings(certificates, provider, ["SASL_SSL"])
    return settings | {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"{provider.url},{token_url}",
        f"{PREFIX}.sasl.oauthbearer.token.endpoint.url": token_url,
        f"{PREFIX}.sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker",
    }


def check(cluster: LocalCluster, certificates: Certificates, provider: IdentityProvider) -> None:
    """Write with replication on three brokers, whose connections have the principal of the tokens."""
    options = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(certificates.ca),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": lambda: provider.token("broker"),
    }
    with Admin(**options) as admin:
        admin.create_topic("replicated", partitions=3, replication_factor=3)
    with Producer(**options) as producer:
        for partition in range(3):
            producer.send("replicated", b"x", partition=partition).result(30)
    cluster.wait_until_in_sync()
    principals = {
        each.principal for node_id in cluster.running for each in cluster.broker(node_id).server.connections
    }
    assert principals == {"User:broker"}


def test_brokers_authenticate_with_tokens_from_a_file(tmp_path: Path) -> None:
    certificates, provider = Certificates(tmp_path), IdentityProvider(tmp_path)
    file = tmp_path / "token"
    file.write_text(provider.token("broker") + "\n")
    settings = settings_of(certificates, provider, file.as_uri())
    with LocalCluster(3, settings=settings, security_protocol="SASL_SSL") as cluster:
        check(cluster, certificates, provider)


def test_brokers_and_confluent_use_tokens_and_keys_of_a_provider_over_https(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys come from an allowed https URL, the tokens from OAuth's client credentials grant."""
    certificates, provider = Certificates(tmp_path), IdentityProvider(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with serving(Endpoint(certificates, provider, "broker")) as endpoint:
        token_url, keys_url = f"{endpoint.url}/token", f"{endpoint.url}/keys"
        settings = settings_of(certificates, provider, token_url) | {
            "sasl.oauthbearer.jwks.endpoint.url": keys_url,
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"{keys_url},{token_url}",
            f"{PREFIX}.sasl.jaas.config": (
                f'{OAUTH_MODULE} required clientId="cluster" clientSecret="hush" scope="brokers";'
            ),
        }
        with LocalCluster(3, settings=settings, security_protocol="SASL_SSL") as cluster:
            check(cluster, certificates, provider)
            asked = []

            def token_callback(config: str) -> tuple[str, float]:
                asked.append(config)
                return provider.token("broker"), 2**33

            client = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(certificates.ca),
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": token_callback,
            }
            producer = confluent_kafka.Producer(client)
            producer.produce("replicated", b"of confluent", partition=0)
            assert producer.flush(30) == 0
            consumer = confluent_kafka.Consumer(
                {**client, "group.id": "tokens", "auto.offset.reset": "earliest"}
            )
            consumer.assign([confluent_kafka.TopicPartition("replicated", 0, 1)])
            message = consumer.poll(30)
            assert message is not None
            assert message.value() == b"of confluent"
            consumer.close()
            assert asked
        assert {"grant_type": ["client_credentials"], "scope": ["brokers"]} in endpoint.asked
        assert len(endpoint.asked) <= 6, "a token is used again"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({f"{PREFIX}.sasl.oauthbearer.token.endpoint.url": "file:///elsewhere"}, "is not allowed"),
        ({"org.apache.kafka.sasl.oauthbearer.allowed.urls": "file:///elsewhere"}, "is not allowed"),
    ],
)
def test_a_token_url_must_be_allowed(tmp_path: Path, change: dict[str, str], reason: str) -> None:
    certificates, provider = Certificates(tmp_path), IdentityProvider(tmp_path)
    file = tmp_path / "token"
    file.write_text(provider.token("broker"))
    settings = settings_of(certificates, provider, file.as_uri()) | change
    with (
        pytest.raises(ConfigError, match=reason),
        LocalCluster(2, settings=settings, security_protocol="SASL_SSL"),
    ):
        pass
