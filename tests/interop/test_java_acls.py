"""Kafka's own tools for ACLs and delegation tokens, and a Java client that logs in with a token."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.acl_cluster import acl_cluster, ottla_admin, password
from tests.integration.memory_cluster import MemoryCluster
from tests.interop.conftest import Tool

from ottla.client.admin import Acl

TOOLS = "org.apache.kafka.tools"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryCluster]:
    with acl_cluster(tmp_path_factory.mktemp("java-acls")) as made:
        yield made


@pytest.fixture
def run(java: Tool, cluster: MemoryCluster, tmp_path: Path) -> Run:
    """Run a tool against the second broker, as a user."""

    def run_as(
        user: str, tool: str, *arguments: str, option: str = "--command-config", **more: object
    ) -> object:
        return java(
            f"{TOOLS}.{tool}",
            *("--bootstrap-server", cluster.address(2), option, login(tmp_path, user)),
            *arguments,
            **more,
        )

    return run_as  # type: ignore[return-value]


def login(folder: Path, user: str, token: tuple[str, str] | None = None) -> str:
    name, secret = token or (user, password(user))
    module = SCRAM if token else PLAIN
    more = " tokenauth=true" if token else ""
    file = folder / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={'SCRAM-SHA-256' if token else 'PLAIN'}\n"
        f'sasl.jaas.config={module} required username="{name}" password="{secret}"{more};\n'
    )
    return str(file)


def test_kafka_acls_adds_lists_and_removes(run: Run) -> None:
    of_alice = ("--allow-principal", "User:alice")
    run(
        "admin",
        "AclCommand",
        "--add",
        *of_alice,
        "--producer",
        "--topic",
        "orders",
        "--transactional-id",
        "t",
    )
    run(
        "admin", "AclCommand", "--add", *of_alice, "--consumer", "--topic", "orders-",
        "--resource-pattern-type", "prefixed", "--group", "billing-",
    )  # fmt: skip
    run(
        "admin", "AclCommand", "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.9",
        "--operation", "All", "--topic", "*",
    )  # fmt: skip
    run("admin", "AclCommand", "--add", *of_alice, "--operation", "IdempotentWrite", "--cluster")
    listed = run("admin", "AclCommand", "--list").stdout
    for expected in (
        "resourceType=TOPIC, name=orders, patternType=LITERAL",
        "resourceType=TOPIC, name=orders-, patternType=PREFIXED",
        "resourceType=GROUP, name=billing-, patternType=PREFIXED",
        "resourceType=TRANSACTIONAL_ID, name=t, patternType=LITERAL",
        "resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL",
        "principal=User:bob, host=10.0.0.9, operation=ALL, permissionType=DENY",
        "principal=User:alice, host=*, operation=IDEMPOTENT_WRITE, permissionType=ALLOW",
    ):
        assert expected in listed
    matching = run("admin", "AclCommand", "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
    assert "name=orders-," in matching.stdout
    assert "name=orders," not in matching.stdout
    run("admin", "AclCommand", "--remove", "--force", "--topic", "*", "--resource-pattern-type", "any")
    assert "User:bob" not in run("admin", "AclCommand", "--list").stdout
    refused = run("alice", "AclCommand", "--list", must_succeed=False)
    assert "ClusterAuthorizationException" in refused.stdout + refused.stderr


def test_a_worker_logs_in_with_a_token_that_kafka_delegation_tokens_made(
    run: Run, java: Tool, cluster: MemoryCluster, tmp_path: Path
) -> None:
    forever = ("--max-life-time-period", "-1")
    made = run("alice", "DelegationTokenCommand", "--create", *forever, "--renewer-principal", "User:bob")
    (token_id, hmac) = _token_of(made.stdout)
    renewed = run("bob", "DelegationTokenCommand", "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in renewed.stdout
    described = run("alice", "DelegationTokenCommand", "--describe", "--owner-principal", "User:alice")
    assert token_id in described.stdout
    with ottla_admin(cluster.address(1), "admin") as admin:
        admin.create_topic("tokens", partitions=1)
        admin.create_acls([Acl("User:alice", "write", "topic", "tokens")])
    config = login(tmp_path, "worker", (token_id, hmac))
    produced = java(
        f"{TOOLS}.ConsoleProducer",
        *("--bootstrap-server", cluster.address(1), "--command-config", config, "--topic", "tokens"),
        text="by a worker\n",
    )
    assert "ERROR" not in produced.stderr
    with ottla_admin(cluster.address(1), "admin") as admin:
        (info,) = admin.describe_topics(["tokens"]).values()
        assert admin.offset_ranges(info) == {0: (0, 1)}
    nested = java(
        f"{TOOLS}.DelegationTokenCommand",
        *("--bootstrap-server", cluster.address(1), "--command-config", config, "--create", *forever),
        must_succeed=False,
    )
    assert (
        "DelegationTokenDisabled" in nested.stderr or "not allowed" in (nested.stdout + nested.stderr).lower()
    )
    run("alice", "DelegationTokenCommand", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    late = java(
        f"{TOOLS}.TopicCommand",
        *("--bootstrap-server", cluster.address(1), "--command-config", config, "--list"),
        must_succeed=False,
    )
    assert "SaslAuthenticationException" in late.stdout + late.stderr


def _token_of(printed: str) -> tuple[str, str]:
    row = next(line for line in printed.splitlines() if "User:alice" in line)
    token_id, hmac = re.split(r"\s+", row.strip())[:2]
    return token_id, hmac
