"""Spark with a schema registry: written with the sink, read with the source, bad records kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.integration.registry_stage import RunningRegistry
from tests.spark.topics import Topics

from ottla.registry.serdes import AvroSerializer
from ottla.spark import upsert

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {
    **OLD,
    "fields": [
        *OLD["fields"],  # type: ignore[misc]
        {"name": "sizes", "type": {"type": "map", "values": "int"}, "default": {}},
    ],
}


def test_a_table_is_written_and_read_back_unchanged(
    spark: Any, spark_broker: Any, source: Callable[..., Any], topics: Topics
) -> None:
    topic = topics.create(partitions=1)
    with RunningRegistry(spark_broker.address) as registry:
        headers: list[tuple[str, bytes | None]] = []
        old = AvroSerializer(registry.url, json.dumps(OLD), framing="header")
        topics.producer.send(topic, old.serialize_record(topic, "value", {"id": 1}, headers), headers=headers)
        topics.producer.send(topic, b"\0\x7f\xff\xff\xffx")
        topics.producer.flush()
        rows = spark.sql("SELECT struct(2L AS id, map('a', 3) AS sizes) AS value, 'k' AS key")
        rows.write.format("ottla").mode("append").options(
            **{
                "kafka.bootstrap.servers": spark_broker.address,
                "topic": topic,
                "serialize": "registry",
                "schemaRegistryUrl": registry.url,
                "valueSchema": json.dumps(NEW),
            }
        ).save()
        found = source(
            topic, deserialize="registry", schemaRegistryUrl=registry.url, badRecords="keep"
        ).select("id", "sizes", "key", "error")
        first, bad, last = (each.asDict() for each in found.collect())
    assert (first["id"], first["sizes"], first["error"]) == (1, {}, None)
    assert (last["id"], last["sizes"], last["key"], last["error"]) == (2, {"a": 3}, b"k", None)
    assert bad["id"] is None
    assert "no schema with the id 2147483647" in bad["error"]


def test_an_upsert_with_a_schema_writes_rows_and_tombstones(
    spark: Any, spark_broker: Any, source: Callable[..., Any], topics: Topics
) -> None:
    topic = topics.create(partitions=1, cleanup_policy="compact")
    rows = "SELECT 1L AS id, map('a', 3) AS sizes, false AS gone UNION ALL SELECT 2L, map('b', 1), true"
    with RunningRegistry(spark_broker.address) as registry:
        to = {"kafka.bootstrap.servers": spark_broker.address, "schemaRegistryUrl": registry.url}
        given = {**to, "serialize": "registry", "valueSchema": json.dumps(NEW)}
        upsert(spark.sql(rows), topic=topic, key="id", deleted="gone", **given)
        found = source(topic, deserialize="registry", schemaRegistryUrl=registry.url).select("id", "sizes")
        assert [tuple(row) for row in found.collect() if row.id is not None] == [(1, {"a": 3})]
    assert {each.key: each.value is None for each in topics.records(topic)} == {b"1": False, b"2": True}
