"""The mirror between two clusters: records, topics, configs, ACLs, groups; topics that are created again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.admin.acls import Acl
from ottla.connect.connectors.mirror import MirrorReader, MirrorSource, is_other_topic
from ottla.connect.testing import read_source
from ottla.testing.local_broker import OttlaBroker


def test_a_mirror_copies_records_topics_configs_and_group_offsets() -> None:
    with OttlaBroker() as source, OttlaBroker() as target:
        with Admin(source.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=2, configs={"retention.ms": "12345678"})
        with Producer(source.bootstrap_servers) as producer:
            for number in range(20):
                producer.send(
                    "orders",
                    b"v%d" % number,
                    key=b"k%d" % number,
                    partition=number % 2,
                    headers=[("h", b"1")],
                )
        with Consumer(source.bootstrap_servers, group_id="billing", enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            consumer.commit({TopicPartition("orders", 0): 4})
        config = {
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            "target.cluster.bootstrap.servers": target.bootstrap_servers,
            "sync.interval.ms": "1",
        }
        assert MirrorSource.check(config) == {}
        records = read_source(MirrorSource, config)
        assert sorted((each.topic, each.partition, each.value) for each in records) == sorted(
            ("source.orders", number % 2, b"v%d" % number) for number in range(20)
        )
        assert [header.name for header in records[0].headers] == ["h", "ottla.mirror.offset"]
        with Admin(target.bootstrap_servers) as admin:
            assert len(admin.list_topics()["source.orders"].partitions) == 2
            configs = {each.name: each.value for each in admin.topic_configs("source.orders")}
            assert configs["retention.ms"] == "12345678"
        # The copies are in the mirror, one offset further on: the group's place is translated.
        with Producer(target.bootstrap_servers) as producer:
            producer.send("source.orders", b"before", partition=0)
            for each in records:
                headers = [(header.name, header.value) for header in each.headers]
                producer.send(each.topic, each.value, key=each.key, partition=each.partition, headers=headers)
        with Admin(source.bootstrap_servers) as admin:
            admin.alter_topic_configs("orders", set_to={"retention.ms": "23456789"})
        assert read_source(MirrorSource, config, each_batch_twice=False)
        with Admin(target.bootstrap_servers) as admin:
            place = TopicPartition("source.orders", 0)
            assert admin.group_offsets("billing")[place].offset == 5
            configs = {each.name: each.value for each in admin.topic_configs("source.orders")}
            assert configs["retention.ms"] == "23456789"


def batch(reader: MirrorReader, start: Any) -> tuple[Any, list[bytes]]:
    """Read one batch as Spark does; return its end and its values."""
    end = reader.latest(start)
    return end, [each.value for part in reader.plan(start, end) for each in reader.read(part)]


def send(broker: OttlaBroker, *values: bytes) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for each in values:
            producer.send("orders", each, partition=0)


def test_a_topic_that_is_created_again_is_copied_from_its_beginning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with OttlaBroker() as source, OttlaBroker() as target, Admin(source.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=1)
        send(source, b"a", b"b", b"c")
        config = {
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            "target.cluster.bootstrap.servers": target.bootstrap_servers,
            "topics": "payments, ord.*",
        }
        connector = MirrorSource("m", config)
        reader: Any = connector.reader(config)
        first, values = batch(reader, {})
        assert values == [b"a", b"b", b"c"]
        assert batch(reader, first) == (first, [])

        admin.delete_topics(["orders"])
        admin.create_topic("orders", partitions=1)
        # A batch of the old topic that was planned: its records are gone, and no others are taken for them.
        assert [list(reader.read(part)) for part in reader.plan({}, first)] == [[]]
        empty, values = batch(reader, first)
        assert values == []
        assert [each["offset"] for each in empty.values()] == [0]
        assert "deleted and created again" in caplog.text
        caplog.clear()
        send(source, b"d", b"e", b"f", b"g")
        second, values = batch(reader, empty)
        assert values == [b"d", b"e", b"f", b"g"]
        assert batch(reader, first)[1] == [b"d", b"e", b"f", b"g"]  # it was filled before it was looked at
        caplog.clear()
        assert batch(reader, second) == (second, [])
        assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("before", "topic_id", "last", "is_other"),
    [
        ({"offset": 5, "topic.id": "x"}, "x", 9, False),
        ({"offset": 5, "topic.id": "x"}, "y", 9, True),
        ({"offset": 5}, "y", 9, False),  # stored by an earlier version
        ({"offset": 5, "topic.id": "x"}, None, 5, False),  # a broker without ids
        ({"offset": 5}, None, 4, True),
    ],
)
def test_topics_are_distinguished(before: Any, topic_id: str | None, last: int, is_other: bool) -> None:
    assert is_other_topic(before, topic_id, last) == is_other


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECURED = {
    "sasl.enabled.mechanisms": "PLAIN",
    "ottla.sasl.plain.without.tls.enable": "true",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} username="admin" password="admin-pw" user_admin="admin-pw" user_mirror="mirror-pw";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def keys_of(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} username="{user}" password="{user}-pw";',
    }


def test_clusters_with_users_and_the_acls_of_topics() -> None:
    options: Any = {"settings": SECURED, "security_protocol": "SASL_PLAINTEXT"}
    with OttlaBroker(**options) as source, OttlaBroker(**options) as target:
        with Admin(source.bootstrap_servers, **keys_of("admin")) as admin:
            admin.create_topic("orders", partitions=1)
            admin.create_topic("private", partitions=1)
            allowed = [
                Acl("User:mirror", "read", "topic", "orders"),
                Acl("User:mirror", "describe", "cluster"),
                Acl("User:mirror", "describe_configs", "topic", "orders"),
                Acl("User:ann", "all", "topic", "orders"),
                Acl("User:bob", "write", "topic", "orders"),
                Acl("User:eve", "write", "topic", "orders", permission="deny"),
                Acl("User:ann", "read", "topic", "private"),
                Acl("User:ann", "read", "topic", "ord", "prefixed"),
            ]
            assert admin.create_acls(allowed) == [None] * len(allowed)
        with Producer(source.bootstrap_servers, **keys_of("admin")) as producer:
            producer.send("orders", b"a", partition=0)
        config = {
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            **{f"source.cluster.{key}": value for key, value in keys_of("mirror").items()},
            "target.cluster.bootstrap.servers": target.bootstrap_servers,
            **{f"target.cluster.{key}": value for key, value in keys_of("admin").items()},
            "topics": "orders",
            "sync.group.offsets.enabled": "false",
        }
        assert MirrorSource.check(config) == {}
        wrong = {**config, "source.cluster.sasl.jaas.config": f'{PLAIN} username="mirror" password="no";'}
        assert "source.cluster.bootstrap.servers" in MirrorSource.check(wrong)
        assert [each.value for each in read_source(MirrorSource, config)] == [b"a"]
        with Admin(target.bootstrap_servers, **keys_of("admin")) as admin:
            found = {(each.principal, each.operation, each.permission) for each in admin.describe_acls()}
            names = {each.resource_name for each in admin.describe_acls()}
        assert names == {"source.orders"}
        assert found == {
            ("User:mirror", "read", "allow"),
            ("User:mirror", "describe_configs", "allow"),
            ("User:ann", "read", "allow"),
            ("User:eve", "write", "deny"),
        }
