from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.compaction.batch_filter import AbortedTransactions, BatchFilter
from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.producers.producer_state import BatchMetadata, ProducerEntry
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import BatchHeader, check_crc, decode_header
from ottla.protocol.records.records import Record, decode_records, encode_batch

NOW = 1_700_000_000_000
DAY = 86_400_000
CODECS = range(5)


@dataclass
class Rules:
    """What a round knows, with a plain dict for the map."""

    latest: dict[bytes, int] = field(default_factory=dict)
    end_offset: int = 10**9
    producers: dict[int, ProducerEntry] = field(default_factory=dict)
    aborted: AbortedTransactions = field(default_factory=AbortedTransactions)
    now_ms: int = NOW
    keep_deletes: bool = False

    def filter(self) -> BatchFilter:
        key_map = OffsetMap(200)
        for key, offset in self.latest.items():
            key_map.put(key, offset)
        return BatchFilter(
            key_map,
            end_offset=self.end_offset,
            producers=self.producers,
            aborted=self.aborted,
            delete_retention_ms=DAY,
            now_ms=self.now_ms,
            keep_deletes=self.keep_deletes,
        )

    def compact(self, batch: bytearray, *, must_keep: bool = False) -> memoryview | bytearray | None:
        return self.filter().compact(decode_header(batch), memoryview(batch), must_keep=must_keep)


def last_seen(epoch: int, last_offset: int | None) -> ProducerEntry:
    entry = ProducerEntry(epoch)
    if last_offset is not None:
        entry.batches = (BatchMetadata(0, 0, last_offset, 0, NOW),)
    return entry


def record(offset: int, key: bytes | None, value: bytes | None = b"value") -> Record:
    return Record(offset, NOW - 1000 + offset, key, value, (("header", b"\x00"), ("empty", None)))


