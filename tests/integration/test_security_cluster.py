"""Three brokers with SASL_SSL between them: replication, certificates that change, users that change."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest
from tests.integration.secure_clients import JOURNEYS, RECORDS, ottla_options
from tests.integration.secure_stage import MECHANISMS, SecureCluster, secure_broker
from tests.waiting import wait_until

from ottla.client import Consumer, Producer

BROKERS = 3


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with secure_broker(tmp_path_factory.mktemp("security"), BROKERS) as started:
        yield started


def serial_of(secure: SecureCluster, address: str) -> str:
    """Return the serial number of the certificate that a broker presents."""
    host, _, port = address.rpartition(":")
    context = secure.certificates.client_context()
    plain = socket.create_connection((host, int(port)), 10)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted:
        certificate = encrypted.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS])
@pytest.mark.parametrize("client", JOURNEYS)
def test_every_client_works_on_three_brokers(
    secure: SecureCluster, client: str, mechanism: str | None
) -> None:
    login = secure.login("SSL" if mechanism is None else "SASL_SSL", mechanism)
    assert JOURNEYS[client](login, f"three.{client}.{mechanism}") == RECORDS


def test_brokers_know_each_other_by_their_user(secure: SecureCluster) -> None:
    JOURNEYS["ottla"](secure.login("SASL_SSL", "PLAIN"), "replicated")
    secure.cluster.wait_until_in_sync()
    for node_id in secure.cluster.running:
        broker = secure.cluster.broker(node_id)
        principals = {each.principal for each in broker.server.connections if security_is(each)}
        assert "User:broker" in principals
        assert not any(
            each.principal == "User:ANONYMOUS" and each.has_fetched for each in broker.server.connections
        )


def security_is(connection: object) -> bool:
    return getattr(connection, "sasl", None) is not None


def test_a_client_keeps_working_while_certificates_change_and_brokers_restart(secure: SecureCluster) -> None:
    """A rolling change: the file first, which running brokers read again, then a restart of each."""
    options = ottla_options(secure.login("SASL_SSL", "SCRAM-SHA-512"))
    addresses = secure.bootstrap("SASL_SSL").split(",")
    before = {serial_of(secure, each) for each in addresses}
    assert len(before) == 1  # they share a file
    with Producer(**options) as producer:
        producer.send("rolling", b"before").result(30)
        secure.certificates.sign("broker")
        for node_id in secure.cluster.running:
            secure.cluster.broker(node_id).security.check_files()
        wait_until(
            lambda: not before & {serial_of(secure, each) for each in addresses}, "the new certificate"
        )
        producer.send("rolling", b"reloaded").result(30)
        for node_id in list(secure.cluster.running):
            secure.cluster.stop(node_id)
            producer.send("rolling", b"while %d is down" % node_id).result(30)
            secure.cluster.start(node_id)
            secure.cluster.wait_until_in_sync()
    with Consumer(**options, group_id="rolling", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["rolling"])
        read: list[bytes | None] = []
        while len(read) < 2 + BROKERS:
            read.append(consumer.getone(timeout_ms=30_000).value)
    assert read == [b"before", b"reloaded", *(b"while %d is down" % each for each in (1, 2, 3))]


def test_a_certificate_that_cannot_be_used_leaves_the_old_one(
    secure: SecureCluster, caplog: pytest.LogCaptureFixture
) -> None:
    file = secure.certificates.folder / "broker.pem"
    good = file.read_bytes()
    address = secure.bootstrap("SASL_SSL").split(",")[0]
    before = serial_of(secure, address)
    try:
        file.write_text("nonsense")
        secure.cluster.broker(1).security.check_files()
        assert "cannot be used, keeping the previous ones" in caplog.text
        assert serial_of(secure, address) == before
    finally:
        file.write_bytes(good)
        secure.cluster.broker(1).security.check_files()


def test_a_certificate_for_another_name_leaves_the_old_one(
    secure: SecureCluster, caplog: pytest.LogCaptureFixture
) -> None:
    file = secure.certificates.folder / "broker.pem"
    good = file.read_bytes()
    address = secure.bootstrap("SASL_SSL").split(",")[0]
    before = serial_of(secure, address)
    try:
        secure.certificates.sign("somebody-else", "broker.pem")
        secure.cluster.broker(1).security.check_files()
        assert "ssl.allow.dn.changes=true allows that" in caplog.text
        assert serial_of(secure, address) == before
    finally:
        file.write_bytes(good)
        secure.cluster.broker(1).security.check_files()


def test_a_certificate_is_changed_by_dynamic_config(secure: SecureCluster) -> None:
    addresses = secure.bootstrap("SASL_SSL").split(",")
    before = serial_of(secure, addresses[0])
    other = secure.certificates.sign("broker", "by-config.pem")
    with secure.admin() as admin:
        admin.alter_broker_configs(1, set_to={"listener.name.sasl_ssl.ssl.keystore.location": str(other)})
        wait_until(lambda: serial_of(secure, addresses[0]) != before, "the certificate of the new location")
        assert serial_of(secure, addresses[1]) == before
        admin.alter_broker_configs(1, unset=["listener.name.sasl_ssl.ssl.keystore.location"])
        wait_until(lambda: serial_of(secure, addresses[0]) == before, "the certificate of the file")


def test_a_client_with_an_old_tls_version_is_refused_after_a_dynamic_change(secure: SecureCluster) -> None:
    def version() -> str | None:
        host, _, port = secure.bootstrap("SASL_SSL").split(",")[0].rpartition(":")
        context = secure.certificates.client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        try:
            plain = socket.create_connection((host, int(port)), 10)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted:
                return encrypted.version()
        except ssl.SSLError:
            return None

    assert version() == "TLSv1.2"
    with secure.admin() as admin:
        admin.alter_broker_configs(1, set_to={"ssl.enabled.protocols": "TLSv1.3"})
        wait_until(lambda: version() is None, "the refusal")
        admin.alter_broker_configs(1, unset=["ssl.enabled.protocols"])
        wait_until(lambda: version() == "TLSv1.2", "the old versions")
