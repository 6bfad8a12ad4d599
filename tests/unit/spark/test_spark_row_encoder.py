"""Rows into record batches: columns, partitions, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partitioners import PARTITIONERS, partition_of, partitioner_of
from ottla.common.clock import ManualClock
from ottla.protocol.records.records import Record, decode_records
from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.sink import row_encoder
from ottla.spark.sink.row_encoder import Encoded, RowEncoder, cut
from ottla.spark.sink.rows import Layout, layout_of


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


HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
ARROW_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


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


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
contents = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=250, max_size=300))
ROW = st.tuples(
    st.sampled_from(["one", "two"]),
    st.one_of(st.none(), st.integers(0, 2)),
    st.one_of(st.none(), st.integers(-(2**40), 2**50)),
    contents,
    contents,
    st.one_of(st.none(), st.lists(st.tuples(texts, st.one_of(st.none(), st.binary(max_size=9))), max_size=3)),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from([0, 200, 5_000]),
    st.sampled_from([1, 400, 1 << 20]),
    st.sampled_from(["none", "gzip"]),
)
def test_every_row_becomes_the_record_that_it_describes(
    batches: list[list[Any]], batch_size: int, at_once: int, codec: str
) -> None:
    kinds = {
        "topic": StringType(),
        "partition": IntegerType(),
        "timestamp": TimestampType(),
        "key": BinaryType(),
        "value": BinaryType(),
        "headers": HEADERS,
    }
    made = layout(to=None, with_timestamp=True, **kinds)
    options = ProducerOptions(batch_size=batch_size, compression_type=codec)
    encoder = RowEncoder(made, options, lambda topic: 3, ManualClock(5_000), transactional=True)
    found: list[Encoded] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_encoder, "BYTES_AT_ONCE", at_once)
        for rows in batches:
            # A slice, as Arrow has them: its buffers begin before its first row.
            found += encoder.add(arrow([rows[0], *rows]).slice(1))
        found += encoder.rest()
    written: dict[tuple[str, int], list[Any]] = {}
    for topic, partition, record in records(found):
        seen = (record.timestamp, record.key, record.value, tuple(record.headers))
        written.setdefault((topic, partition), []).append(seen)
    sticky: dict[str, list[Any]] = {}
    for topic, partition, time_us, key, value, headers in (row for rows in batches for row in rows):
        row = (5_000 if time_us is None else time_us // 1000, key, value, tuple(headers or ()))
        if partition is None and key is None:
            sticky.setdefault(topic, []).append(row)
            continue
        place = partition if partition is not None else partition_of(key, 3)
        # Rows of one key, or with a given partition, are in their order.
        at = written[topic, place].index(row)
        assert not [each for each in written[topic, place][:at] if each[1] == key and partition is None]
        del written[topic, place][at]
    left = {topic: sorted(map(repr, rows)) for topic, rows in sticky.items()}
    for (topic, _), rows in written.items():
        for row in rows:
            left[topic].remove(repr(row))
    assert not any(left.values())
    assert encoder.rows == sum(count for _, _, count in found)


def arrow(rows: list[Any]) -> pa.RecordBatch:
    topics, partitions, times, keys, values, headers = zip(*rows, strict=True)
    given = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in headers]
    return pa.record_batch(
        {
            "topic": pa.array(topics),
            "partition": pa.array(partitions, pa.int32()),
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(given, ARROW_HEADERS),
        }
    )


def test_the_rows_of_an_open_batch_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_encoder, "BYTES_AT_ONCE", 1)
    encoder = RowEncoder(
        layout(value=BinaryType(), partition=IntegerType()),
        ProducerOptions(batch_size=1_000),
        lambda topic: 3,
        ManualClock(5_000),
        transactional=True,
    )
    batch = pa.record_batch({"value": [b"x" * 379] * 3, "partition": pa.array([2, 0, 2], pa.int32())})
    assert list(encoder.add(batch)) == []
    (full,) = encoder.add(batch)
    assert (full[0].partition, full[2]) == (2, 2)
    assert sorted((at.partition, count) for at, _, count in encoder.rest()) == [(0, 2), (2, 2)]
    assert list(encoder.rest()) == []


def test_so_many_open_batches_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_encoder, "BYTES_AT_ONCE", 1)
    monkeypatch.setattr(row_encoder, "MAX_OPEN_BYTES", 100)
    encoder = RowEncoder(
        layout(value=BinaryType()),
        ProducerOptions(),
        lambda topic: 3,
        ManualClock(5_000),
        transactional=True,
    )
    assert [count for _, _, count in encoder.add(pa.record_batch({"value": [b"x" * 200]}))] == [1]


def test_a_large_arrow_batch_is_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_encoder, "MAX_ARRAY_BYTES", 1_000)
    values = [bytes([number]) * 300 for number in range(20)]
    found = records(encode(layout(value=BinaryType()), pa.record_batch({"value": values})))
    assert [record.value for _, _, record in found] == values


def test_long_numbers_are_written_in_full() -> None:
    """More than 16,383 rows in a batch, times far apart, and values longer than the table of varints."""
    count = 20_000
    times = pa.array([number * 10**9 * (-1) ** number for number in range(count)], pa.timestamp("us"))
    values = [b"x" * 20_000, *([b""] * (count - 1))]
    made = layout(value=BinaryType(), timestamp=TimestampType(), with_timestamp=True)
    batch = pa.record_batch({"value": values, "timestamp": times})
    (found,) = encode(made, batch, batch_size=1 << 24)
    decoded = decode_records(bytes(found[1]), max_bytes=1 << 24)
    assert [record.offset for record in decoded] == list(range(count))
    assert [record.timestamp for record in decoded] == [n * 10**6 * (-1) ** n for n in range(count)]
    assert [record.value for record in decoded] == values


def test_text_of_both_kinds_is_written() -> None:
    batch = pa.record_batch(
        {"value": pa.array(["ü", None], pa.large_string()), "key": pa.array([None, "k"], pa.string_view())}
    )
    found = records(encode(layout(value=StringType(), key=StringType()), batch))
    assert {(record.key, record.value) for _, _, record in found} == {(None, "ü".encode()), (b"k", None)}


def test_a_header_without_a_key_is_refused() -> None:
    made = layout(value=BinaryType(), headers=HEADERS)
    headers = pa.array([[{"key": None, "value": b"x"}]], ARROW_HEADERS)
    with pytest.raises(SparkError, match="a header has no key"):
        encode(made, pa.record_batch({"value": [b"a"], "headers": headers}))


def test_a_row_without_a_topic_is_refused() -> None:
    batch = pa.record_batch({"value": ["a"], "topic": pa.array([None], pa.string())})
    with pytest.raises(SparkError, match="a row has no topic"):
        encode(layout(to=None, value=StringType(), topic=StringType()), batch)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_other_partitioners_choose_as_in_the_client(name: str) -> None:
    keys = [None, b"", *(b"key-%d" % number for number in range(30))]
    batch = pa.record_batch({"value": [b"v"] * len(keys), "key": pa.array(keys, pa.binary())})
    made = layout(value=BinaryType(), key=BinaryType())
    found = records(encode(made, batch, partitioner=name))
    assert len(found) == len(keys)
    choose = partitioner_of(name)
    if "random" in name or name == "round_robin":
        keys = [] if name in ("random", "round_robin") else keys[2:]
    elif name == "sticky":
        keys = keys[1:]
    for key in keys:
        (place,) = {partition for _, partition, record in found if record.key == key}
        assert place == choose(key, range(3), range(3))


def test_batches_are_cut_where_the_partition_changes_or_they_are_full() -> None:
    places, sizes = np.array([0, 0, 0, 1, 2, 2]), np.array([4, 4, 4, 20, 5, 5])
    starts, is_full = cut(places, sizes, 10)
    assert starts.tolist() == [0, 2, 3, 4]
    assert is_full.tolist() == [True, False, False, False]
