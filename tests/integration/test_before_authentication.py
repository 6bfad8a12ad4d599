"""What a stranger can do on a SASL listener: nothing but authenticate."""

from __future__ import annotations

import base64
import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.scraping import scrape
from tests.integration.secure_stage import PASSWORD, SecureCluster, secure_broker
from tests.integration.wire import Closed, Wire
from tests.waiting import wait_until

from ottla.api.table import APIS
from ottla.client import Admin
from ottla.protocol.api_keys import ApiKey
from ottla.security.sasl import FIRST_APIS

OTHERS = [
    (api.key, version)
    for api in APIS.values()
    if api.key not in FIRST_APIS
    for version in range(api.min_version, api.max_version + 1)
]
PLAIN = f"\0alice\0{PASSWORD}".encode()
DELAY_MS = 200


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    folder = tmp_path_factory.mktemp("security")
    more = {"connection.failed.authentication.delay.ms": str(DELAY_MS)}
    more["ottla.audit.file"] = str(folder / "audit.log")
    more["ottla.metrics.listen"] = "127.0.0.1:0"
    with secure_broker(folder, **more) as started:
        yield started


@pytest.fixture
def wire(secure: SecureCluster) -> Iterator[Wire]:
    with Wire(secure.bootstrap("SASL_PLAINTEXT")) as opened:
        yield opened


def authenticate(wire: Wire, message: bytes = PLAIN, mechanism: str = "PLAIN") -> Any:
    assert wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code is ErrorCode.none
    return wire.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)


def test_every_other_api_closes_the_connection_unanswered(secure: SecureCluster) -> None:
    """Also with a body that no decoder would accept: it is not read."""
    before = secure.cluster.broker(1).server.stats.bytes_out
    assert len(OTHERS) > 150
    for key, version in OTHERS:
        with Wire(secure.bootstrap("SASL_PLAINTEXT")) as wire, pytest.raises((Closed, ConnectionError)):
            wire.send_raw(key, version, b"\xff" * 64, flexible=False)
            wire.receive_frame()
    assert secure.cluster.broker(1).server.stats.bytes_out == before


def test_a_large_frame_is_refused_before_it_is_allocated(secure: SecureCluster) -> None:
    for key, size in ((ApiKey.SASL_AUTHENTICATE, 64 * 1024 + 1), (ApiKey.PRODUCE, 17_000)):
        host, _, port = secure.bootstrap("SASL_PLAINTEXT").rpartition(":")
        with socket.create_connection((host, int(port)), 10) as stranger:
            stranger.sendall(struct.pack(">ihhi", size, key, 0, 1) + b"x" * 20_000)
            with pytest.raises((ConnectionError, Closed)):
                if not stranger.recv(100):
                    raise Closed
    assert secure.cluster.broker(1).server.frame_bytes.used == 0


def test_api_versions_is_served_before_and_after(wire: Wire) -> None:
    assert wire.call(ApiKey.API_VERSIONS, 3, client_software_name="x", client_software_version="1").api_keys
    response = authenticate(wire)
    assert (response.error_code, response.auth_bytes) == (ErrorCode.none, b"")
    assert wire.call(ApiKey.METADATA, 12, topics=[]).brokers


def test_authenticate_without_handshake_is_refused(wire: Wire) -> None:
    response = wire.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=PLAIN)
    assert response.error_code is ErrorCode.illegal_sasl_state
    with pytest.raises(Closed):
        wire.receive_frame()


def test_two_handshakes_are_refused(wire: Wire) -> None:
    wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    assert wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code is ErrorCode.illegal_sasl_state
    with pytest.raises(Closed):
        wire.receive_frame()


def test_a_failed_authentication_is_answered_late_and_ends_the_connection(wire: Wire) -> None:
    wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    began = time.monotonic()
    response = wire.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong")
    assert time.monotonic() - began >= DELAY_MS / 1000
    assert response.error_code is ErrorCode.sasl_authentication_failed
    assert response.error_message is not None
    assert "Invalid username or password" in response.error_message
    with pytest.raises(Closed):
        wire.receive_frame()


def logins(secure: SecureCluster) -> dict[str, float]:
    """Return the logins by PLAIN, by result, as the broker's metrics have them."""
    addresses = secure.cluster.broker(1).addresses
    assert addresses is not None
    assert addresses.metrics is not None
    found = scrape(addresses.metrics)
    return {
        result: found.total("ottla_logins_total", mechanism="PLAIN", result=result)
        for result in ("ok", "failed")
    }


def test_logins_are_counted_and_failed_ones_are_in_the_audit_log(secure: SecureCluster) -> None:
    before = logins(secure)
    audit = secure.certificates.folder / "audit.log"
    audit.write_text("")
    for is_raw in (False, True):
        with Wire(secure.bootstrap("SASL_PLAINTEXT")) as stranger:
            stranger.call(ApiKey.SASL_HANDSHAKE, 0 if is_raw else 1, mechanism="PLAIN")
            if is_raw:
                stranger.send_frame(b"\0alice\0guess")
            else:
                stranger.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0guess")
            with pytest.raises(Closed):
                stranger.receive_frame()
    with Wire(secure.bootstrap("SASL_PLAINTEXT")) as user:
        authenticate(user)
    lines = [json.loads(each) for each in audit.read_text().splitlines()]
    assert [(each["event"], each["api"], each["operation"], each["name"]) for each in lines] == [
        ("denied", "SASL_AUTHENTICATE", "LOGIN", "PLAIN")
    ] * 2
    assert lines[0]["error"] == "Invalid username or password"
    assert (lines[0]["host"], lines[0]["allowed"]) == ("127.0.0.1", False)
    assert "guess" not in audit.read_text()
    after = logins(secure)
    assert {result: after[result] - before[result] for result in after} == {"failed": 2, "ok": 1}


