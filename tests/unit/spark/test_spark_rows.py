"""Rows into record batches: columns, partitions, sizes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partitioners import partition_of
from ottla.common.clock import ManualClock
from ottla.protocol.records.records import Record, decode_records
from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.sink.rows import Encoded, Layout, RowEncoder, layout_of


def schema(**columns: object) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made = made.add(name, kind)
    return made


def layout(to: str | None = "t", with_timestamp: bool = False, **columns: object) -> Layout:
    return layout_of(schema(**columns), to, with_headers=True, with_timestamp=with_timestamp)


def encode(made: Layout, batch: pa.RecordBatch, **options: object) -> list[Encoded]:
    encoder = RowEncoder(
        made, ProducerOptions(**options), lambda topic: 3, ManualClock(5_000), transactional=True
    )
    return [*encoder.add(batch), *encoder.rest()]


def records(found: list[Encoded]) -> list[tuple[str, int, Record]]:
    return [
        (at.topic, at.partition, record)
        for at, encoded, _ in found
        for record in decode_records(bytes(encoded), max_bytes=1 << 20)
    ]


def test_keys_choose_partitions_as_every_client_does() -> None:
    keys = [f"key-{number}" for number in range(30)]
    batch = pa.record_batch({"value": keys, "key": keys})
    found = records(encode(layout(value=StringType(), key=StringType()), batch))
    assert len(found) == 30
    assert all(partition == partition_of(record.key or b"", 3) for _, partition, record in found)
    assert all(record.timestamp == 5_000 for _, _, record in found)


def test_rows_without_keys_stay_together_until_their_batch_is_full() -> None:
    batch = pa.record_batch({"value": [b"x" * 100] * 100})
    found = encode(layout(value=BinaryType()), batch, batch_size=1_000)
    assert sum(count for _, _, count in found) == 100
    assert {at.partition for at, _, _ in found} == {0, 1, 2}
    assert all(len(encoded) <= 1_100 for _, encoded, _ in found)


def test_topic_partition_headers_and_time_are_columns() -> None:
    kinds = {
        "value": StringType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "timestamp": TimestampType(),
    }
    made = layout(to=None, with_timestamp=True, **kinds)
    batch = pa.record_batch(
        {
            "value": ["a", "b"],
            "topic": ["one", "two"],
            "partition": pa.array([2, None], pa.int32()),
            "timestamp": pa.array([1_234_000, None], pa.timestamp("us", tz="UTC")),
        }
    )
    (first, second) = sorted(records(encode(made, batch)))
    assert first[:2] == ("one", 2)
    assert first[2].timestamp == 1_234
    assert (second[0], second[2].timestamp) == ("two", 5_000)


def test_a_partition_that_is_not_there_is_refused() -> None:
    made = layout(value=StringType(), partition=IntegerType())
    batch = pa.record_batch({"value": ["a"], "partition": pa.array([3], pa.int32())})
    with pytest.raises(SparkError, match="t has no partition 3: it has 3"):
        encode(made, batch)


def test_a_record_that_is_too_large_is_refused_with_the_limit() -> None:
    batch = pa.record_batch({"value": [b"x" * 2_000]})
    with pytest.raises(SparkError, match=r"the limit is 1000 \(kafka.max.request.size"):
        encode(layout(value=BinaryType()), batch, max_request_size=1_000)


def test_the_option_topic_goes_before_the_column() -> None:
    assert "topic" not in layout("t", value=StringType(), topic=StringType()).places


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(SparkError, match="the column value must be string or binary, not bigint"):
        layout(value=LongType())
    with pytest.raises(SparkError, match="there is no column `value`"):
        layout(key=StringType())
    with pytest.raises(WrongOption, match="topic: must name the topic"):
        layout(to=None, value=StringType())
