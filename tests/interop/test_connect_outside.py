"""Connectors beside real systems, without Spark: mirrors of Apache Kafka, PostgreSQL by its DB-API driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.fetch_jars import KAFKA_JARS
from tests.postgres_server import PostgresServer, postgres_server

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.connect.connectors.jdbc_sink import JdbcSink
from ottla.connect.connectors.jdbc_source import JdbcSource
from ottla.connect.connectors.mirror import MirrorSource
from ottla.connect.data.record import Record
from ottla.connect.testing import check_config, read_source, write_sink
from ottla.testing.local_broker import OttlaBroker


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if shutil.which("java") is None or not KAFKA_JARS.is_dir():
        pytest.skip("java or Kafka's jars are missing; fetch them with: make interop")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def _send(address: str, *values: bytes) -> None:
    with Producer(address) as producer:
        for number, value in enumerate(values):
            producer.send("orders", value, key=b"k%d" % number, partition=0)


def _values(reader: Any, start: Any) -> tuple[Any, list[bytes]]:
    end = reader.latest(start)
    return end, [each.value for part in reader.plan(start, end) for each in reader.read(part)]


@pytest.mark.parametrize("to_kafka", [False, True], ids=["from Kafka", "to Kafka"])
def test_a_mirror_between_apache_kafka_and_ottla(kafka: ApacheKafka, to_kafka: bool) -> None:
    with OttlaBroker() as broker:
        addresses = (kafka.address, broker.bootstrap_servers)
        source, target = reversed(addresses) if to_kafka else addresses
        with Admin(source) as admin, Admin(target) as other:
            admin.create_topic("orders", partitions=1, configs={"retention.ms": "12345678"})
            _send(source, b"a", b"b", b"c")
            with Consumer(source, group_id="billing", enable_auto_commit=False) as consumer:
                consumer.assign([TopicPartition("orders", 0)])
                consumer.commit({TopicPartition("orders", 0): 2})
            config = {
                "source.cluster.alias": "left",
                "source.cluster.bootstrap.servers": source,
                "target.cluster.bootstrap.servers": target,
                "topics": "orders",
                "sync.interval.ms": "1",
            }
            assert MirrorSource.check(config) == {}
            reader = MirrorSource("m", config).reader(config)
            first, values = _values(reader, {})
            assert values == [b"a", b"b", b"c"]
            configs = {each.name: each.value for each in other.topic_configs("left.orders")}
            assert configs["retention.ms"] == "12345678"
            with Producer(target) as producer:
                for part in reader.plan({}, first):
                    for each in reader.read(part):
                        headers = [(header.name, header.value) for header in each.headers]
                        producer.send("left.orders", each.value, partition=0, headers=headers)
            assert _values(reader, first) == (first, [])  # translates the group's offset
            assert other.group_offsets("billing")[TopicPartition("left.orders", 0)].offset == 2
            admin.delete_topics(["orders"])
            admin.create_topic("orders", partitions=1)
            _send(source, b"d", b"e", b"f", b"g")
            assert _values(reader, first)[1] == [b"d", b"e", b"f", b"g"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


def _row(offset: int, key: Any, value: Any) -> Record:
    return Record("goods", value, None, key, None, 0, 0, [], offset, "goods")


def test_a_database_with_another_driver(server: PostgresServer, tmp_path: Path) -> None:
    connection = {"connection.driver": "psycopg", "connection.url": server.url}
    config = {**connection, "auto.create": "true", "auto.evolve": "true"}
    assert check_config(JdbcSink, {**config, "topics": "goods"}).error_count == 0
    for _ in range(2):
        write_sink(JdbcSink, config, [_row(n, {"id": n}, {"name": f"n{n}", "data": b"x"}) for n in range(3)])
    changes = [
        _row(3, {"id": 1}, {"name": "changed", "price": 1.5}),
        _row(4, {"id": 0}, None),
        _row(5, {"id": "not a number"}, {"name": "refused"}),
        _row(6, {"id": 9}, {"name": "after it"}),
    ]
    for _ in range(2):
        refused = write_sink(JdbcSink, config, changes, number=1)
        assert [each.record.offset for each in refused] == [5]
    with psycopg.connect(server.url) as database:
        rows = database.execute("SELECT id, name, price FROM goods ORDER BY id").fetchall()
    assert rows == [(1, "changed", 1.5), (2, "n2", None), (9, "after it", None)]
    source = {**connection, "table.whitelist": "goods", "topic.prefix": "db-", "batch.max.rows": "2"}
    found = read_source(JdbcSource, source)
    assert [each.value["id"] for each in found] == [1, 2, 9]
    assert found[0].topic == "db-goods"
