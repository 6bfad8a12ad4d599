"""Topics read as tables: columns, bounds, options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.topics import Topics, numbers

from ottla.client import Producer

Read = Callable[..., Any]


def values(rows: Any) -> list[str]:
    return sorted(row["value"].decode() for row in rows.collect())


def test_a_table_has_the_columns_of_sparks_kafka_source(source: Read, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.producer.send(
        topic, b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_123, headers={"h": b"x"}
    )
    topics.producer.send(topic, None, key=None, partition=0)
    topics.producer.flush()
    rows = source(topic, includeHeaders="true")
    assert [(each.name, each.dataType.simpleString()) for each in rows.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    empty, full = sorted(rows.collect(), key=lambda row: row["partition"])
    assert (full["key"], full["value"], full["topic"], full["partition"], full["offset"]) == (
        b"k",
        b"v",
        topic,
        1,
        0,
    )
    assert full["timestamp"].timestamp() == pytest.approx(1_700_000_000.123)
    assert full["timestampType"] == 0
    assert [tuple(each) for each in full["headers"]] == [("h", b"x")]
    assert (empty["key"], empty["value"], empty["headers"]) == (None, None, [])


def test_bounds_are_offsets_times_or_words(source: Read, topics: Topics) -> None:
    topic = topics.create(partitions=1)
    for number in range(10):
        topics.producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_000 + number)
    topics.producer.flush()

    def read(**options: str) -> list[str]:
        return values(source(topic, **options))

    assert read(startingOffsets=json.dumps({topic: {"0": 7}})) == ["7", "8", "9"]
    assert read(endingOffsets=json.dumps({topic: {"0": 3}})) == ["0", "1", "2"]
    assert read(startingTimestamp="1008", startingOffsets="earliest") == ["8", "9"]
    assert read(endingTimestamp="1002") == ["0", "1"]
    both = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": 1_004}})}
    assert read(**both, endingOffsetsByTimestamp=json.dumps({topic: {"0": 1_006}})) == ["4", "5"]
    assert read(startingTimestamp="9999", startingOffsetsByTimestampStrategy="latest") == []


def test_topics_are_named_matched_or_assigned(source: Read, topics: Topics) -> None:
    one, two = topics.create("east"), topics.create("east-other")
    topics.fill(one, ["a"], partition=0)
    topics.fill(two, ["b"], partition=2)
    assert values(source(f"{one},{two}")) == ["a", "b"]
    assert values(source(None, subscribePattern="east-other.*")) == ["b"]
    assert values(source(None, assign=json.dumps({one: [0], two: [0, 1]}))) == ["a"]


def test_large_partitions_are_split_into_tasks_and_small_ones_share_one(source: Read, topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 3_000))
    assert source(topic).rdd.getNumPartitions() == 1
    assert source(topic, minPartitions="8").rdd.getNumPartitions() in (8, 9)
    split = source(topic, maxRecordsPerPartition="500")
    assert split.rdd.getNumPartitions() >= 6
    assert values(split) == numbers(0, 3_000)


def test_only_the_columns_that_are_asked_for_are_read(source: Read, topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, ["x"])
    assert source(topic, columns="value, topic").columns == ["value", "topic"]
    assert values(source(topic, columns="value")) == ["x"]


def test_open_and_aborted_transactions_are_not_seen(source: Read, topics: Topics) -> None:
    topic = topics.create(partitions=1)
    with Producer(topics.address, transactional_id=f"t-{topic}") as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"committed")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open")
        producer.flush()
        assert values(source(topic)) == ["committed"]
        uncommitted = {"kafka.isolation.level": "read_uncommitted"}
        assert values(source(topic, **uncommitted)) == ["aborted", "committed", "open"]
        producer.abort_transaction()


def test_json_values_become_columns(source: Read, topics: Topics) -> None:
    topic = topics.create(partitions=1)
    topics.fill(topic, ['{"id": 1, "tags": ["a"]}', '{"id": 2, "more": true}'], keys=False)
    rows = source(
        topic, deserialize="json", valueSchema="id INT, tags ARRAY<STRING>", columns="offset,id,tags"
    )
    assert [tuple(row) for row in rows.collect()] == [(0, 1, ["a"]), (1, 2, None)]

    topics.fill(topic, ["{broken", '{"id": "no number"}'], keys=False)
    kept = source(
        topic, deserialize="json", valueSchema="id INT", badRecords="keep", columns="id,value,error"
    )
    found = kept.collect()
    assert [row["id"] for row in found] == [1, 2, None, None]
    assert [row["error"] is None for row in found] == [True, True, False, False]
    assert found[2]["value"] == b"{broken"
    with pytest.raises(Exception, match=f"value of {topic}-0 at offset 2 is not valid json"):
        source(topic, deserialize="json", valueSchema="id INT").collect()


def test_avro_values_become_columns(source: Read, topics: Topics) -> None:
    import io

    from fastavro import schemaless_writer

    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}],
    }
    written = io.BytesIO()
    schemaless_writer(written, schema, {"id": 7, "s": "seven"})
    topic = topics.create()
    topics.fill(topic, [written.getvalue()])
    rows = source(topic, deserialize="avro", valueSchema=json.dumps(schema), columns="id,s")
    assert [tuple(row) for row in rows.collect()] == [(7, "seven")]


def test_a_batch_beyond_the_end_of_the_log_is_refused(source: Read, topics: Topics) -> None:
    topic = topics.create(partitions=1)
    topics.fill(topic, numbers(0, 3))

    def read(**options: str) -> list[str]:
        return values(source(topic, **options))

    at = {number: json.dumps({topic: {"0": number}}) for number in (1, 2, 3, 4)}
    with pytest.raises(Exception, match=rf"{topic}-0 ends at offset 3, but startingOffsets is 4"):
        read(startingOffsets=at[4])
    with pytest.raises(Exception, match=rf"{topic}-0 ends at offset 3, but endingOffsets is 4"):
        read(endingOffsets=at[4])
    with pytest.raises(Exception, match="after the end of the batch at 1"):
        read(startingOffsets=at[2], endingOffsets=at[1])
    assert read(startingOffsets=at[3]) == []
    assert read(startingOffsets=at[4], failOnDataLoss="false") == []
    assert read(startingOffsets=at[1], endingOffsets=at[2]) == numbers(1, 2)


WRONG = {
    "unknown option of the source; did you mean startingOffsets": {"startingOffset": "earliest"},
    "is given together with subscribe": {"assign": '{"x": [0]}'},
    "cannot be set here: write startingOffsets instead": {"kafka.auto.offset.reset": "earliest"},
    "must look like": {"startingOffsets": "first"},
    "must not be latest": {"startingOffsets": "latest"},
    "must not be latest (-1) in a batch": {"startingOffsets": '{"anything": {"0": -1}}'},
    "must be latest or JSON": {"endingOffsets": "earliest"},
    "unknown column 'nonsense'": {"columns": "nonsense"},
    "must be a whole number": {"minPartitions": "many"},
    "unknown option; did you mean fetch.min.bytes": {"kafka.fetch.min.byte": "1"},
    "must name the columns of the JSON": {"deserialize": "json"},
}


@pytest.mark.parametrize("complaint", WRONG)
def test_a_wrong_option_is_refused_by_name(source: Read, topics: Topics, complaint: str) -> None:
    options = WRONG[complaint]
    with pytest.raises(Exception, match=re.escape(complaint)) as raised:
        source("anything", **options).collect()
    assert next(iter(options)).lower() in str(raised.value).lower()


def test_a_topic_that_does_not_exist_is_named_with_what_to_do(source: Read) -> None:
    with pytest.raises(
        Exception, match=r"unknown topic nowhere\. Create it first: ottla topic create nowhere"
    ):
        source("nowhere").collect()
