"""Real clients with user names: what ACLs let them do, on two brokers, through either of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import ClusterAuthorizationFailedError
from tests.integration.acl_cluster import (
    LIBRARIES,
    Row,
    acl_cluster,
    confluent_config,
    kafka_python_config,
    ottla_admin,
)
from tests.integration.clients import wait_until
from tests.integration.memory_cluster import MemoryCluster
from tests.integration.scraping import scrape

from ottla.client.admin import Acl
from ottla.protocol.errors import ClusterAuthorizationFailed, InvalidRequest, TopicAuthorizationFailed

Open = Callable[[str], Any]
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryCluster]:
    with acl_cluster(tmp_path_factory.mktemp("acls")) as made:
        yield made


@pytest.fixture(params=LIBRARIES)
def acls(request: pytest.FixtureRequest, cluster: MemoryCluster) -> Iterator[Open]:
    """Return a function that opens an admin client of the library for a user, on the second broker."""
    opened = []

    def open_for(user: str) -> Any:
        opened.append(LIBRARIES[request.param](cluster.address(2), user))
        return opened[-1]

    yield open_for
    for each in opened:
        each.close()


def test_acls_are_created_listed_and_deleted(acls: Open) -> None:
    admin = acls("admin")
    rows: list[Row] = [
        ("User:carol", "READ", "TOPIC", "orders", "LITERAL", "ALLOW"),
        ("User:carol", "ALL", "GROUP", "billing-", "PREFIXED", "ALLOW"),
        ("User:carol", "WRITE", "TOPIC", "*", "LITERAL", "DENY"),
    ]
    for row in (*rows, rows[0]):
        admin.create(row)
    assert sorted(admin.list("User:carol")) == sorted(rows)
    assert admin.list("User:nobody") == []
    assert sorted(admin.delete("User:carol")) == sorted(rows)
    assert admin.list("User:carol") == []


def test_acls_are_for_administrators(acls: Open) -> None:
    alice = acls("alice")
    with pytest.raises(Exception, match=r"(?i)cluster.?authorization|not allowed|31"):
        alice.create(("User:alice", "ALL", "TOPIC", "*", "LITERAL", "ALLOW"))
    admin = acls("admin")
    assert admin.list("User:alice") == []
    admin.create(("User:dave", "READ", "TOPIC", "orders", "LITERAL", "ALLOW"))
    seen: list[Row] = []
    with suppress(ClusterAuthorizationFailed, ClusterAuthorizationFailedError):
        seen = alice.list("User:dave")  # librdkafka leaves out the error of DescribeAcls
    assert seen == []
    assert len(admin.delete("User:dave")) == 1


@pytest.fixture
def allow(cluster: MemoryCluster) -> Iterator[Callable[..., None]]:
    """Return a function that creates ACLs on both brokers; they are deleted afterwards."""
    principals = set()
    with ottla_admin(cluster.address(1), "admin") as admin, ottla_admin(cluster.address(2), "admin") as other:

        def create(*acls: Acl) -> None:
            principals.update(each.principal for each in acls)
            assert admin.create_acls(acls) == [None] * len(acls)
            wait_until(lambda: set(acls) <= set(other.describe_acls()), "the ACLs on the second broker")

        yield create
        for principal in principals:
            admin.delete_acls(principal=principal)


@pytest.fixture
def topic(cluster: MemoryCluster) -> Iterator[str]:
    with ottla_admin(cluster.address(1), "admin") as admin:
        admin.create_topic("orders", partitions=1)
        second = cluster.brokers[2].cluster
        wait_until(lambda: "orders" in second.image.topics, "the topic on the second broker")
        yield "orders"
        admin.delete_topic("orders")


def produce(cluster: MemoryCluster, user: str, topic: str) -> KafkaError | None:
    outcomes: list[KafkaError | None] = []
    producer = Producer(confluent_config(cluster.address(1), user, **{"message.timeout.ms": 8_000}))
    producer.produce(topic, b"value", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(TIMEOUT_S)
    return outcomes[0]


def test_a_producer_needs_write(cluster: MemoryCluster, topic: str, allow: Callable[..., None]) -> None:
    refused = produce(cluster, "alice", topic)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(Acl("User:alice", "write", "topic", topic))
    assert produce(cluster, "alice", topic) is None
    allow(Acl("User:alice", "write", "topic", "or", "prefixed", permission="deny"))
    refused = produce(cluster, "alice", topic)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_consumer_needs_the_topic_and_the_group(
    cluster: MemoryCluster, topic: str, allow: Callable[..., None]
) -> None:
    assert produce(cluster, "admin", topic) is None
    config = confluent_config(
        cluster.address(2), "bob", **{"group.id": "bobs", "auto.offset.reset": "earliest"}
    )

    def first() -> Any:
        consumer = Consumer(config)
        try:
            consumer.subscribe([topic])
            return next(found for found in iter(lambda: consumer.poll(TIMEOUT_S), 1) if found is not None)
        finally:
            consumer.close()

    allow(Acl("User:bob", "read", "topic", topic))
    assert first().error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(Acl("User:bob", "read", "group", "bob", "prefixed"))
    assert first().value() == b"value"


def test_a_reader_of_one_partition_needs_read(
    cluster: MemoryCluster, topic: str, allow: Callable[..., None]
) -> None:
    allow(Acl("User:bob", "describe", "topic", topic), Acl("User:bob", "read", "group", "unused"))
    consumer = Consumer(confluent_config(cluster.address(2), "bob", **{"group.id": "unused"}))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = next(each for each in iter(lambda: consumer.poll(TIMEOUT_S), 1) if each is not None)
        assert found.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    finally:
        consumer.close()


def test_topics_are_listed_for_those_who_may_see_them(
    cluster: MemoryCluster, topic: str, allow: Callable[..., None]
) -> None:
    from kafka.admin import KafkaAdminClient

    def seen(user: str) -> set[str]:
        librdkafka = set(AdminClient(confluent_config(cluster.address(2), user)).list_topics().topics)
        admin = KafkaAdminClient(**kafka_python_config(cluster.address(2), user))
        try:
            assert set(admin.list_topics()) - {"__consumer_offsets"} == librdkafka - {"__consumer_offsets"}
        finally:
            admin.close()
        return librdkafka

    assert topic in seen("admin")
    assert seen("alice") == set()
    allow(Acl("User:alice", "describe", "topic", topic))
    assert seen("alice") == {topic}


@pytest.mark.parametrize("node_id", [1, 2])
def test_a_forwarded_request_is_authorized_and_audited_as_the_clients(
    cluster: MemoryCluster, node_id: int, allow: Callable[..., None]
) -> None:
    name = f"new-{node_id}"
    admin = AdminClient(confluent_config(cluster.address(node_id), "alice"))

    def create() -> None:
        admin.create_topics([NewTopic(name, 1)])[name].result(TIMEOUT_S)

    with pytest.raises(KafkaException) as caught:
        create()
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(Acl("User:alice", "create", "topic", "new-", "prefixed"))
    create()
    lines = [json.loads(line) for line in (cluster.folder / "audit.log").read_text().splitlines()]
    about = [
        (each["event"], each["principal"], each["host"], each["broker"])
        for each in lines
        if each["name"] == name
    ]
    controller = cluster.brokers[1].cluster.image.controller_id
    assert about == [
        ("denied", "User:alice", "127.0.0.1", controller),
        ("changed", "User:alice", "127.0.0.1", controller),
    ]


def test_every_broker_decides_by_a_new_acl(
    cluster: MemoryCluster, topic: str, allow: Callable[..., None]
) -> None:
    allow(Acl("User:alice", "describe", "topic", topic))
    for node_id in (1, 2):
        with ottla_admin(cluster.address(node_id), "alice") as alice:
            wait_until(lambda alice=alice: topic in alice.list_topics(), TIMEOUT_S)
            with pytest.raises(TopicAuthorizationFailed):
                alice.delete_topic(topic)
            with pytest.raises(ClusterAuthorizationFailed):
                alice.describe_acls()


def test_delegation_tokens_are_created_used_renewed_and_expired(
    cluster: MemoryCluster, topic: str, allow: Callable[..., None]
) -> None:
    with ottla_admin(cluster.address(2), "alice") as alice:
        token = alice.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
        assert [each.token_id for each in alice.describe_delegation_tokens()] == [token.token_id]
        with ottla_admin(cluster.address(1), "bob") as bob:
            assert [each.hmac for each in bob.describe_delegation_tokens()] == [token.hmac]
            assert bob.renew_delegation_token(token.hmac, 60_000) < token.expires_at_ms
        assert token.password not in repr(token)
        assert alice.expire_delegation_token(token.hmac) <= token.expires_at_ms
        assert alice.describe_delegation_tokens() == []


def test_a_denial_is_counted_and_a_snapshot_of_the_metadata_has_the_acls(tmp_path: Path) -> None:
    with acl_cluster(tmp_path, brokers=1, ottla_metrics_listen="127.0.0.1:0") as cluster:
        with ottla_admin(cluster.address(1), "admin") as admin:
            admin.create_acls([Acl("User:alice", "read", "topic", "orders")])
        with ottla_admin(cluster.address(1), "alice") as admin, pytest.raises(ClusterAuthorizationFailed):
            admin.describe_acls()
        addresses = cluster.brokers[1].addresses
        assert addresses is not None
        assert addresses.metrics is not None
        assert scrape(addresses.metrics).value("ottla_denials_total", operation="DESCRIBE") >= 1
        cluster.stop(1)
        cluster.start(1)
        with ottla_admin(cluster.address(1), "admin") as admin:
            assert len(admin.describe_acls()) == 1


def test_each_broker_refuses_users_of_its_own_that_it_cannot_read(cluster: MemoryCluster) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    with ottla_admin(cluster.bootstrap, "admin") as admin:
        for node_id in (cluster.controller, cluster.follower):
            with pytest.raises(InvalidRequest, match="must begin with the name of a login module"):
                admin.alter_broker_configs(node_id, set_to={key: "nonsense"})
    with ottla_admin(cluster.bootstrap, "alice") as alice:
        for node_id in (cluster.controller, cluster.follower):
            with pytest.raises(ClusterAuthorizationFailed):
                alice.alter_broker_configs(node_id, set_to={key: "nonsense"})
