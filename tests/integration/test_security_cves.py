"""The published vulnerabilities of Apache Kafka, tried against Ottla. Each test says what the flaw was."""

from __future__ import annotations

import ast
import asyncio
import base64
import hashlib
import hmac
import logging
import struct
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.wire import Wire, batch

import ottla
from ottla.broker.broker import Broker
from ottla.broker.jwks import Jwks
from ottla.client import Admin, AsyncAdmin
from ottla.client.admin import Acl
from ottla.common.config.declaration import ConfigError
from ottla.connect.herder.task_planner import _own_part
from ottla.protocol.api_keys import ApiKey
from ottla.security.exchange import AuthenticationRefused
from ottla.security.jaas import parse_jaas
from ottla.security.plain import PlainServer
from ottla.security.scram import ScramServer, fake_credential, make_credential
from ottla.testing.local_broker import OttlaBroker

MECHANISM = "SCRAM-SHA-256"
CLIENT = "User:ANONYMOUS"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def guarded() -> Iterator[OttlaBroker]:
    """A broker whose client may use topics, but not act as a broker or use the transactional id of others."""
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "delegation.token.secret.key": "secret of the brokers",
    }
    with OttlaBroker(settings=settings) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders")
        made = admin.create_acls(
            [
                *(Acl(CLIENT, each, "cluster") for each in ("alter", "describe", "describe_configs")),
                Acl("User:bob", "write", "transactional_id", "bobs"),
            ]
        )
        assert made == [None] * 4
        yield broker


def test_cve_2018_1288_a_client_cannot_fetch_as_a_follower(guarded: OttlaBroker) -> None:
    """A client could send Fetch requests with the id of a replica, and so interfere with replication."""
    with Wire(guarded.bootstrap_servers) as wire:
        answer = wire.call(
            ApiKey.FETCH,
            12,
            replica_id=2,
            max_wait=timedelta(0),
            session_epoch=-1,
            max_bytes=1 << 20,
            topics=[{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}],
        )
    codes = {each.error_code for topic in answer.responses for each in topic.partitions}
    refused = {ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed}
    assert (codes | {answer.error_code}) & refused
    assert ErrorCode.none not in codes


@pytest.mark.parametrize("transactional_id", ["bobs", None])
def test_cve_2018_17196_transactional_records_need_their_own_permission(
    guarded: OttlaBroker, transactional_id: str | None
) -> None:
    """A client that could write to a topic could bypass the checks of transactional ids in Produce."""
    records = batch(b"forged", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    with Wire(guarded.bootstrap_servers) as wire:
        answer = wire.call(
            ApiKey.PRODUCE,
            9,
            transactional_id=transactional_id,
            acks=1,
            timeout=timedelta(seconds=5),
            topic_data=[{"name": "orders", "partition_data": [{"index": 0, "records": records}]}],
        )
    (result,) = answer.responses[0].partition_responses
    assert result.error_code is ErrorCode.transactional_id_authorization_failed
    with Admin(guarded.bootstrap_servers) as admin:
        (topic,) = admin.describe_topics(["orders"]).values()
        assert admin.offset_ranges(topic) == {0: (0, 0)}


def test_cve_2019_12399_no_answer_contains_a_secret_of_the_configuration(guarded: OttlaBroker) -> None:
    """Connect's REST API answered with the values of secrets that the configuration only referred to."""
    with Admin(guarded.bootstrap_servers) as admin:
        entries = admin.broker_configs(1)
    secrets = {each.name: each.value for each in entries if each.is_sensitive}
    assert "delegation.token.secret.key" in secrets
    assert set(secrets.values()) == {None}
    assert "secret of the brokers" not in repr(entries)
    # What Connect stores for a task, and answers with, has the reference instead of the value.
    stored = {"connector.class": "x", "password": "${file:/run/secrets:db}", "topic": "orders"}
    resolved = {**stored, "password": "the value"}
    task = _own_part(stored, resolved, {**resolved, "task.partitions": "[0]"})
    assert task["password"] == "${file:/run/secrets:db}"
    assert "the value" not in task.values()


def test_cve_2021_38153_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords and keys were compared byte by byte, so that the time told how much of a guess was right."""
    compared: list[int] = []
    original = hmac.compare_digest

    def watched(left: Any, right: Any) -> bool:
        compared.append(len(left))
        return original(left, right)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    for user in ("alice", "nobody-of-this-name"):
        with pytest.raises(AuthenticationRefused, match="Invalid username or password"):
            PlainServer({"alice": "wonderland"}).respond(f"\0{user}\0wrong".encode())
    assert len(compared) == 2
    with pytest.raises(AuthenticationRefused, match="Invalid username or password"):
        log_in(scram_server(), "not the password")
    assert compared[-1] == hashlib.sha256().digest_size


async def test_cve_2022_34917_a_stranger_cannot_make_the_broker_allocate_memory(tmp_path: Path) -> None:
    """An unauthenticated client could announce large requests, and exhaust the memory of the broker."""
    broker = Broker(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "log.dirs": str(tmp_path),
            "ottla.metrics.listen": "off",
        }
    )
    async with broker:
        assert broker.addresses is not None
        address = broker.addresses.listeners[0][1]
        for api_key in (ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS):  # warm up
            await announce(address, api_key, 16, bytes(8))
        tracemalloc.start()
        try:
            for api_key in (ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS):
                for size in (65_537, 10_000_000, 2**31 - 1):
                    assert await announce(address, api_key, size, bytes(60_000)) == b""
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 512 << 10


async def announce(address: Any, api_key: int, size: int, body: bytes) -> bytes:
    """Announce a request of `size` bytes, send some, and return the answer: nothing if it is closed."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(struct.pack(">ihhi", size, api_key, 0, 1) + body)
        async with asyncio.timeout(20):
            return await reader.read(1)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def scram_server() -> ScramServer:
    credential = make_credential(MECHANISM, "wonderland", b"salt" * 6, 4096)
    return ScramServer(
        MECHANISM,
        lambda _, user: credential if user == "alice" else None,
        lambda *_: None,
        lambda mechanism, user: fake_credential(mechanism, user, b"secret"),
        "server-nonce",
    )


def log_in(server: ScramServer, password: str, other_nonce: str | None = None) -> Any:
    """Log in as alice, with a proof that fits the nonce that is sent."""
    first_bare = "n=alice,r=client-nonce"
    answer, _ = server.respond(f"n,,{first_bare}".encode())
    fields = dict(part.split("=", 1) for part in answer.decode().split(","))
    nonce = fields["r"] if other_nonce is None else other_nonce
    final_bare = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
    said = f"{first_bare},{answer.decode()},{final_bare}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    return server.respond(f"{final_bare},p={proof}".encode())[1]


def test_cve_2024_56128_the_final_message_of_scram_must_have_the_nonce_of_the_first() -> None:
    """The server did not compare the nonce of the final message with the one that it had sent.

    librdkafka before 2.6.1 says its own nonce twice: that one alone is accepted beside the exact one.
    """
    assert log_in(scram_server(), "wonderland") is not None
    doubled = "client-nonceclient-nonceserver-nonce"
    assert log_in(scram_server(), "wonderland", other_nonce=doubled) is not None
    with pytest.raises(AuthenticationRefused):
        log_in(scram_server(), "not the password", other_nonce=doubled)
    for nonce in (
        "client-nonce",
        "client-nonceserver-nonc",
        "client-nonceserver-nonceX",
        "other",
        "client-nonceclient-nonce",
        "otherclient-nonceserver-nonce",
        "server-nonce",
    ):
        with pytest.raises(AuthenticationRefused):
            log_in(scram_server(), "wonderland", other_nonce=nonce)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://169.254.169.254/keys", "https://example.org/k"]
)
def test_cve_2025_27817_urls_in_the_configuration_must_be_allowed(url: str) -> None:
    """A client configuration could name any URL for OAuth tokens: files were read, internal servers asked."""
    with pytest.raises(ConfigError, match="is not allowed"):
        Jwks(url, (), 60_000)
    with pytest.raises(ConfigError, match="is not allowed"):
        Jwks(url, (f"{url}/other",), 60_000)


