"""`ottla security init`, then `ottla serve` with it, then every face of security, as a newcomer uses them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from tests.integration.test_cli_face import Cli

from ottla.cli.main import run
from ottla.testing.broker_process import free_port

WITHIN_S = 60


class InProcess(Cli):
    """Runs `ottla` in this process: quicker. It returns standard output, or standard error if it fails."""

    err = ""

    def __call__(self, *words: str, text: str = "", code: int = 0, **more: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        environment = {**self.environment, **more}
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "stdin", io.StringIO(text)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            found = run(words)
        self.err = err.getvalue()
        assert found == code, f"ottla {' '.join(words)}\n{out.getvalue()}\n{self.err}"
        return out.getvalue() if code == 0 else self.err


class Secured:
    """A folder of `ottla security init`, its broker, and the command line with its profile."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.folder = home / "sec"
        self.port = free_port()
        self.cli = InProcess(f"127.0.0.1:{self.port}", home)
        del self.cli.environment["OTTLA_BOOTSTRAP"]
        self.cli.environment["XDG_CONFIG_HOME"] = str(home / "config")
        self.said = json.loads(
            self.cli(
                "security", "init", str(self.folder), "--port", str(self.port), "--format", "json", *options
            )
        )
        self.process: subprocess.Popen[str] | None = None

    def serve(self, *more: str) -> None:
        file = str(self.folder / "server.properties")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ottla.cli", "serve", "--config", file, "--ephemeral"),
                *("--metrics", "off", *more),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=self.cli.environment,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready ")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(WITHIN_S)
            assert self.process.stdout is not None
            self.process.stdout.close()

    @property
    def profile(self) -> dict[str, str]:
        with (self.home / "config" / "ottla" / "profiles.toml").open("rb") as file:
            nested: dict[str, Any] = tomllib.load(file)["secure"]

        def flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
            for key, value in table.items():
                if isinstance(value, dict):
                    yield from flat(value, f"{prefix}{key}.")
                else:
                    yield prefix + key, value

        return dict(flat(nested))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    made.serve()
    yield made
    made.stop()


def test_secrets_are_readable_by_their_owner_only(secured: Secured) -> None:
    private = {"ca.key", "broker.pem", "client.pem", "server.properties", "client.properties"}
    for name in private:
        assert stat.S_IMODE((secured.folder / name).stat().st_mode) == 0o600, name
    profiles = secured.home / "config" / "ottla" / "profiles.toml"
    assert stat.S_IMODE(profiles.stat().st_mode) == 0o600
    assert (secured.folder / "ca.pem").read_bytes().count(b"BEGIN CERTIFICATE") == 1


def test_a_secret_that_is_set_is_not_repeated(secured: Secured) -> None:
    for key in ("ssl.key.password", "listener.name.sasl_ssl.plain.sasl.jaas.config"):
        value = 'org.X required username="u" password="hide-me";'
        options = ("--broker", "1", "--set", f"{key}={value}", "--dry-run", "--format", "json")
        assert json.loads(secured.cli("config", "alter", *options))["set"] == {key: "(secret)"}


def test_the_new_profile_is_the_default_and_works_at_once(secured: Secured) -> None:
    secured.cli("topic", "create", "greetings")
    as_program = Cli("", secured.home)
    as_program.environment = secured.cli.environment
    as_program("produce", "greetings", text="hello\n")
    assert "hello" in as_program("consume", "greetings", "--from-beginning", "-n", "1")


