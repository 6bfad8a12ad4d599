"""Connect workers on a secured broker: users, rights, TLS, certificates, and requests between workers."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from tests.integration.connect_stage import Answer, IdleEngine, RunningWorker, call
from tests.waiting import wait_until

from ottla.cli.connect.command import connect
from ottla.client import Admin
from ottla.client.admin.acls import Acl
from ottla.connect.rest import access
from ottla.connect.rest.app import make_app
from ottla.http.security import HttpSecurity, TlsFiles, client_context, server_context
from ottla.security.certificate_name import distinguished_name
from ottla.testing.local_broker import OttlaBroker

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
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
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
ADMIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} username="admin" password="admin-pw";',
}
DATAGEN = {"connector.class": "DatagenSource", "topic": "made"}


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker(settings=SETTINGS, security_protocol="SASL_PLAINTEXT") as running:
        yield running


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)


def names(group: str) -> dict[str, str]:
    topics = {f"{each}.storage.topic": f"{group}-{each}" for each in ("config", "offset", "status")}
    return {"group.id": group, **topics}


def basic(user: str, password: str | None = None) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password or user + '-pw'}".encode()).decode()


def test_users_and_rights_are_those_of_the_broker(broker: OttlaBroker, idle: None, tmp_path: Path) -> None:
    security = HttpSecurity(authentication=("basic",), uses_acls=True, super_users=("User:admin",))
    with (
        Admin(broker.bootstrap_servers, **ADMIN) as admin,
        RunningWorker(
            broker.bootstrap_servers, tmp_path, client=ADMIN, security=security, **names("users")
        ) as worker,
    ):

        def ask(user: str, method: str, path: str, body: Any = None) -> Answer:
            return call(worker.url, method, path, body, authorization=basic(user))

        for path in ("/", "/health", "/healthz"):
            assert call(worker.url, "GET", path).status == 200, "probes need no user"
        assert call(worker.url, "GET", "/connectors").status == 401
        assert call(worker.url, "GET", "/connectors", authorization=basic("bob", "no")).status == 401
        body = {"name": "orders", "config": DATAGEN}
        denied = ask("alice", "POST", "/connectors", body)
        assert denied == (
            403,
            {"error_code": 403, "message": "User is denied operation Create on Connector: orders"},
        )
        allowed = [
            Acl("User:alice", "create", "topic", "Connector:orders"),
            Acl("User:alice", "alter", "topic", "Connector:orders"),
            Acl("User:alice", "alter", "topic", "Connector:new"),
            Acl("User:bob", "write", "topic", "Connector:ord", "prefixed"),
        ]
        assert admin.create_acls(allowed) == [None] * 4
        wait_until(lambda: ask("alice", "POST", "/connectors", body).status == 201, "the ACLs to be read")
        assert ask("admin", "PUT", "/connectors/other/config", {**DATAGEN, "topic": "x"}).status == 201
        for user, found in (("alice", ["orders"]), ("bob", ["orders"]), ("admin", ["orders", "other"])):
            assert ask(user, "GET", "/connectors").body == found
            assert sorted(ask(user, "GET", "/connectors?expand=info").body) == found
        config = {**DATAGEN, "name": "orders"}
        for user, method, path, given, status in (
            ("alice", "GET", "/connectors/orders/status", None, 200),
            ("alice", "PUT", "/connectors/orders/config", {**config, "rate": "3"}, 200),
            ("alice", "PUT", "/connectors/orders/pause", None, 403),
            ("alice", "DELETE", "/connectors/orders", None, 403),
            ("alice", "GET", "/connectors/other", None, 403),
            ("alice", "PUT", "/connector-plugins/DatagenSource/config/validate", config, 200),
            ("bob", "PUT", "/connector-plugins/DatagenSource/config/validate", config, 403),
            ("bob", "GET", "/connector-plugins", None, 200),
            ("bob", "GET", "/connectors/orders/config", None, 200),
            ("bob", "PUT", "/connectors/orders/pause", None, 202),
            ("bob", "PUT", "/connectors/orders/resume", None, 202),
            ("bob", "PATCH", "/connectors/orders/config", {"rate": "4"}, 403),
            ("alice", "PATCH", "/connectors/orders/config", {"name": "other"}, 400),
            ("alice", "PUT", "/connectors/new/config", DATAGEN, 403),
            ("bob", "GET", "/admin/loggers", None, 403),
            ("bob", "GET", "/metrics", None, 403),
            ("admin", "GET", "/admin/loggers", None, 200),
        ):
            assert ask(user, method, path, given).status == status, (user, method, path)

        def run(*arguments: str) -> Any:
            options = ["list", "--format", "json", "--url", worker.url, *arguments]
            return CliRunner().invoke(connect, options, standalone_mode=False)

        assert '"orders"' in run("--user", "bob:bob-pw").output
        assert "refused the login" in str(run().exception)
        assert "refused the login" in str(run("--token", "no.valid.token").exception)


def test_every_call_has_a_rule() -> None:
    found: set[tuple[str, str]] = set()

    def walk(node: Any) -> None:
        found.update((method, handler[2]) for method, handler in node.handlers.items())
        for each in [*node.fixed.values(), node.variable]:
            if each is not None:
                walk(each)

    requests: Any = Nothing()
    walk(make_app(requests).routes._root)
    rules = {*access.ON_CONNECTOR, *access.ON_CLUSTER, *access.BY_HANDLER, *access.FOR_ALL}
    assert {each for each in found if each[1] not in access.OPEN_PATHS} == rules


class Nothing:
    """Any object."""

    def __getattr__(self, _: str) -> Nothing:
        return self


def test_certificates_and_requests_between_workers(broker: OttlaBroker, idle: None, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    def files(name: str, *identities: str) -> TlsFiles:
        made = authority.issue_cert(*identities, common_name=name)
        made.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
        return TlsFiles(
            str(tmp_path / f"{name}.pem"),
            client_ca=str(tmp_path / "ca.pem"),
            requires_client_certificate=True,
        )

    server = files("worker", "127.0.0.1")
    ca = str(tmp_path / "ca.pem")
    ann, eve = client_context(ca, files("ann", "ann")), client_context(ca, files("eve", "eve"))
    shown = _principal(tmp_path / "worker.pem")
    security = HttpSecurity(
        tls=server_context(server),
        peer_tls=client_context(ca, server),
        authentication=("certificate",),
        uses_acls=True,
        super_users=(shown,),
    )
    with Admin(broker.bootstrap_servers, **ADMIN) as admin:
        user = _principal(tmp_path / "ann.pem")
        assert admin.create_acls([Acl(user, "all", "topic", "Connector:", "prefixed")]) == [None]
    options: Any = {"client": ADMIN, "security": security, **names("certified")}
    with (
        RunningWorker(broker.bootstrap_servers, tmp_path / "s", **options) as first,
        RunningWorker(broker.bootstrap_servers, tmp_path / "s", **options) as second,
    ):
        assert first.url.startswith("https://")
        for number, worker in enumerate((first, second)):  # one of them does not lead, and asks the other
            path, config = f"/connectors/c{number}/config", {**DATAGEN, "topic": f"t{number}"}
            assert call(worker.url, "PUT", path, config, tls=eve).status == 403
            assert call(worker.url, "PUT", path, config, tls=ann).status == 201
        with pytest.raises((OSError, ssl.SSLError)):
            call(first.url, "GET", "/connectors", tls=client_context(ca))


def _principal(file: Path) -> str:
    """Return the principal of a certificate, as brokers and workers name it."""
    certificate = re.search("-----BEGIN CERT.*?-----END CERTIFICATE-----", file.read_text(), re.DOTALL)
    assert certificate is not None
    return "User:" + distinguished_name(ssl.PEM_cert_to_DER_cert(certificate[0]))


def test_the_clients_of_connectors_have_options_of_their_own(
    broker: OttlaBroker, idle: None, tmp_path: Path
) -> None:
    own = f'{PLAIN} username="alice" password="alice-pw";'
    settings = {"producer.sasl.jaas.config": own, "consumer.max.poll.records": "7", "admin.client.id": "a"}
    with RunningWorker(
        broker.bootstrap_servers, tmp_path, client=ADMIN, **names("own"), **settings
    ) as worker:
        worker("PUT", "/connectors/made/config", DATAGEN)
        worker.wait_for("made", "RUNNING", "RUNNING")
        client = worker.engine.specs["made-0"].client
        assert client["kafka.sasl.jaas.config"] == own
        assert client["kafka.security.protocol"] == "SASL_PLAINTEXT"
        sink = {"connector.class": "FileSink", "topics": "made", "path": str(tmp_path / "out")}
        worker("PUT", "/connectors/down/config", sink)
        worker.wait_for("down", "RUNNING", "RUNNING")
        spec = worker.engine.specs["down-0"]
        assert spec.client["kafka.max.poll.records"] == "7"
        assert "alice" in spec.producer["kafka.sasl.jaas.config"]
        assert "admin" in spec.client["kafka.sasl.jaas.config"]