def test_cve_2025_27818_no_class_is_loaded_by_a_name_in_the_configuration() -> None:
    """A JAAS line could name an LDAP login module, which loaded and ran code from an LDAP server.

    Every place that loads code by a name is here, with where its names come from.
    """
    source = Path(ottla.__file__).parent
    loading = {"import_module", "__import__", "exec", "eval", "load_module", "exec_module"}
    found = set()
    for file in source.rglob("*.py"):
        text = file.read_text()
        if not any(each in text for each in loading):
            continue
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(called, "attr", getattr(called, "id", "")) in loading:
                found.add(str(file.relative_to(source)))
    assert found == {
        # names of our own modules, in the code itself
        "__init__.py",
        "api/support/reference_pages.py",
        "api/table.py",
        "cli/pipeline/command.py",
        "cli/support/lazy_group.py",
        "client/consumer/fetching/record.py",
        "common/lazy_exports.py",
        "protocol/consumer_protocol.py",
        "protocol/records/checksum.py",
        "protocol/records/compiled.py",
        "registry/formats/patterns.py",
        "spark/runtime/early_connection.py",
        "spark/runtime/warm_python.py",
        # the user's own code, on the user's own machine
        "spark/pipelines/loading.py",
        # the worker's plugin.path; a connector's config names known drivers only (decision 520)
        "connect/plugins.py",
        "connect/connectors/dbapi.py",
        # Google's own files, which every schema may import
        "registry/serdes/protobuf_codec.py",
    }
    login = parse_jaas('com.sun.security.auth.module.LdapLoginModule required userProvider="ldap://evil/x";')
    assert login.users == {}, "the name of a module is only text, and it brings no user"


async def test_cve_2026_33558_no_secret_is_logged_at_any_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At DEBUG, whole requests and responses were logged: passwords, tokens and configs among them.

    The advisory (GHSA-wf66-mphr-4c4r) is about Kafka's NetworkClient. Covered here: our client and a broker
    in one process at DEBUG, with users, delegation tokens, configs and SASL messages.
    """
    password, admin_password = "wonderland-of-alice", "password-of-admin"
    broker = Broker(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ottla.bootstrap.scram": f"SCRAM-SHA-512=[name=admin,password={admin_password}]",
            "delegation.token.secret.key": "secret-of-brokers",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
            "log.dirs": str(tmp_path),
            "ottla.metrics.listen": "off",
        }
    )
    with caplog.at_level(logging.DEBUG):
        async with broker:
            assert broker.addresses is not None
            async with AsyncAdmin(
                str(broker.addresses.listeners[0][1]),
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-512",
                sasl_plain_username="admin",
                sasl_plain_password=admin_password,
            ) as admin:
                await admin.set_scram_password("alice", password)
                token = await admin.create_delegation_token()
                await admin.renew_delegation_token(token.hmac)
                await admin.describe_delegation_tokens()
                await admin.broker_configs(1)
    secrets = [password, admin_password, "secret-of-brokers", token.password, token.hmac.hex()]
    written = caplog.text + repr(broker.config) + repr(token)
    assert "ottla" in caplog.text
    assert [secret for secret in secrets if secret in written] == []
    raw = [each for each in (token.hmac,) if repr(each)[2:-1] in written]
    assert raw == []