def test_unmodified_clients_use_the_options_of_the_profile(secured: Secured) -> None:
    options = secured.profile
    secured.cli("topic", "create", "shared")
    producer = Producer({**options, "client.id": "confluent"})
    producer.produce("shared", b"from confluent-kafka")
    assert producer.flush(30) == 0
    consumer = kafka.KafkaConsumer(
        "shared",
        bootstrap_servers=options["bootstrap.servers"],
        security_protocol=options["security.protocol"],
        sasl_mechanism=options["sasl.mechanism"],
        sasl_plain_username=options["sasl.username"],
        sasl_plain_password=options["sasl.password"],
        ssl_cafile=options["ssl.ca.location"],
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    assert next(consumer).value == b"from confluent-kafka"
    consumer.close()

    async def with_aiokafka() -> bytes:
        async with aiokafka.AIOKafkaConsumer(
            "shared",
            bootstrap_servers=options["bootstrap.servers"],
            security_protocol=options["security.protocol"],
            sasl_mechanism=options["sasl.mechanism"],
            sasl_plain_username=options["sasl.username"],
            sasl_plain_password=options["sasl.password"],
            ssl_context=ssl.create_default_context(cafile=options["ssl.ca.location"]),
            auto_offset_reset="earliest",
        ) as reader:
            return bytes((await asyncio.wait_for(reader.getone(), 30)).value)

    assert asyncio.run(with_aiokafka()) == b"from confluent-kafka"


def test_users_are_created_listed_changed_and_deleted(secured: Secured) -> None:
    cli = secured.cli
    cli("user", "create", "alice", text="first\n")
    assert "the user alice exists" in cli("user", "create", "alice", "--password", "x", code=1)
    listed = json.loads(cli("user", "list", "--format", "json"))
    assert [each["name"] for each in listed] == ["admin", "alice", "broker"]
    as_alice = ("-X", "sasl.username=alice")
    cli("topic", "list", *as_alice, "-X", "sasl.password=first")
    cli("user", "set-password", "alice", "--password", "second")
    assert "OTTLA-E" in cli("topic", "list", *as_alice, "-X", "sasl.password=first", code=1)
    cli("topic", "list", *as_alice, "-X", "sasl.password=second")
    cli("user", "delete", "alice")
    assert "there is no user 'alice'" in cli("user", "delete", "alice", code=1)
    assert "OTTLA-E" in cli("topic", "list", *as_alice, "-X", "sasl.password=second", code=1)


def test_acls_decide_and_are_explained(secured: Secured) -> None:
    cli = secured.cli
    cli("topic", "create", "orders")
    cli("user", "create", "bob", "--password", "secret")
    options = {**secured.profile, "sasl.username": "bob", "sasl.password": "secret"}
    question = ("acl", "test", "-p", "bob", "-o", "write", "--topic", "orders")
    denied = cli(*question, code=1)
    assert "denied: User:bob write topic orders: no ACL matches the resource" in denied
    refused: list[KafkaError] = []
    producer = Producer(options)
    producer.produce("orders", b"x", callback=lambda error, _: refused.append(error))
    producer.flush(30)
    assert [each.code() for each in refused] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    cli("acl", "create", "-p", "bob", "--producer", "--topic", "ord", "--prefixed")
    cli(*question)
    (told,) = json.loads(cli(*question, "--format", "json"))
    assert told["allowed"]
    assert told["acl"]["resource_name"] == "ord"
    accepted: list[Any] = []
    producer = Producer(options)
    producer.produce("orders", b"x", callback=lambda error, _: accepted.append(error))
    assert producer.flush(30) == 0
    assert accepted == [None]
    consumer = Consumer({**options, "group.id": "bobs", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    with pytest.raises(KafkaException, match=r"GROUP_AUTHORIZATION_FAILED|TOPIC_AUTHORIZATION_FAILED"):
        for _ in range(100):
            if (message := consumer.poll(1)) is not None and message.error():
                raise KafkaException(message.error())
    consumer.close()
    cli("acl", "create", "-p", "bob", "-o", "write", "--topic", "orders", "--deny")
    assert "a denial is stronger" in cli(*question, code=1)
    assert len(json.loads(cli("acl", "list", "--topic", "orders", "--format", "json"))) == 4
    cli("acl", "delete", "-p", "bob", "--yes")
    assert "4 ACLs deleted" in cli.err
    assert json.loads(cli("acl", "list", "--format", "json")) == []
    cli("acl", "test", "-p", "admin", "-o", "write", "--topic", "x")
    assert "allowed: User:admin write topic x: User:admin is a super user" in cli.err


def test_tokens_stand_for_their_user(secured: Secured) -> None:
    cli = secured.cli
    made = json.loads(cli("token", "create", "--max-lifetime", "2h", "--format", "json"))
    login = ("-X", f"sasl.username={made['token_id']}", "-X", f"sasl.password={made['password']}")
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made["token_id"]}" password="{made["password"]}" tokenauth="true";'
    )
    cli("topic", "list", *login, "-X", f"sasl.jaas.config={jaas}")
    listed = json.loads(cli("token", "list", "--format", "json"))
    assert [(each["token_id"], each["owner"]) for each in listed] == [(made["token_id"], "User:admin")]
    assert "password" not in listed[0]
    renewed = json.loads(cli("token", "renew", made["token_id"], "--for", "1h", "--format", "json"))
    assert renewed["expires_at_ms"] <= made["max_expires_at_ms"]
    options = secured.folder / "token.properties"
    printed = cli("token", "create")
    options.write_text(printed.splitlines()[-1])  # beside the profile, which has the administrator's login
    cli("topic", "list", "--command-config", str(options))
    refused = cli("token", "create", "--command-config", str(options), code=1)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused
    second = printed.partition("\n")[0].removeprefix("sasl.username=")
    for token_id in (made["token_id"], second):
        cli("token", "expire", token_id)
    assert json.loads(cli("token", "list", "--format", "json")) == []
    assert "there is no token" in cli("token", "renew", made["token_id"], code=1)


def test_a_second_set_up_replaces_nothing_by_itself(secured: Secured) -> None:
    assert "exists" in secured.cli("security", "init", str(secured.folder), code=1)
    refused = secured.cli("security", "init", str(secured.folder), "--force", code=1)
    assert "has a profile 'secure' already" in refused


def test_a_profile_with_passwords_that_others_can_read_is_refused(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text('[open]\nsasl.password = "secret"\n')
    file.chmod(0o644)
    refused = secured.cli("topic", "list", "--profile", "open", code=1, OTTLA_PROFILES=str(file))
    assert "others can read it" in refused
    assert f"chmod 600 {file}" in refused
    file.write_text('[open]\nbootstrap.servers = "127.0.0.1:1"\n')
    assert "OTTLA-E101" in secured.cli("topic", "list", "--profile", "open", code=1, OTTLA_PROFILES=str(file))


def test_with_mtls_a_password_alone_is_not_enough(tmp_path: Path) -> None:
    secured = Secured(tmp_path, "--mtls")
    secured.serve()
    try:
        secured.cli("topic", "create", "orders")
        without = {key: value for key, value in secured.profile.items() if not key.startswith("ssl.cert")}
        del without["ssl.key.location"]
        producer = Producer({**secured.profile})
        producer.produce("orders", b"x")
        assert producer.flush(30) == 0
        errors: list[KafkaError] = []
        stranger = Producer({**without, "error_cb": errors.append, "message.timeout.ms": 3000})
        stranger.produce("orders", b"x")
        while not errors:
            stranger.poll(0.1)
        assert any(each.code() in (KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
                   for each in errors)  # fmt: skip
    finally:
        secured.stop()


def test_doctor_finds_nothing_wrong_with_the_set_up(secured: Secured, tmp_path: Path) -> None:
    file = str(secured.folder / "server.properties")
    found = json.loads(secured.cli("doctor", "--config", file, "--data", str(tmp_path), "--format", "json"))
    states = {each["check"]: each["state"] for each in found}
    expected = dict.fromkeys(("TLS", "SASL", "advertised", "security", "certificate", "secrets"), "ok")
    assert {check: states[check] for check in expected} == expected


@pytest.mark.slow
def test_three_brokers_serve_with_the_same_file(tmp_path: Path) -> None:
    """`ottla serve -n 3 --config FILE`: processes that authenticate to each other, and replicate."""
    made = Secured(tmp_path)
    try:
        made.serve("-n", "3")
        made.cli("topic", "create", "replicated", "--partitions", "3", "--replication-factor", "3")
        producer = Producer({**made.profile, "acks": "all"})
        for partition in range(3):
            producer.produce("replicated", b"of all", partition=partition)
        assert producer.flush(60) == 0
        brokers = producer.list_topics(timeout=30).brokers
        assert {each.port for each in brokers.values()} == {made.port, made.port + 1, made.port + 2}
        consumer = Consumer({**made.profile, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["replicated"])
        read = [each.value() for each in consumer.consume(3, 60)]
        consumer.close()
        assert read == [b"of all"] * 3
        described = json.loads(made.cli("topic", "describe", "replicated", "--format", "json"))
        assert "replicated" in json.dumps(described)
        anonymous = Producer({"bootstrap.servers": f"127.0.0.1:{made.port}", "log_level": 0})
        with pytest.raises(KafkaException):
            anonymous.list_topics(timeout=3)
    finally:
        made.stop()
