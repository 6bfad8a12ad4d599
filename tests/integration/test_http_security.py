"""The registry with TLS, users of the brokers and their ACLs; its clients are confluent-kafka's."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import trustme

pytest.importorskip("httpx")

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.integration.clients import wait_until
from tests.integration.registry_stage import RunningRegistry

from ottla.cli.main import run
from ottla.http.security import TlsFiles, server_context
from ottla.registry.rest import access
from ottla.registry.rest.app import make_app
from ottla.registry.serdes import RegistryClient
from ottla.registry.state_store import StateStore
from ottla.testing.local_broker import OttlaBroker

JWKS = Path(tempfile.mkdtemp(prefix="registry-jwks-")) / "keys.json"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "ottla.sasl.plain.without.tls.enable": "true",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} username="admin" password="admin-pw" user_admin="admin-pw" user_alice="alice-pw" '
        'user_bob="bob-pw";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": JWKS.as_uri(),
    "sasl.oauthbearer.jwks.endpoint.url": JWKS.as_uri(),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
ADMIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "admin",
    "sasl_plain_password": "admin-pw",
}
STRING = Schema('"string"', "AVRO")


@pytest.fixture(scope="module")
def signing_key() -> Iterator[RSAKey]:
    key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig", "alg": "RS256"})
    JWKS.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    yield key
    shutil.rmtree(JWKS.parent)


@pytest.fixture(scope="module")
def broker(signing_key: RSAKey) -> Iterator[OttlaBroker]:
    with OttlaBroker(settings=SETTINGS, security_protocol="SASL_PLAINTEXT") as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: OttlaBroker) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-pw",
        }
    )


@pytest.fixture(scope="module")
def registry(broker: OttlaBroker) -> Iterator[RunningRegistry]:
    with RunningRegistry(
        broker.bootstrap_servers,
        ADMIN,
        authentication=("basic",),
        uses_acls=True,
        super_users=("User:admin",),
    ) as running:
        yield running


def client(registry: RunningRegistry, user: str) -> SchemaRegistryClient:
    conf = {"url": registry.url, "basic.auth.user.info": f"{user}:{user}-pw", "max.retries": 0}
    return SchemaRegistryClient(conf)


def basic(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{user}-pw".encode()).decode()


def refused(call: Any, *arguments: Any) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*arguments)
    return caught.value.http_status_code, caught.value.error_code


def allow(admin: AdminClient, user: str, operation: AclOperation, name: str, prefixed: bool = False) -> None:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    acl = AclBinding(
        ResourceType.TOPIC, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW
    )
    for each in admin.create_acls([acl]).values():
        each.result()


def test_users_are_those_of_the_brokers(registry: RunningRegistry) -> None:
    nobody = registry.ask("GET", "/subjects")
    assert (nobody.status, nobody.body["error_code"]) == (401, 401)
    request = urllib.request.Request(registry.url + "/subjects")
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    with caught.value as answer:
        assert answer.headers["www-authenticate"].startswith("Basic ")
    wrong = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "alice:wrong"})
    assert refused(wrong.get_subjects)[0] == 401
    assert client(registry, "alice").get_subjects() == []
    assert registry.ask("GET", "/").status == 200, "probes need no user"
    assert registry.ask("GET", "/schemas/types", authorization="Basic !!").status == 401


def test_acls_on_subjects_decide(registry: RunningRegistry, admin: AdminClient) -> None:
    root, alice, bob = (client(registry, each) for each in ("admin", "alice", "bob"))
    schema_id = root.register_schema("orders-value", STRING)
    root.register_schema("secret-value", Schema('"bytes"', "AVRO"))
    assert refused(alice.register_schema, "orders-value", Schema('"int"', "AVRO")) == (403, 40301)
    assert refused(alice.get_latest_version, "orders-value") == (403, 40301)
    assert refused(alice.get_schema, schema_id) == (403, 40301)
    allow(admin, "alice", AclOperation.READ, "Subject:orders-value")
    allow(admin, "bob", AclOperation.WRITE, "Subject:orders-", prefixed=True)
    allow(admin, "bob", AclOperation.ALTER_CONFIGS, "Subject:orders-", prefixed=True)
    wait_until(lambda: alice.get_subjects() == ["orders-value"], "the ACL to count", 20)
    assert alice.get_latest_version("orders-value").schema_id == schema_id
    assert alice.get_schema(schema_id).schema_str == '"string"'
    assert refused(alice.get_latest_version, "secret-value") == (403, 40301)
    assert refused(alice.delete_subject, "orders-value") == (403, 40301)
    secret_id = root.get_latest_version("secret-value").schema_id
    by_id = registry.ask("GET", f"/schemas/ids/{secret_id}", authorization=basic("alice"))
    assert by_id.body["message"] == f"User is denied operation Read on schema {secret_id}"
    assert bob.register_schema("orders-key", STRING) == schema_id
    shown = registry.ask("GET", f"/schemas/ids/{schema_id}", authorization=basic("alice"))
    assert shown.body["subject"] == "orders-value", "not the other one, which alice may not read"
    assert refused(bob.get_config, "orders-key") == (404, 40408), "he may see that there is none"
    assert refused(bob.delete_subject, "orders-key") == (403, 40301)
    assert refused(bob.get_config, "secret-value") == (403, 40301)
    everything = registry.ask("PUT", "/config", {"compatibility": "NONE"}, authorization=basic("bob"))
    assert (everything.status, everything.body["error_code"]) == (403, 40301)


def test_a_right_to_write_is_none_to_read(registry: RunningRegistry, admin: AdminClient) -> None:
    """A registration without a text takes that of the version before, and the answer has it."""
    client(registry, "admin").register_schema("written-value", Schema('{"type": "int", "doc": "x"}', "AVRO"))
    allow(admin, "bob", AclOperation.WRITE, "Subject:written-value")
    path, bob = "/subjects/written-value/versions", {"authorization": basic("bob")}
    same = {"schema": '{"type": "int", "doc": "x"}'}
    wait_until(lambda: registry.ask("POST", path, same, **bob).status == 200, "the ACL to count", 20)
    for where, body in (
        (path, {"schema": " ", "metadata": {"properties": {"a": "b"}}}),
        (path, {**same, "propagateSchemaTags": True}),
        (f"{path}/1/tags", {"metadata": {"properties": {"a": "b"}}}),
    ):
        answer = registry.ask("POST", where, body, **bob)
        assert (answer.status, answer.body.get("error_code")) == (403, 40301), body


def test_an_alias_is_no_way_around(registry: RunningRegistry, admin: AdminClient) -> None:
    registry_admin = {"authorization": basic("admin")}
    body = {"alias": "secret-value"}
    assert registry.ask("PUT", "/config/orders-alias", body, **registry_admin).status == 200
    allow(admin, "alice", AclOperation.READ, "Subject:orders-alias")
    alice = client(registry, "alice")
    registry.do(registry.server.registry.fresh())
    assert refused(alice.get_latest_version, "orders-alias") == (403, 40301)


def test_a_reference_is_no_way_around(registry: RunningRegistry, admin: AdminClient) -> None:
    secret = {"type": "record", "name": "Hidden", "fields": [{"name": "salary", "type": "int"}]}
    root = client(registry, "admin")
    root.register_schema("hidden-value", Schema(json.dumps(secret), "AVRO"))
    root.register_schema("bobs-value", STRING)
    allow(admin, "bob", AclOperation.ALL, "Subject:bobs-value")
    bob, references = client(registry, "bob"), [SchemaReference("Hidden", "hidden-value", 1)]
    text = {"type": "record", "name": "Mine", "fields": [{"name": "it", "type": "Hidden"}]}
    mine = Schema(json.dumps(text), "AVRO", references)
    wait_until(lambda: "bobs-value" in bob.get_subjects(), "the ACL to count", 20)
    for call in (bob.register_schema, bob.lookup_schema, bob.test_compatibility):
        assert refused(call, "bobs-value", mine) == (403, 40301)


def test_every_path_has_its_rights(registry: RunningRegistry) -> None:
    found: set[tuple[str, str]] = set()

    def walk(node: Any) -> None:
        found.update((method, handler[2]) for method, handler in node.handlers.items())
        for each in [*node.fixed.values(), node.variable]:
            if each is not None:
                walk(each)

    async def no_log() -> Any:
        raise AssertionError("no key is asked for")

    walk(
        make_app(
            registry.server.registry, lambda: None, keys=StateStore(no_log), exporters=StateStore(no_log)
        ).routes._root
    )
    known = {*access.ON_SUBJECT, *access.ON_CLUSTER, *access.FILTERED, *access.FOR_ALL}
    assert {each for each in found if each[1] not in access.OPEN_PATHS or each[0] != "GET"} == known


def test_scram_users_and_tls_with_client_certificates(
    broker: OttlaBroker, admin: AdminClient, tmp_path: Path
) -> None:
    credential = UserScramCredentialUpsertion(
        "carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"carol-pw"
    )
    for each in admin.alter_user_scram_credentials([credential]).values():
        each.result()
    authority = trustme.CA()
    server, mine = authority.issue_cert("127.0.0.1"), authority.issue_cert("x", common_name="dave")
    for name, issued in (("server", server), ("me", mine)):
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = server_context(TlsFiles(str(tmp_path / "server.pem"), client_ca=str(tmp_path / "ca.pem")))
    with RunningRegistry(
        broker.bootstrap_servers,
        ADMIN,
        tls=tls,
        authentication=("basic", "certificate"),
        user_mechanism="SCRAM-SHA-256",
    ) as registry:
        assert registry.url.startswith("https://")
        carol = {"url": registry.url, "ssl.ca.location": str(tmp_path / "ca.pem")}
        by_password = SchemaRegistryClient({**carol, "basic.auth.user.info": "carol:carol-pw"})
        by_password.register_schema("carol-value", STRING)
        assert refused(SchemaRegistryClient(carol).get_subjects)[0] == 401
        me = str(tmp_path / "me.pem")
        certified = SchemaRegistryClient({**carol, "ssl.certificate.location": me, "ssl.key.location": me})
        assert "carol-value" in certified.get_subjects()
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        ours = RegistryClient(registry.url, basic_auth=("carol", "carol-pw"), ssl_context=context)
        assert ours.latest("carol-value").schema.text == '"string"'


def test_tokens_are_verified_by_the_brokers(broker: OttlaBroker, signing_key: RSAKey) -> None:
    def token(key: RSAKey, lasts_s: int = 600) -> str:
        now = int(time.time())
        claims = {"sub": "erin", "login": "erin2", "iat": now - 60, "exp": now + lasts_s}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, key)

    def users(registry: RunningRegistry, given: str) -> SchemaRegistryClient:
        conf = {
            "url": registry.url,
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": given,
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
        return SchemaRegistryClient(conf)

    with RunningRegistry(broker.bootstrap_servers, ADMIN, authentication=("bearer",)) as registry:
        assert users(registry, token(signing_key)).get_subjects() is not None
        stranger = RSAKey.generate_key(2048)
        assert refused(users(registry, token(stranger)).get_subjects)[0] == 401
        assert refused(users(registry, token(signing_key, -120)).get_subjects)[0] == 401
        assert refused(users(registry, "no.real.token").get_subjects)[0] == 401
        assert registry.ask("GET", "/subjects", authorization=basic("admin")).status == 401
    owned: dict[str, Any] = {"uses_acls": True, "super_users": ("User:erin2",), "user_claim": "login"}
    with RunningRegistry(broker.bootstrap_servers, ADMIN, authentication=("bearer",), **owned) as registry:
        bearer = f"Bearer {token(signing_key)}"
        assert registry.ask("GET", "/config", authorization=bearer).status == 200


def test_the_command_line_logs_in_with_options_a_variable_or_the_url(
    registry: RunningRegistry, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(*words: str, url: str = registry.url) -> tuple[int, str]:
        code = run(["registry", "subject", "list", "--url", url, *words])
        return code, capsys.readouterr().err

    code, error = typed()
    assert code == 1
    assert "refused the login" in error
    assert "--user NAME" in error
    assert typed("--user", "admin:wrong")[0] == 1
    assert typed("--user", "admin:admin-pw")[0] == 0
    assert typed(url=registry.url.replace("http://", "http://admin:admin-pw@"))[0] == 0
    monkeypatch.setenv("OTTLA_REGISTRY_USER", "admin:admin-pw")
    assert typed()[0] == 0


def test_the_command_line_trusts_the_authority_that_is_named(
    broker: OttlaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    tls = server_context(TlsFiles(str(tmp_path / "server.pem")))
    with RunningRegistry(broker.bootstrap_servers, ADMIN, tls=tls) as secured:
        words = ["registry", "subject", "list", "--url", secured.url]
        assert run(words) == 1
        assert "name who signs its certificate:  --cacert FILE" in capsys.readouterr().err
        assert run([*words, "--cacert", str(tmp_path / "ca.pem")]) == 0
