from __future__ import annotations

from struct import iter_unpack, pack
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.bench import idempotent

from ottla.log.producers.producer_state import GRACE_MS, CorruptSnapshot, ProducerState
from ottla.protocol.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequenceNumber
from ottla.protocol.records.batch import BatchHeader, decode_header
from ottla.protocol.records.records import Record, encode_batch

LAST_SEQUENCE = (1 << 31) - 1


def header(sequence: int, count: int = 1, **fields: Any) -> BatchHeader:
    return decode_header(idempotent(*["v"] * count, sequence=sequence, **fields))


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for each in headers:
        state.replay(each._replace(base_offset=state.end_offset), None)
    return state


def test_each_of_the_last_five_batches_is_recognised_with_its_offsets() -> None:
    state = state_after(*(header(sequence, 2) for sequence in range(0, 14, 2)))
    for sequence in range(4, 14, 2):
        repeated = state.check(header(sequence, 2))
        assert repeated is not None
        assert (repeated.first_offset, repeated.last_offset) == (sequence, sequence + 1)


def test_what_is_older_than_five_batches_or_cut_differently_is_out_of_order() -> None:
    state = state_after(*(header(sequence, 2) for sequence in range(0, 14, 2)))
    for sequence, count in ((2, 2), (10, 1), (10, 4), (15, 1), (11, 3)):
        with pytest.raises(OutOfOrderSequenceNumber):
            state.check(header(sequence, count))
    assert state.check(header(14)) is None


def test_an_unknown_producer_may_start_with_any_sequence_number() -> None:
    assert ProducerState().check(header(42)) is None


def test_sequence_numbers_go_round() -> None:
    state = state_after(header(LAST_SEQUENCE - 1, 2))
    assert state.check(header(0)) is None
    state = state_after(header(LAST_SEQUENCE, 3))
    entry = state.producers[7]
    assert entry.last_sequence == 1
    assert state.check(header(2)) is None
    assert state.check(header(LAST_SEQUENCE, 3)) is not None


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one() -> None:
    state = state_after(header(0), header(1), header(0, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(2, epoch=0))
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check(header(1, epoch=2))
    assert state.check(header(0, epoch=2)) is None
    assert state.check(header(0, epoch=1)) is not None


def test_a_transaction_is_remembered_from_its_first_batch_to_its_marker() -> None:
    state = state_after(header(0), header(1, transactional=True), header(2, transactional=True))
    assert state.first_open_offset() == 1
    with pytest.raises(InvalidTxnState):
        state.check(header(3))
    marker = encode_batch(
        [Record(3, 99, pack(">hh", 0, 1), pack(">hi", 0, 12))],
        base_offset=3, producer_id=7, producer_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    state.replay(decode_header(marker), memoryview(marker))
    assert state.first_open_offset() is None
    assert (state.producers[7].coordinator_epoch, state.producers[7].last_timestamp) == (12, 99)
    assert state.check(header(3)) is None
    assert state.end_offset == 4


def test_a_snapshot_has_kafkas_layout() -> None:
    state = state_after(header(5, 3, producer_id=900, epoch=2, timestamp=1234))
    body = pack(">i", 1) + pack(">qhiqiqiq", 900, 2, 7, 2, 2, 1234, -1, -1)
    assert state.encode() == pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_keeps_the_last_batches_of_every_producer_and_open_transactions() -> None:
    state = state_after(
        header(0), header(1), header(0, 2, producer_id=8), header(0, producer_id=9, transactional=True)
    )
    again = ProducerState.decode(state.encode(), state.end_offset)
    assert again.encode() == state.encode()
    assert again.end_offset == 5
    repeated = again.check(header(0, 2, producer_id=8))
    assert repeated is not None
    assert repeated.first_offset == 2
    assert again.first_open_offset() == 4
    for number in (0, 1):
        repeated = again.check(header(number))
        assert repeated is not None
        assert repeated == state.check(header(number))


def test_kafka_reads_the_last_entry_of_a_producer_and_we_read_all() -> None:
    state = state_after(*(header(number) for number in range(8)))
    entries = list(iter_unpack(">qhiqiqiq", state.encode()[10:]))
    assert [entry[2] for entry in entries] == [3, 4, 5, 6, 7]  # the last sequence numbers, oldest first
    again = ProducerState.decode(state.encode(), 8)
    assert again.producers[7].batches == state.producers[7].batches


@given(st.data())
def test_no_damage_to_a_snapshot_goes_unnoticed(data: st.DataObject) -> None:
    whole = bytearray(state_after(*(header(0, producer_id=i) for i in range(3))).encode())
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptSnapshot):
        ProducerState.decode(bytes(whole), 3)


def test_producers_expire_when_idle_but_not_inside_a_transaction() -> None:
    state = state_after(
        header(0, producer_id=1, timestamp=100),
        header(0, producer_id=2, timestamp=200),
        header(0, producer_id=3, timestamp=100, transactional=True),
    )
    for entry in state.producers.values():
        entry.appended_ms = 100
    state.expire(now_ms=300, expiration_ms=200)
    assert list(state.producers) == [2, 3]


def test_a_producer_with_old_timestamps_is_not_idle_while_it_writes() -> None:
    state, hour_ms = ProducerState(), 3_600_000
    for hour in range(50):
        batch = header(hour, timestamp=hour)
        state.update(batch, hour, hour, hour * hour_ms)
        state.expire(now_ms=hour * hour_ms + 1, expiration_ms=24 * hour_ms)
        assert state.check(batch) is not None, "a retry is a duplicate"
    state.expire(now_ms=73 * hour_ms, expiration_ms=24 * hour_ms)
    assert not state.producers


def test_after_a_restart_a_producer_with_old_timestamps_has_an_hour() -> None:
    day_ms = 24 * GRACE_MS
    state = ProducerState.decode(state_after(header(0, timestamp=100)).encode(), 1)
    state.expire(now_ms=10 * day_ms, expiration_ms=day_ms)
    state.expire(now_ms=10 * day_ms + GRACE_MS - 1, expiration_ms=day_ms)
    assert state.check(header(0, timestamp=100)) is not None
    state.expire(now_ms=10 * day_ms + GRACE_MS, expiration_ms=day_ms)
    assert not state.producers
