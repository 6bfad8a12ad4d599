"""Records inside batches: round trips, sparse and empty batches, and records that lie."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.primitives import encode_varint
from ottla.protocol.records.batch import HEADER, crc_of, decode_header, stamp_log_append_time
from ottla.protocol.records.compression import compress
from ottla.protocol.records.records import (
    Record,
    decode_records,
    encode_batch,
    iter_record_heads,
    iter_records,
)

T0 = 1_700_000_000_000


def batch_of(data: bytes, **changes: Any) -> bytearray:
    """Return a batch with these bytes for records, and whatever its header should claim."""
    fields: dict[str, Any] = {
        "record_count": 1,
        "last_offset_delta": 0,
        "base_timestamp": T0,
        "attributes": 0,
    }
    fields.update(changes)
    template = decode_header(encode_batch([Record(0, T0, b"", b"")]))
    header = template._replace(batch_length=49 + len(data), **fields)
    batch = bytearray(HEADER.pack(*header)) + data
    struct.pack_into(">I", batch, 17, crc_of(batch))
    return batch


def record_of(body: bytes, length: int | None = None) -> bytes:
    return encode_varint(len(body) if length is None else length) + body


small_bytes = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=8), small_bytes), max_size=3).map(tuple)
deltas = st.integers(-(2**40), 2**40)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    count = draw(st.integers(1, 12))
    offset = draw(st.integers(0, 2**50))
    records = []
    for _ in range(count):
        timestamp = T0 + draw(deltas)
        records.append(Record(offset, timestamp, draw(small_bytes), draw(small_bytes), draw(headers)))
        offset += draw(st.integers(1, 1_000))
    return records


@settings(max_examples=150)
@given(records=record_lists(), codec=st.integers(0, 4), before=st.integers(0, 100))
def test_records_are_read_with_their_offsets_and_timestamps(
    records: list[Record], codec: int, before: int
) -> None:
    base_offset = records[0].offset - min(before, records[0].offset)
    batch = encode_batch(records, base_offset=base_offset, codec=codec)
    header = decode_header(batch)
    assert decode_records(batch) == records
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.crc == crc_of(batch)
    assert header.size_bytes == len(batch)


@given(record_lists(), st.integers(0, 4))
def test_skimming_sees_the_same_fronts(records: list[Record], codec: int) -> None:
    batch = encode_batch(records, base_offset=records[0].offset, codec=codec)
    assert list(iter_record_heads(batch)) == [
        (record.offset, record.timestamp, -1 if record.key is None else len(record.key)) for record in records
    ]


def test_the_header_says_what_it_was_reported() -> None:
    batch = encode_batch(
        [Record(5, T0, None, None)],
        base_offset=3,
        codec=4,
        producer_id=7,
        producer_epoch=2,
        base_sequence=9,
        leader_epoch=11,
        transactional=True,
        control=True,
    )
    header = decode_header(batch)
    assert (header.base_offset, header.last_offset_delta, header.leader_epoch) == (3, 2, 11)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 9)
    assert (header.codec, header.is_transactional, header.is_control) == (4, True, True)
    assert not header.is_log_append_time


def test_in_a_batch_with_log_append_time_all_records_have_the_batchs_time() -> None:
    records = [Record(i, T0 + i, b"k", b"v") for i in range(3)]
    batch = encode_batch(records, log_append_time=True, max_timestamp=T0 + 99)
    assert [record.timestamp for record in iter_records(batch)] == [T0 + 99] * 3
    assert [head.timestamp for head in iter_record_heads(batch)] == [T0 + 99] * 3
    plain = encode_batch(records)
    stamp_log_append_time(memoryview(plain), T0 + 99)
    assert decode_records(plain) == decode_records(batch)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    records = [Record(0, T0, b"k", None), Record(3, T0 + 5, b"l", b"v")]
    batch = encode_batch(records, delete_horizon_ms=T0 + 1_000_000)
    header = decode_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == T0 + 1_000_000
    assert decode_records(batch) == records


def test_a_compacted_batch_keeps_its_last_offset_even_when_empty() -> None:
    kept = encode_batch([Record(12, T0, b"k", b"v")], base_offset=10, last_offset_delta=9)
    assert (decode_header(kept).last_offset, decode_records(kept)[0].offset) == (19, 12)
    empty = encode_batch([], base_offset=10, last_offset_delta=9, max_timestamp=T0, codec=2, producer_id=4)
    header = decode_header(empty)
    assert (header.last_offset, header.record_count, header.size_bytes) == (19, 0, 61)
    assert (header.max_timestamp, header.producer_id) == (T0, 4)
    assert decode_records(empty) == []
    assert list(iter_record_heads(empty)) == []


def test_header_keys_that_are_not_utf8_survive_being_rewritten() -> None:
    body = b"\x00\x00\x00\x01\x01" + b"\x02" + b"\x04\xff\xfe" + b"\x01"
    batch = batch_of(record_of(body))
    assert encode_batch(decode_records(batch)) == batch


GOOD = b"\x00\x00\x00\x01\x01\x00"


def test_the_smallest_record_is_seven_bytes() -> None:
    assert decode_records(batch_of(record_of(GOOD))) == [Record(0, T0, None, None)]


@pytest.mark.parametrize(
    "data",
    [
        record_of(GOOD[:-1]),
        record_of(GOOD, length=7),
        record_of(GOOD, length=-1),
        record_of(GOOD, length=2**31 - 1),
        record_of(GOOD + b"\x00"),
        record_of(GOOD) + b"\x00",
        b"\xff" * 10 + GOOD,
        b"\x80" * 12,
        record_of(b"\x00" + b"\xff" * 11 + b"\x00\x01\x01\x00"),
        record_of(b"\x00\x00\x02\x01\x01\x00"),
        record_of(b"\x00\x00\x01\x01\x01\x00"),
        record_of(b"\x00\x00\x00\x03\x01\x00"),
        record_of(b"\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00"),
        record_of(b"\x00\x00\x00\x10abc\x01\x00"),
        record_of(b"\x00\x00\x00\x01\x01\x01"),
        record_of(b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f"),
        record_of(b"\x00\x00\x00\x01\x01\x02\x01\x01"),
        record_of(b"\x00\x00\x00\x01\x01\x04\x02h\x01"),
    ],
)
def test_records_that_lie_are_invalid(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode_records(batch_of(data))


@pytest.mark.parametrize("count", [2, 2**31 - 1, -1, -(2**31)])
def test_a_record_count_that_does_not_fit_is_invalid(count: int) -> None:
    batch = batch_of(record_of(GOOD), record_count=count, last_offset_delta=2**31 - 1)
    with pytest.raises(InvalidRecord):
        decode_records(batch)
    with pytest.raises(InvalidRecord):
        list(iter_record_heads(batch))


def test_a_lying_batch_length_or_format_is_corrupt() -> None:
    batch = encode_batch([Record(0, T0, b"k", b"v")])
    for wrong in (batch[:-1], batch + b"\x00", batch[:30], b""):
        with pytest.raises(CorruptMessage):
            decode_records(wrong)
    batch[16] = 1
    with pytest.raises(CorruptMessage):
        decode_records(batch)


def test_timestamps_beyond_64_bits_are_invalid() -> None:
    data = record_of(b"\x00\x02\x00\x01\x01\x00")
    with pytest.raises(InvalidRecord):
        decode_records(batch_of(data, base_timestamp=2**63 - 1))
    with pytest.raises(InvalidRecord):
        encode_batch([Record(0, -(2**63), None, None), Record(1, 2**63 - 1, None, None)])


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_records_that_decompress_to_too_much_are_refused(codec: int) -> None:
    data = compress(codec, record_of(b"\x00\x00\x00\x01" + encode_varint(200_000) + bytes(200_000) + b"\x00"))
    batch = batch_of(data, attributes=codec)
    assert len(decode_records(batch)[0].value or b"") == 200_000
    with pytest.raises(InvalidRecord):
        decode_records(batch, max_bytes=150_000)
    with pytest.raises(InvalidRecord):
        list(iter_record_heads(batch, max_bytes=150_000))


@settings(max_examples=200)
@given(records=record_lists(), position=st.integers(61, 2_000), value=st.integers(0, 255))
def test_damaged_records_are_read_or_refused(records: list[Record], position: int, value: int) -> None:
    batch = encode_batch(records, base_offset=records[0].offset)
    batch[61 + (position - 61) % (len(batch) - 61)] = value
    try:
        decoded = decode_records(batch)
    except InvalidRecord:
        return
    assert len(decoded) == len(records)
