"""Kerberos with a real KDC, and kcat and Java's tools on a secured listener."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.secure_stage import PASSWORD, SCRAM_MODULE, USER, SecureCluster, secure_broker
from tests.interop.conftest import Tool
from tests.interop.kdc import REALM, Kdc, missing_tools

from ottla.testing.local_broker import OttlaBroker
from ottla.testing.local_cluster import LocalCluster

KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    if missing := missing_tools():
        pytest.skip(
            f"{', '.join(missing)} not installed: apt-get install krb5-kdc krb5-admin-server krb5-user"
        )
    pytest.importorskip("gssapi")
    folder = tmp_path / "kdc"
    folder.mkdir()
    with Kdc(folder) as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


def test_kafka_python_authenticates_with_kerberos(kdc: Kdc) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    keytab = kdc.keytab("kafka/localhost")
    kdc.log_in("alice")
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
            f'{KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
            f'principal="kafka/localhost@{REALM}";'
        ),
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM_MODULE} required username="broker" password="unused";'
        ),
        "sasl.kerberos.service.name": "kafka",
    }
    with OttlaBroker(settings=settings, security_protocol="SASL_PLAINTEXT") as broker:
        options: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
            "sasl_kerberos_domain_name": "localhost",
        }
        producer = KafkaProducer(**options)
        producer.send("kerberized", b"hello").get(20)
        principals = {each.principal for each in broker.broker(1).server.connections}
        assert principals == {"User:alice"}
        producer.close()
        consumer = KafkaConsumer("kerberized", **options, auto_offset_reset="earliest", group_id="g")
        assert next(iter(consumer)).value == b"hello"
        consumer.close()


def test_brokers_authenticate_to_each_other_with_kerberos(kdc: Kdc) -> None:
    from kafka import KafkaProducer

    keytab = kdc.keytab("kafka/127.0.0.1")
    kdc.log_in("alice")
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
            f'{KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
            f'principal="kafka/127.0.0.1@{REALM}";'
        ),
        "sasl.kerberos.service.name": "kafka",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:alice",
        "connections.max.reauth.ms": "3000",
        "default.replication.factor": "3",
        "min.insync.replicas": "3",
    }
    with LocalCluster(3, settings=settings, security_protocol="SASL_PLAINTEXT") as cluster:
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka",
            acks="all",
        )
        deadline = time.monotonic() + 4  # beyond the first re-authentication of the brokers
        sent = 0
        while time.monotonic() < deadline:
            sent = producer.send("replicated", b"x").get(30).offset
        assert sent > 0
        producer.close()
        found = [cluster.broker(each).server.connections for each in cluster.running]
        principals = {each.principal for connections in found for each in connections}
        assert principals - {"User:alice"} == {"User:kafka"}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with secure_broker(tmp_path_factory.mktemp("security")) as started:
        yield started


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kcat_produces_and_consumes_over_tls(kcat: Tool, secure: SecureCluster, mechanism: str) -> None:
    """Debian's librdkafka (2.0) says its nonce twice in SCRAM, which Kafka 4 refuses (decision 0240)."""
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secure.certificates.ca),
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    check_kcat(kcat, secure, f"kcat-{mechanism}", secure.cluster.bootstrap_servers, settings)


def test_kcat_authenticates_with_a_certificate(kcat: Tool, secure: SecureCluster) -> None:
    certificate = str(secure.certificates.sign("kcat"))
    settings = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secure.certificates.ca),
        "ssl.certificate.location": certificate,
        "ssl.key.location": certificate,
    }
    check_kcat(kcat, secure, "kcat-mtls", secure.bootstrap("SSL"), settings)


def test_a_token_that_kcat_did_not_have_signed_is_refused(kcat: Tool, secure: SecureCluster) -> None:
    """Debian's librdkafka has no other tokens: it is built without OpenID Connect."""
    options = ["-b", secure.cluster.bootstrap_servers, "-L", "-m", "2"]
    for name, value in {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secure.certificates.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal={USER}",
    }.items():
        options += ["-X", f"{name}={value}"]
    done: subprocess.CompletedProcess[str] = kcat(*options, must_succeed=False)
    assert done.returncode != 0
    assert "SASL authentication error" in done.stderr


def check_kcat(kcat: Tool, secure: SecureCluster, topic: str, address: str, settings: dict[str, str]) -> None:
    options = ["-b", address]
    for name, value in settings.items():
        options += ["-X", f"{name}={value}"]
    with secure.admin() as admin:
        admin.create_topic(topic, partitions=1)
    kcat(*options, "-P", "-t", topic, "-p", "0", text="one\ntwo\n")
    consumed: subprocess.CompletedProcess[str] = kcat(*options, "-C", "-q", "-e", "-t", topic, "-p", "0")
    assert consumed.stdout.splitlines() == ["one", "two"]


def test_java_configures_users_and_produces_with_one(
    java: Tool, secure: SecureCluster, tmp_path: Path
) -> None:
    def properties(user: str, password: str) -> str:
        file = tmp_path / f"{user}.properties"
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={secure.certificates.ca}\n"
            f'sasl.jaas.config={SCRAM_MODULE} required username="{user}" password="{password}";\n'
        )
        return str(file)

    with secure.admin() as admin:
        admin.set_scram_password("root", "root-secret", mechanism="SCRAM-SHA-256")
    address = ("--bootstrap-server", secure.cluster.bootstrap_servers)
    login = ("--command-config", properties("root", "root-secret"))
    user = ("--entity-type", "users", "--entity-name", "java")
    tool = next(
        each
        for each in ("kafka.admin.ConfigCommand", "org.apache.kafka.tools.ConfigCommand")
        if "ClassNotFound" not in java(each, "--help", must_succeed=False).stderr
    )
    java(
        tool,
        *address,
        *login,
        "--alter",
        "--add-config",
        "SCRAM-SHA-256=[iterations=8192,password=duke]",
        *user,
    )
    shown = java(tool, *address, *login, "--describe", *user).stdout
    assert "SCRAM-SHA-256=iterations=8192" in shown
    java(
        "org.apache.kafka.tools.ConsoleProducer",
        *address,
        "--topic",
        "java",
        "--command-config",
        properties("java", "duke"),
        text="one\ntwo\n",
    )
    consumed = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *address,
        *("--topic", "java", "--from-beginning", "--max-messages", "2"),
        "--command-config",
        properties("java", "duke"),
    )
    assert consumed.stdout.splitlines() == ["one", "two"]