def test_unknown_users_look_like_those_that_other_libraries_made(wire: Wire, secure: SecureCluster) -> None:
    """librdkafka makes salts of 64 bytes, ottla of 24: a name with a salt of another size would not exist."""
    authenticate(wire)
    made = wire.call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[],
        upsertions=[
            {
                "name": "dora",
                "mechanism": 1,
                "iterations": 4096,
                "salt": bytes(range(64)),
                "salted_password": bytes(32),
            }
        ],
    )
    assert made.results[0].error_code is ErrorCode.none

    def look(user: str) -> tuple[str, int]:
        with Wire(secure.bootstrap("SASL_PLAINTEXT")) as stranger:
            message = f"n,,n={user},r=abcdefghijklmnop".encode()
            answer = authenticate(stranger, message, "SCRAM-SHA-256").auth_bytes.decode()
        fields = dict(part.split("=", 1) for part in answer.split(","))
        return fields["i"], len(base64.b64decode(fields["s"]))

    assert {look("alice"), look("dora")} == {("8192", 24), ("4096", 64)}
    assert {look(f"nobody{at}") for at in range(25)} == {("8192", 24), ("4096", 64)}


def test_without_sasl_the_sasl_apis_answer_that_the_state_is_wrong(secure: SecureCluster) -> None:
    from ottla.testing.local_broker import OttlaBroker

    with OttlaBroker() as broker, Wire(broker.bootstrap_servers) as wire:
        response = wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert response.error_code is ErrorCode.illegal_sasl_state
        response = wire.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"")
        assert response.error_code is ErrorCode.illegal_sasl_state


def test_a_session_expires_unless_the_client_authenticates_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("brief")
    with secure_broker(folder, **{"connections.max.reauth.ms": "1400"}) as secure:
        address = secure.bootstrap("SASL_PLAINTEXT")
        with Wire(address) as kept, Wire(address) as left:
            assert authenticate(kept).session_lifetime.total_seconds() == 1.4
            authenticate(left)
            assert authenticate(kept).error_code is ErrorCode.none
            too_soon = kept.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
            assert too_soon.error_code is ErrorCode.illegal_sasl_state
            for _ in range(2):
                time.sleep(1.05)  # the time that passes is what is tested
                assert authenticate(kept).error_code is ErrorCode.none
                assert kept.call(ApiKey.METADATA, 12, topics=[]).brokers
            with pytest.raises((Closed, ConnectionError)):
                left.call(ApiKey.METADATA, 12, topics=[])


def test_re_authentication_keeps_the_principal_and_the_mechanism(secure: SecureCluster, wire: Wire) -> None:
    authenticate(wire)
    with Wire(secure.bootstrap("SASL_PLAINTEXT")) as other:
        authenticate(other)
        handshake = other.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512")
        assert handshake.error_code is ErrorCode.illegal_sasl_state
    token = secure.provider.token("somebody-else")
    with Wire(secure.bootstrap("SASL_PLAINTEXT")) as other:
        bearer = b"n,,\x01auth=Bearer %s\x01\x01"
        authenticate(other, bearer % secure.provider.token().encode(), "OAUTHBEARER")
        response = authenticate(other, bearer % token.encode(), "OAUTHBEARER")
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert "Cannot change principals" in (response.error_message or "")
        with pytest.raises((Closed, ConnectionError)):
            other.call(ApiKey.METADATA, 12, topics=[])


def test_a_token_limits_the_session(wire: Wire, secure: SecureCluster) -> None:
    bearer = b"n,,\x01auth=Bearer %s\x01\x01" % secure.provider.token(lifetime_s=100).encode()
    response = authenticate(wire, bearer, "OAUTHBEARER")
    assert 90 < response.session_lifetime.total_seconds() <= 100


def test_a_stranger_who_claims_to_be_a_broker_gets_no_place_in_the_reserve(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The reserve of connections is for brokers: by their principal, not by their client id."""
    folder = tmp_path_factory.mktemp("reserve")
    with secure_broker(folder, 2) as secure:
        server = secure.cluster.broker(1).server
        security = secure.cluster.broker(1).security
        address = secure.bootstrap("SASL_SSL").split(",")[0]
        with secure.admin() as admin:
            admin.set_scram_password("eve", "secret")
            admin.create_topic("orders", partitions=4)
        wait_until(lambda: any(each.principal == "User:broker" for each in server.connections), "replication")
        brokers = [each for each in server.connections if each.principal == "User:broker"]
        assert all(security.is_broker(each) for each in brokers)
        with Admin(
            bootstrap_servers=address,
            client_id="broker-2",
            security_protocol="SASL_SSL",
            ssl_cafile=str(secure.certificates.ca),
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="eve",
            sasl_plain_password="secret",
        ):
            strangers = [each for each in server.connections if each.principal == "User:eve"]
            assert strangers
            assert not any(security.is_broker(each) for each in strangers)
