"""The batch header: what is read, what is refused, and what the leader writes into it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from ottla.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ottla.protocol.records.batch import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    check_batch,
    check_crc,
    crc_of,
    decode_header,
    iter_batches,
    stamp,
    stamp_log_append_time,
)
from ottla.protocol.records.records import Record, decode_records, encode_batch


def a_batch(count: int = 3, **changes: int) -> bytearray:
    """Return a good batch with some header fields changed and the checksum made right again."""
    batch = encode_batch([Record(i, 1_000 + i, b"k", b"v") for i in range(count)])
    header = decode_header(batch)._replace(**changes)
    HEADER.pack_into(batch, 0, *header)
    if "crc" not in changes:
        struct.pack_into(">I", batch, 17, crc_of(batch))
    return batch


def check(batch: bytearray) -> BatchHeader:
    return check_batch(memoryview(batch))


def test_the_header_is_61_bytes_and_reads_back_in_order() -> None:
    fields = (1, 2, 3, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    assert HEADER.size == HEADER_BYTES
    assert decode_header(b"xx" + HEADER.pack(*fields), 2) == fields


def test_a_header_that_is_cut_off_is_corrupt() -> None:
    with pytest.raises(CorruptMessage):
        decode_header(bytes(60))
    with pytest.raises(CorruptMessage):
        decode_header(bytes(61), 1)


def test_the_derived_fields_follow_from_the_header() -> None:
    header = decode_header(
        a_batch(5, base_offset=100, attributes=0b0011_0000, producer_id=7, producer_epoch=0)
    )
    assert (header.last_offset, header.next_offset) == (104, 105)
    assert header.is_transactional
    assert header.is_control
    assert not header.is_log_append_time
    assert not header.has_delete_horizon
    assert header.codec == 0
    assert header.size_bytes == len(a_batch(5))
    assert decode_header(a_batch(attributes=0b0100_1100)).codec == 4
    assert decode_header(a_batch(attributes=0b0100_1100)).is_log_append_time
    assert decode_header(a_batch(attributes=0b0100_1100)).has_delete_horizon


def test_sequence_numbers_wrap_at_two_to_the_31() -> None:
    header = decode_header(a_batch(3, base_sequence=2**31 - 2))
    assert header.last_sequence == 0
    assert decode_header(a_batch(3, base_sequence=5)).last_sequence == 7
    assert decode_header(a_batch(3)).last_sequence == -1


def test_a_good_batch_passes_and_gives_its_header() -> None:
    batch = a_batch(4, producer_id=9, producer_epoch=0, base_sequence=0)
    assert check(batch) == decode_header(batch)


@pytest.mark.parametrize("position", [21, 30, 60, 61, 70])
def test_a_flipped_bit_under_the_checksum_is_corrupt(position: int) -> None:
    batch = a_batch()
    batch[position] ^= 0x01
    with pytest.raises(CorruptMessage, match="CRC32C"):
        check(batch)
    with pytest.raises(CorruptMessage, match="CRC32C"):
        check_crc(batch, decode_header(batch))


def test_base_offset_and_leader_epoch_are_not_under_the_checksum() -> None:
    batch = a_batch()
    stamp(memoryview(batch), 2**40, 17)
    header = check(batch)
    assert (header.base_offset, header.leader_epoch) == (2**40, 17)
    assert [record.offset for record in decode_records(batch)] == [2**40, 2**40 + 1, 2**40 + 2]
    assert DefaultRecordBatch(bytes(batch)).validate_crc()


def test_log_append_time_replaces_every_timestamp_and_keeps_the_checksum_right() -> None:
    batch = a_batch()
    stamp_log_append_time(memoryview(batch), 5_555)
    header = check(batch)
    assert header.is_log_append_time
    assert header.max_timestamp == 5_555
    assert [record.timestamp for record in decode_records(batch)] == [5_555] * 3
    assert [record.timestamp for record in DefaultRecordBatch(bytes(batch))] == [5_555] * 3


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_as_such(magic: int) -> None:
    with pytest.raises(UnsupportedForMessageFormat):
        check(a_batch(magic=magic))
    short = bytearray(30)
    short[16] = magic
    with pytest.raises(UnsupportedForMessageFormat):
        check(short)


def test_a_format_of_the_future_is_corrupt() -> None:
    with pytest.raises(CorruptMessage):
        check(a_batch(magic=3))


def test_more_or_less_than_one_batch_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="not none"):
        check(bytearray())
    with pytest.raises(InvalidRecord, match="not several"):
        check(a_batch() + a_batch())
    with pytest.raises(CorruptMessage):
        check(a_batch()[:-1])
    with pytest.raises(CorruptMessage):
        check(a_batch()[:40])


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31)])
def test_a_lying_length_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptMessage):
        check(a_batch(batch_length=length))


@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": 0},
        {"record_count": -1},
        {"record_count": 4},
        {"last_offset_delta": 1},
        {"last_offset_delta": -1, "record_count": 0},
        {"producer_id": 5},
        {"producer_id": 5, "producer_epoch": 0},
        {"producer_id": -2},
        {"attributes": 0x10},
        {"attributes": 0x40},
    ],
)
def test_headers_that_contradict_themselves_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidRecord):
        check(a_batch(**changes))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        check(a_batch(attributes=codec))


def test_batches_are_iterated_and_a_cut_off_last_one_is_left_out() -> None:
    one, two = a_batch(1), a_batch(2, base_offset=1)
    assert [(h.base_offset, bytes(b)) for h, b in iter_batches(one + two)] == [(0, one), (1, two)]
    for cut in (1, 20, len(two) - 1):
        assert [bytes(b) for _, b in iter_batches(one + two[:cut])] == [one]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("changes", [{"batch_length": 48}, {"batch_length": -12}, {"magic": 9}])
def test_iterating_over_nonsense_raises_instead_of_looping(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptMessage):
        list(iter_batches(a_batch(**changes)))


@given(st.binary(max_size=120))
def test_random_bytes_are_refused_with_a_kafka_error(junk: bytes) -> None:
    with pytest.raises(KafkaError):
        check_batch(memoryview(junk))


@given(position=st.integers(0, 80), value=st.integers(0, 255))
def test_a_batch_with_any_one_byte_changed_passes_only_where_the_leader_writes(
    position: int, value: int
) -> None:
    batch = a_batch()
    position %= len(batch)
    before = batch[position]
    batch[position] = value
    if value == before or position < 8 or 12 <= position < 16:
        check(batch)
    else:
        with pytest.raises(KafkaError):
            check(batch)
