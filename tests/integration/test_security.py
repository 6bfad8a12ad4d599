"""Every listener, mechanism and client library: admin, transactions, groups; and the ways to be refused."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.secure_clients import JOURNEYS, RECORDS, confluent_options, ottla_options
from tests.integration.secure_stage import (
    BROKER_PASSWORD,
    MECHANISMS,
    PASSWORD,
    Certificates,
    Login,
    SecureCluster,
    secure_broker,
)
from tests.integration.wire import Closed, Wire
from tests.waiting import wait_until

from ottla.client import Admin
from ottla.client.errors import AuthenticationFailed, ClientError, TlsFailed
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ResourceNotFound, UnacceptableCredential

LOGINS = [
    ("SSL", None),
    *((protocol, name) for protocol in ("SASL_SSL", "SASL_PLAINTEXT") for name in MECHANISMS),
]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    folder: Path = tmp_path_factory.mktemp("security")
    with secure_broker(folder) as started:
        yield started


def test_the_wrong_protocol_is_reported_with_the_peer_and_the_reason(
    secure: SecureCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with Wire(secure.bootstrap("SASL_SSL")) as wire, pytest.raises((Closed, OSError)):
        wire.call(ApiKey.API_VERSIONS, 0)
    host, _, port = secure.bootstrap("SASL_PLAINTEXT").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as plain, pytest.raises(OSError):
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    wait_until(lambda: "does not speak TLS, and this listener does" in caplog.text, "the plain client")
    wait_until(lambda: "speaks TLS, and this listener does not" in caplog.text, "the TLS client")


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
@pytest.mark.parametrize("client", JOURNEYS)
def test_every_client_works_on_every_listener(
    secure: SecureCluster, client: str, protocol: str, mechanism: str | None
) -> None:
    topic = f"{client}.{protocol}.{mechanism}"
    assert JOURNEYS[client](secure.login(protocol, mechanism), topic) == RECORDS


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("mallory", "wonderland")])
def test_a_wrong_password_and_an_unknown_user_get_the_same_refusal(
    secure: SecureCluster, mechanism: str, user: str, password: str
) -> None:
    login = secure.login("SASL_SSL", mechanism, user=user, password=password)
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"), connected(login):
        pass


def test_a_client_that_asks_for_another_mechanism_learns_which_there_are(secure: SecureCluster) -> None:
    with Wire(secure.bootstrap("SASL_PLAINTEXT")) as wire:
        response = wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="CRAM-MD5")
        assert response.error_code is ErrorCode.unsupported_sasl_mechanism
        assert response.mechanisms == MECHANISMS
        with pytest.raises(Closed):
            wire.receive_frame()


@pytest.mark.parametrize(
    ("claims", "lifetime_s"),
    [({"iss": "https://other.example"}, 300), ({"aud": "other"}, 300), ({}, -300), ({"sub": ""}, 300)],
)
def test_a_token_that_does_not_fit_is_refused(
    secure: SecureCluster, claims: dict[str, str], lifetime_s: int
) -> None:
    login = secure.login("SASL_SSL", "OAUTHBEARER")
    options = ottla_options(login)
    token = secure.provider.token(lifetime_s=lifetime_s, **claims)
    options["sasl_oauth_token_provider"] = lambda: token
    with pytest.raises(AuthenticationFailed, match="invalid_token"), Admin(**options):
        pass


def test_a_client_without_a_certificate_is_refused(secure: SecureCluster) -> None:
    options = ottla_options(secure.login("SSL", None))
    del options["ssl_certfile"]
    with pytest.raises(ClientError), Admin(**options, default_api_timeout_ms=1_000) as admin:
        admin.list_topics()


def test_a_broker_that_the_client_does_not_trust_is_refused_by_the_client(
    secure: SecureCluster, tmp_path: Path
) -> None:
    options = ottla_options(secure.login("SASL_SSL", "SCRAM-SHA-512"))
    options["ssl_cafile"] = str(Certificates(tmp_path).ca)
    with pytest.raises(TlsFailed), Admin(**options):
        pass


def test_the_certificate_decides_who_a_client_is(secure: SecureCluster) -> None:
    with connected(secure.login("SSL", None)):
        server = secure.cluster.broker(1).server
        assert "User:alice" in {each.principal for each in server.connections}


def test_users_are_listed_changed_and_removed(secure: SecureCluster) -> None:
    with secure.admin() as admin:
        admin.set_scram_password("carol", "first", iterations=4096)
        admin.set_scram_password("carol", "first", mechanism="SCRAM-SHA-256")
        assert admin.describe_scram_users(["carol"]) == {
            "carol": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096}
        }
        with connected(secure.login("SASL_SSL", "SCRAM-SHA-512", user="carol", password="first")):
            pass
        admin.set_scram_password("carol", "second")
        with (
            pytest.raises(AuthenticationFailed),
            connected(secure.login("SASL_SSL", "SCRAM-SHA-512", user="carol", password="first")),
        ):
            pass
        admin.remove_scram_user("carol")
        with pytest.raises(ResourceNotFound):
            admin.describe_scram_users(["carol"])
        with pytest.raises(ResourceNotFound):
            admin.remove_scram_user("carol", mechanism="SCRAM-SHA-512")
        with pytest.raises(UnacceptableCredential, match="Too few iterations"):
            admin.set_scram_password("carol", "third", iterations=4095)
        assert "carol" not in admin.describe_scram_users()


def test_confluent_administers_users(secure: SecureCluster) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient(confluent_options(secure.login("SASL_SSL", "SCRAM-SHA-512")))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    upsertion = UserScramCredentialUpsertion("dave", info, b"davids", b"a salt of 18 bytes")
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(30)
    described = admin.describe_user_scram_credentials(["dave"])["dave"].result(30)
    assert [each.iterations for each in described.scram_credential_infos] == [8192]
    with connected(secure.login("SASL_SSL", "SCRAM-SHA-256", user="dave", password="davids")):
        pass
    deletion = UserScramCredentialDeletion("dave", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(30)


def test_secrets_are_in_no_config_answer(secure: SecureCluster) -> None:
    with secure.admin() as admin:
        entries = admin.broker_configs(1)
    jaas = [each for each in entries if each.name.endswith("sasl.jaas.config")]
    assert len(jaas) > 2
    assert all(each.value is None for each in jaas)
    assert PASSWORD not in repr(entries)
    assert BROKER_PASSWORD not in repr(entries)


def connected(login: Login) -> Admin:
    """Return an admin client of ours that connects when it is entered."""
    return Admin(**ottla_options(login))
