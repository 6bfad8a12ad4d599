"""Our clients' side of TLS and SASL, against Apache Kafka: every mechanism, and every way to get it wrong."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.ottla_faces import make_producer
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.certificates import Authority
from tests.interop.conftest import Tool
from tests.interop.fetch_jars import KAFKA_JARS

from ottla.client.errors import AuthenticationFailed, ClientError, TimedOut, TlsFailed
from ottla.testing.broker_process import free_port

__all__ = ["make_producer"]

NAMES = ("TLS", "MTLS", "SASL", "SASLTLS", "BRIEF")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNSIGNED = "unsecuredLoginStringClaim_sub"
LOGIN = {"sasl_plain_username": "alice", "sasl_plain_password": "s3cret"}
REAUTHENTICATE_MS = 1_500


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ApacheKafka]:
    if shutil.which("java") is None or not KAFKA_JARS.is_dir():
        pytest.skip("java or Kafka's jars are missing; fetch them with: make interop")
    listeners = {name: f"127.0.0.1:{free_port()}" for name in NAMES}
    protocols = {
        "TLS": "SSL",
        "MTLS": "SSL",
        "SASL": "SASL_PLAINTEXT",
        "SASLTLS": "SASL_SSL",
        "BRIEF": "SASL_PLAINTEXT",
    }
    plain = f'{PLAIN_MODULE} required user_alice="{LOGIN["sasl_plain_password"]}";'
    properties = {
        "listener.security.protocol.map": ",".join(
            [
                "PLAINTEXT:PLAINTEXT",
                "CONTROLLER:PLAINTEXT",
                *(f"{name}:{kind}" for name, kind in protocols.items()),
            ]
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.key_store("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.brief.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
    }
    for name in ("sasl", "sasltls", "brief"):
        prefix = f"listener.name.{name}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}.plain.sasl.jaas.config": plain,
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f'{OAUTH_MODULE} required {UNSIGNED}="x";',
        }
    users = [f'SCRAM-SHA-{size}=[name=alice,password="s3cret"]' for size in (256, 512)]
    folder = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder, listeners=listeners, properties=properties, users=users) as started:
        yield started


def token(name: str = "alice", lifetime_s: float = 600) -> str:
    """Return a token as Kafka takes it when nobody has told it which signatures to trust."""
    now = time.time()
    claims = {"sub": name, "iat": now, "exp": now + lifetime_s}
    parts = [json.dumps(each).encode() for each in ({"alg": "none"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts), ""])


async def fetch_token() -> str:
    return token()


def deliver(make_producer: Any, address: str, **options: Any) -> None:
    producer = make_producer(address, **options)
    assert producer.send("secured", b"x").result(30).offset >= 0
    producer.close()


@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_every_mechanism_logs_in_with_and_without_tls(
    kafka, authority, make_producer, mechanism, listener
) -> None:
    login = {"sasl_oauth_token_provider": token} if mechanism == "OAUTHBEARER" else LOGIN
    protocol = {"SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}[listener]
    tls = {"ssl_cafile": str(authority.certificate)} if listener == "SASLTLS" else {}
    deliver(
        make_producer,
        kafka.listeners[listener],
        security_protocol=protocol,
        sasl_mechanism=mechanism,
        **login,
        **tls,
    )


def test_a_token_may_have_to_be_awaited(kafka, make_producer) -> None:
    deliver(
        make_producer,
        kafka.listeners["SASL"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=fetch_token,
    )


def test_tls_with_and_without_a_certificate_of_our_own(kafka, authority, make_producer) -> None:
    tls = {"security_protocol": "SSL", "ssl_cafile": str(authority.certificate)}
    deliver(make_producer, kafka.listeners["TLS"], **tls)
    certificate, key = authority.sign("client")
    deliver(
        make_producer, kafka.listeners["MTLS"], **tls, ssl_certfile=str(certificate), ssl_keyfile=str(key)
    )


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-512", SCRAM_MODULE)])
def test_a_login_configuration_of_java_logs_in(kafka, authority, make_producer, mechanism, module) -> None:
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="alice" password="s3cret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
    deliver(make_producer, kafka.listeners["SASLTLS"], **options)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_stores_of_java_are_read(kafka, authority, make_producer, tmp_path, kind) -> None:
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed")
    certificate, key = authority.sign("client")
    trust, keys, packed = (str(tmp_path / each) for each in ("trust", "keys", "packed"))
    secret = ("-storepass", "changeit", "-storetype", kind)
    pass_out = ("-passout", "pass:changeit")
    target = ("-destkeystore", keys, "-deststorepass", "changeit", "-deststoretype", kind)
    source = ("-srckeystore", packed, "-srcstoretype", "PKCS12", "-srcstorepass", "changeit")
    for command in (
        ("openssl", "pkcs12", "-export", "-in", certificate, "-inkey", key, "-out", packed, *pass_out),
        ("keytool", "-importcert", "-noprompt", "-file", authority.certificate, "-keystore", trust, *secret),
        ("keytool", "-importkeystore", "-noprompt", *source, *target),
    ):
        subprocess.run([str(each) for each in command], check=True, capture_output=True)
    options = {
        "security.protocol": "SSL",
        "ssl.truststore.location": trust,
        "ssl.truststore.password": "changeit",
        "ssl.keystore.location": keys,
        "ssl.keystore.password": "changeit",
    }
    deliver(make_producer, kafka.listeners["MTLS"], **options)


def test_a_broker_that_wants_a_certificate_and_gets_none_is_understood(
    kafka, authority, make_producer
) -> None:
    """TLS 1.3: the broker closes after the handshake, as one that stops does. So the first send says why."""
    producer = make_producer(
        kafka.listeners["MTLS"],
        security_protocol="SSL",
        ssl_cafile=str(authority.certificate),
        socket_connection_setup_timeout_ms=5_000,
        max_block_ms=3_000,
    )
    with pytest.raises(ClientError, match=r"certificate|security_protocol"):
        producer.send("secured", b"x").result(30)
    producer.close(1)


def test_a_certificate_of_an_untrusted_authority_is_refused(kafka, make_producer, tmp_path) -> None:
    stranger = Authority(tmp_path, "stranger")
    with pytest.raises(TlsFailed, match="its certificate is not accepted"):
        make_producer(kafka.listeners["TLS"], security_protocol="SSL", ssl_cafile=str(stranger.certificate))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_reported_at_once(kafka, make_producer, mechanism) -> None:
    with pytest.raises(AuthenticationFailed, match="refused the login"):
        make_producer(
            kafka.listeners["SASL"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
        )


def test_kafka_4_refuses_scram_of_debians_kcat_which_we_accept(kafka: ApacheKafka, kcat: Tool) -> None:
    """librdkafka before 2.6.1 says its nonce twice; decision 0240 stands on this."""
    version = kcat("-V").stdout
    if not re.search(r"librdkafka (?:1\.|2\.[0-5]\.|2\.6\.0)", version):
        pytest.skip(f"this kcat says its nonce once: {version}")
    options = ["-b", kafka.listeners["SASL"], "-X", "security.protocol=SASL_PLAINTEXT"]
    for name, value in {"username": "alice", "password": "s3cret"}.items():
        options += ["-X", f"sasl.{name}={value}"]
    assert "secured" in kcat(*options, "-X", "sasl.mechanism=PLAIN", "-L", "-t", "secured").stdout
    refused = kcat(*options, "-X", "sasl.mechanism=SCRAM-SHA-256", "-L", must_succeed=False)
    assert refused.returncode != 0
    assert "authentication failed" in refused.stderr.lower()


def test_a_token_that_has_expired_is_refused_with_the_reason(kafka, make_producer) -> None:
    with pytest.raises(AuthenticationFailed, match="refused the login"):
        make_producer(
            kafka.listeners["SASL"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=lambda: token(lifetime_s=-100),
        )


def test_plain_words_to_a_tls_listener_and_the_reverse_are_understood(
    kafka, authority, make_producer
) -> None:
    quick = {"socket_connection_setup_timeout_ms": 5_000, "max_block_ms": 5_000}
    with pytest.raises(ClientError, match=r"security_protocol|Kafka broker"):
        make_producer(kafka.listeners["TLS"], **quick).send("orders", b"x")
    with pytest.raises((TlsFailed, TimedOut)):
        make_producer(
            kafka.address, security_protocol="SSL", ssl_cafile=str(authority.certificate), **quick
        ).send("orders", b"x")


def test_a_login_that_ends_is_renewed_without_losing_a_record(kafka, make_producer) -> None:
    producer = make_producer(
        kafka.listeners["BRIEF"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        **LOGIN,
    )
    producer.send("renewed", b"", partition=0).result(30)  # a new topic may have no leader for a moment
    retries = producer.stats().retries
    deadline = time.monotonic() + 3 * REAUTHENTICATE_MS / 1_000
    sent = []
    while time.monotonic() < deadline:
        sent.append(producer.send("renewed", b"%d" % len(sent), partition=0))
        time.sleep(0.01)
    producer.flush()
    offsets = [each.result(10).offset for each in sent]
    assert offsets == list(range(offsets[0], offsets[0] + len(sent)))
    assert producer.stats().retries == retries  # the connection was kept
