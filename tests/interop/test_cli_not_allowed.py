"""What `ottla` says to a user who may not: against Apache Kafka with ACLs."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.fetch_jars import KAFKA_JARS

from ottla.client.admin.groups import Groups
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.listeners import Address
from ottla.testing.broker_process import free_port

WITHIN_S = 60
CODE = "OTTLA-E107"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Users:
    """Runs `ottla` as one user or another."""

    def __init__(self, kafka: ApacheKafka, home: Path) -> None:
        self.kafka = kafka
        self.home = home

    def anybody(self, *words: str, text: str = "") -> str:
        """As the super-user, who does not log in."""
        done = self._run(self.kafka.address, words, text)
        assert done.returncode == 0, f"ottla {' '.join(words)}\n{done.stderr}"
        return done.stdout

    def run(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """As somebody who logs in."""
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": "s3cret",
        }
        return self._run(self.kafka.listeners["LOGIN"], words, "one\n", login)

    def _run(
        self, address: str, words: tuple[str, ...], text: str, login: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        options = [word for key, value in (login or {}).items() for word in ("-X", f"{key}={value}")]
        environment = {"OTTLA_BOOTSTRAP": address, "HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-m", "ottla.cli", *words, *options]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=WITHIN_S, env=environment,
            check=False,
        )  # fmt: skip


async def commit(address: str) -> None:
    """Let the group billing have read one record of orders."""
    host, _, port = address.rpartition(":")
    async with Cluster([Address(host, int(port))]) as cluster:
        await Groups(cluster).commit("billing", {TopicPartition("orders", 0): 1})


def allow(address: str, user: str, operation: AclOperation, topic: str) -> None:
    """Give a right on a topic."""
    binding = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_acls([binding]).values():
        done.result(WITHIN_S)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    if shutil.which("java") is None or not KAFKA_JARS.is_dir():
        pytest.skip("java or Kafka's jars are missing; fetch them with: make interop")
    logins = " ".join(f'user_{name}="s3cret"' for name in ("bob", "eve"))
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {logins};",
    }
    folder = tmp_path_factory.mktemp("kafka")
    listeners = {"LOGIN": f"127.0.0.1:{free_port()}"}
    with ApacheKafka(folder, listeners=listeners, properties=properties) as kafka:
        made = Users(kafka, folder)
        made.anybody("topic", "create", "orders", "--partitions", "2")
        made.anybody("produce", "orders", text="one\ntwo\n")
        asyncio.run(commit(kafka.address))
        allow(kafka.address, "eve", AclOperation.DESCRIBE, "orders")
        yield made


@pytest.mark.parametrize(
    ("command", "about", "right"),
    [
        ("topic describe orders", "the topic orders", "--operation describe --topic orders"),
        ("topic create mine", "the topic mine", "--operation create --topic mine"),
        (
            "topic alter orders --set retention.ms=1000",
            "the topic orders",
            "--operation alter_configs --topic orders",
        ),
        ("topic delete orders -y", "the topic orders", "--operation delete --topic orders"),
        ("produce orders", "the topic orders", "--operation write --topic orders"),
        ("consume orders --from-beginning -e", "the topic orders", "--operation read --topic orders"),
        ("group describe billing", "the group billing", "--operation describe --group billing"),
        (
            "group seek billing --topic orders --to-earliest -y",
            "the group billing",
            "--operation read --group billing",
        ),
        ("group delete billing -y", "the group billing", "--operation delete --group billing"),
        ("config describe --broker 1", "the cluster", "--operation describe_configs --cluster"),
        ("cluster describe", "the cluster", "--operation describe --cluster"),
        (
            "txn describe payments",
            "the transactional id payments",
            "--operation describe --transactional-id payments",
        ),
    ],
)
def test_an_error_says_who_may_not_do_what_and_what_to_type(
    users: Users, command: str, about: str, right: str
) -> None:
    done = users.run("bob", *command.split())
    said = done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert said.startswith(
        f"error: bob is not authorized for {about}: the ACLs of the cluster do not allow it"
    )
    assert right in said
    assert "ottla acl create --principal bob " in said
    assert f"ottla explain {CODE}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["produce orders", "consume orders --from-beginning -e"])
def test_who_may_see_a_topic_need_not_be_allowed_to_use_it(users: Users, command: str) -> None:
    assert "orders" in users.run("eve", "topic", "list").stdout
    done = users.run("eve", *command.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: eve is not authorized for the topic orders: " in done.stderr
    assert CODE in done.stderr


def test_lists_do_not_claim_that_there_is_nothing(users: Users) -> None:
    for command in (["topic", "list"], ["group", "list"], ["txn", "list"]):
        done = users.run("bob", *command)
        assert done.returncode == 0
        assert "that bob may see" in done.stdout + done.stderr