def marker(offset: int, producer_id: int, kind: int) -> bytearray:
    return encode_batch(
        [Record(offset, NOW, struct.pack(">hh", 0, kind), bytes(6))],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def transactional(offset: int, producer_id: int, key: bytes = b"key") -> bytearray:
    return encode_batch(
        [record(offset, key)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=offset,
        transactional=True,
    )


def test_a_batch_that_loses_nothing_is_returned_as_it_is() -> None:
    batch = encode_batch([record(5, b"a"), record(6, b"b")], base_offset=5)
    view = memoryview(batch)
    rules = Rules(latest={b"a": 5, b"b": 6})
    assert rules.filter().compact(decode_header(view), view) is view


@pytest.mark.parametrize("codec", CODECS)
def test_superseded_records_go_and_all_else_of_the_batch_stays(codec: int) -> None:
    batch = encode_batch(
        [record(10, b"a"), record(11, b"b"), record(12, b"c"), record(13, b"d")],
        base_offset=10,
        codec=codec,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        leader_epoch=9,
    )
    before = decode_header(batch)
    kept = Rules(latest={b"a": 50, b"b": 11, b"d": 99}).compact(batch)
    assert kept is not None
    after = decode_header(kept)
    check_crc(kept, after)
    assert decode_records(kept) == [record(11, b"b"), record(12, b"c")]
    changed = {"batch_length", "crc", "record_count", "base_timestamp", "max_timestamp"}
    same = [name for name in BatchHeader._fields if name not in changed]
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert (after.last_offset, after.last_sequence) == (13, before.last_sequence)
    assert after.max_timestamp == record(12, b"c").timestamp


def test_a_batch_with_log_append_time_keeps_it() -> None:
    batch = encode_batch([record(0, b"a"), record(1, b"b")], max_timestamp=NOW + 5, log_append_time=True)
    kept = Rules(latest={b"a": 9}).compact(batch)
    assert kept is not None
    assert decode_header(kept).is_log_append_time
    assert [(r.offset, r.timestamp) for r in decode_records(kept)] == [(1, NOW + 5)]


def test_records_without_a_key_go() -> None:
    kept = Rules().compact(encode_batch([record(0, None), record(1, b"a")]))
    assert kept is not None
    assert [r.offset for r in decode_records(kept)] == [1]


def test_what_lies_past_the_end_of_the_round_stays_whatever_the_map_says() -> None:
    batch = encode_batch([record(4, b"a"), record(5, b"a"), record(6, None)], base_offset=4)
    kept = Rules(latest={b"a": 50}, end_offset=5).compact(batch)
    assert kept is not None
    assert [r.offset for r in decode_records(kept)] == [5, 6]
    view = memoryview(batch)
    assert Rules(latest={b"a": 50}, end_offset=4).filter().compact(decode_header(view), view) is view


def test_a_tombstone_gets_a_horizon_is_kept_until_then_and_goes_after_it() -> None:
    batch = encode_batch([record(0, b"gone", None), record(1, b"here")], codec=1)
    rules = Rules(latest={b"gone": 0, b"here": 1})
    first = rules.compact(batch)
    assert first is not None
    header = decode_header(first)
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW + DAY
    assert decode_records(first) == decode_records(batch)

    rules.now_ms = NOW + DAY - 1
    second = rules.compact(bytearray(first))
    assert second is not None
    assert bytes(second) == bytes(first)

    rules.now_ms = NOW + DAY
    rules.keep_deletes = True  # a replica is out of sync, and may have an earlier value
    assert rules.compact(bytearray(first)) == first
    rules.keep_deletes = False
    third = rules.compact(bytearray(first))
    assert third is not None
    assert decode_records(third) == [record(1, b"here")]
    assert decode_header(third).base_timestamp == NOW + DAY


def test_a_superseded_tombstone_goes_at_once_and_sets_no_horizon() -> None:
    kept = Rules(latest={b"a": 9}).compact(encode_batch([record(0, b"a", None), record(1, b"b")]))
    assert kept is not None
    assert not decode_header(kept).has_delete_horizon


def test_a_batch_without_records_left_goes_unless_it_must_stay() -> None:
    batch = encode_batch([record(7, b"a"), record(8, b"a")], base_offset=7, codec=4, leader_epoch=2)
    rules = Rules(latest={b"a": 8, b"b": 9})
    rules.latest[b"a"] = 30
    assert rules.compact(batch) is None
    bare = rules.compact(batch, must_keep=True)
    assert bare is not None
    header = decode_header(bare)
    check_crc(bare, header)
    assert (len(bare), header.record_count, header.codec) == (61, 0, 0)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (7, 8, 2)
    assert header.max_timestamp == decode_header(batch).max_timestamp
    assert rules.compact(bytearray(bare)) is None
    assert rules.compact(bytearray(bare), must_keep=True) == bare


def test_the_last_batch_of_an_active_producer_stays_as_a_bare_header() -> None:
    batch = encode_batch([record(7, b"a")], base_offset=7, producer_id=5, producer_epoch=1, base_sequence=41)
    rules = Rules(latest={b"a": 30}, producers={5: last_seen(1, 7)})
    bare = rules.compact(batch)
    assert bare is not None
    header = decode_header(bare)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (5, 1, 41)
    rules.producers = {5: last_seen(1, 8)}
    assert rules.compact(batch) is None


def test_a_wrong_checksum_is_not_copied() -> None:
    batch = encode_batch([record(0, b"a"), record(1, b"b")])
    batch[-1] ^= 1
    with pytest.raises(CorruptMessage):
        Rules(latest={b"a": 9}).compact(batch)


def test_a_batch_whose_records_cannot_be_decoded_stays_as_it_is() -> None:
    bomb = encode_batch([record(0, b"a", bytes(9 * 2**20))], codec=4)
    view = memoryview(bomb)
    rules = Rules(latest={b"a": 9}).filter()
    assert rules.compact(decode_header(view), view) is view
    assert rules.undecodable == 1


def test_aborted_records_go_and_committed_ones_are_compared_by_key() -> None:
    aborted, committed = transactional(0, 1), transactional(1, 2)
    scan = AbortedTransactions()
    for batch in (aborted, committed):
        scan.add_batch(decode_header(batch))
    for batch in (marker(2, 1, 0), marker(3, 2, 1)):
        scan.add_marker(decode_header(batch), memoryview(batch))
    rules = Rules(latest={b"key": 1}, aborted=scan)
    assert scan.first_open_offset is None
    assert rules.compact(aborted) is None
    assert rules.compact(committed) == committed
    later = transactional(4, 1)
    assert rules.compact(later) == later, "the next transaction of the same producer is another one"


def test_a_marker_stays_while_records_of_its_transaction_are_left_and_for_a_day_after() -> None:
    records, commit = transactional(0, 1), marker(1, 1, 1)
    rules = Rules(latest={b"key": 0, struct.pack(">hh", 0, 1): 999})
    round_1 = rules.filter()
    assert round_1.compact(decode_header(records), memoryview(records)) == records
    assert round_1.compact(decode_header(commit), memoryview(commit)) == commit

    with_horizon = rules.compact(commit)
    assert with_horizon is not None
    assert decode_header(with_horizon).base_timestamp == NOW + DAY
    assert decode_records(with_horizon) == decode_records(commit)

    rules.now_ms = NOW + DAY - 1
    assert rules.compact(bytearray(with_horizon)) == with_horizon
    rules.now_ms, rules.keep_deletes = NOW + DAY, True
    assert rules.compact(bytearray(with_horizon)) == with_horizon
    rules.keep_deletes = False
    assert rules.compact(bytearray(with_horizon)) is None
    rules.producers = {1: last_seen(0, None)}
    bare = rules.compact(bytearray(with_horizon))
    assert bare is not None
    assert decode_header(bare).is_control
    assert decode_header(bare).record_count == 0


def test_a_control_batch_outside_of_transactions_always_stays() -> None:
    batch = encode_batch([record(0, b"a", None)], control=True)
    assert Rules(latest={b"a": 9}, now_ms=NOW + 9 * DAY).compact(batch) == batch


keys = st.sampled_from([None, b"a", b"b", b"c", b"d"])
batches = st.lists(st.tuples(keys, st.sampled_from([None, b"x"])), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(
    batches, st.dictionaries(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 12)), st.sampled_from(CODECS)
)
def test_compacting_twice_is_compacting_once(
    contents: list[tuple[bytes | None, bytes | None]], latest: dict[bytes, int], codec: int
) -> None:
    records = [record(offset, key, value) for offset, (key, value) in enumerate(contents)]
    rules = Rules(latest=latest)
    once = rules.compact(encode_batch(records, codec=codec))
    expected = [r for r in records if r.key is not None and r.offset >= latest.get(r.key, -1)]
    assert ([] if once is None else decode_records(once)) == expected
    if once is not None:
        assert rules.compact(bytearray(once)) == once
