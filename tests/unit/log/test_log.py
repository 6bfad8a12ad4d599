from __future__ import annotations

import pytest
from tests.unit.log.bench import (
    NOW_MS,
    LogBench,
    append,
    make_batch,
    read_batches,
    read_values,
    stored_bytes,
)

from ottla.log.log_config import LogConfig
from ottla.protocol.errors import (
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from ottla.protocol.records.batch import check_batch, check_crc, iter_batches
from ottla.protocol.records.records import Record, decode_records, encode_batch


def test_an_append_stamps_offsets_and_the_leader_epoch_and_nothing_else() -> None:
    bench = LogBench()
    append(bench.log, make_batch("a", "b"))
    original = make_batch("c", "d", "e")
    produced = bytes(original)
    result = append(bench.log, original, leader_epoch=4)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (2, 4, -1)
    header, stored = read_batches(bench.log)[1]
    assert (header.base_offset, header.leader_epoch) == (2, 4)
    assert stored[16:] == produced[16:]
    check_crc(stored, header)


def test_every_read_starts_with_the_batch_that_contains_the_offset_and_ends_with_a_whole_one() -> None:
    bench = LogBench()
    bench.fill(60, per_batch=3)
    assert len(bench.log.segments) > 3
    everything = read_batches(bench.log)
    for offset in range(180):
        for max_bytes in (0, 1, 150, 400, 5000):
            read = bench.log.read(offset, max_bytes, 180)
            found = list(iter_batches(stored_bytes(read.records)))
            assert found[0][0].base_offset == offset - offset % 3
            assert found[-1][0].next_offset == read.next_offset
            assert sum(header.size_bytes for header, _ in found) == len(stored_bytes(read.records))
            assert len(found) == 1 or len(stored_bytes(read.records)) <= max_bytes
    assert [header.base_offset for header, _ in everything] == list(range(0, 180, 3))


def test_without_at_least_one_a_batch_that_is_too_large_is_not_returned() -> None:
    bench = LogBench()
    bench.fill(3)
    read = bench.log.read(1, 10, 3, at_least_one=False)
    assert (read.records, read.next_offset) == (b"", 1)


def test_a_read_never_reaches_past_its_end_offset() -> None:
    bench = LogBench()
    bench.fill(40, per_batch=2)
    for end in range(0, 82, 2):
        read = bench.log.read(0, 1 << 20, end)
        if end == 0:
            assert read.records == b""
        else:
            assert read.next_offset <= end
            last = list(iter_batches(stored_bytes(read.records)))[-1][0]
            assert last.next_offset <= end


def test_reading_at_the_end_finds_nothing_and_beyond_it_is_out_of_range() -> None:
    bench = LogBench()
    bench.fill(5)
    assert bench.log.read(5, 100, 5) == (b"", 5)
    with pytest.raises(OffsetOutOfRange):
        bench.log.read(6, 100, 6)
    bench.log.delete_records_before(2)
    with pytest.raises(OffsetOutOfRange):
        bench.log.read(1, 100, 5)


def test_a_batch_above_max_message_bytes_is_refused() -> None:
    bench = LogBench(max_message_bytes=200)
    with pytest.raises(MessageTooLarge):
        append(bench.log, make_batch("x" * 200))
    assert bench.log.log_end_offset == 0


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    bench = LogBench(segment_bytes=300)
    with pytest.raises(RecordListTooLarge):
        append(bench.log, make_batch("x" * 300))
    append(bench.log, make_batch("y"))
    assert read_values(bench.log) == {0: "y"}


def test_segments_roll_by_size() -> None:
    bench = LogBench(segment_bytes=1000)
    bench.fill(50)
    assert all(segment.size_bytes <= 1000 for segment in bench.log.segments)
    assert [s.base_offset for s in bench.log.segments] == sorted(s.base_offset for s in bench.log.segments)
    assert bench.log.size_bytes == sum(len(batch) for _, batch in read_batches(bench.log))
    assert len(bench.names(".snapshot")) == len(bench.log.segments) - 1


def test_segments_roll_by_the_age_of_their_first_timestamp() -> None:
    bench = LogBench(segment_bytes=1 << 20, segment_ms=1000)
    for ms in (0, 500, 1000, 1001, 1500):
        append(bench.log, make_batch("v", timestamp=NOW_MS + ms))
    assert [segment.base_offset for segment in bench.log.segments] == [0, 3]


@pytest.mark.parametrize(("policy", "segments"), [("compact", 2), ("delete", 1)])
def test_segments_of_compacted_topics_roll_in_time_for_max_compaction_lag(policy: str, segments: int) -> None:
    bench = LogBench(
        segment_bytes=1 << 20,
        segment_ms=10_000,
        segment_jitter_ms=0,
        max_compaction_lag_ms=1000,
        cleanup_policy=frozenset({policy}),
    )
    for age_ms in (0, 1000, 1001):
        append(bench.log, make_batch("x", timestamp=NOW_MS + age_ms))
    assert len(bench.log.segments) == segments


def test_jitter_never_makes_every_append_roll() -> None:
    bench = LogBench(segment_bytes=1 << 20, segment_jitter_ms=10_000, max_compaction_lag_ms=1000)
    bench.configure(cleanup_policy=frozenset({"compact"}))
    for _ in range(5):
        append(bench.log, make_batch("x"))
    assert len(bench.log.segments) == 1


def test_segments_of_records_without_timestamps_roll_by_the_clock() -> None:
    bench = LogBench(segment_bytes=1 << 20, segment_ms=1000)
    append(bench.log, make_batch("v", timestamp=-1))
    bench.clock.advance(1001)
    append(bench.log, make_batch("v", timestamp=-1))
    append(bench.log, make_batch("v", timestamp=-1))
    assert [segment.base_offset for segment in bench.log.segments] == [0, 1]


def test_segments_roll_before_an_index_grows_too_large() -> None:
    bench = LogBench(segment_bytes=1 << 20, index_interval_bytes=1, segment_index_bytes=120)
    bench.fill(40)
    assert len(bench.log.segments) > 1
    assert all(segment.index_bytes <= 120 for segment in bench.log.segments)


def test_segments_roll_before_relative_offsets_overflow() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    append(bench.log, make_batch("a"))
    far = encode_batch([Record(1 << 31, NOW_MS, b"k", b"far")], base_offset=1 << 31)
    bench.log.append_as_follower(memoryview(far))
    assert [segment.base_offset for segment in bench.log.segments] == [0, 1]
    assert read_values(bench.log) == {0: "a", 1 << 31: "far"}


def test_the_configuration_can_be_replaced_while_running() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    bench.fill(20)
    assert len(bench.log.segments) == 1
    bench.configure(segment_bytes=500)
    bench.fill(20, first=20)
    assert len(bench.log.segments) > 4


def test_log_append_time_replaces_the_producers_timestamps() -> None:
    bench = LogBench(timestamp_type="LogAppendTime")
    result = append(bench.log, make_batch("a", "b", timestamp=5))
    assert result.log_append_time_ms == NOW_MS
    header, batch = read_batches(bench.log)[0]
    check_crc(batch, header)
    assert [record.timestamp for record in decode_records(batch)] == [NOW_MS, NOW_MS]
    assert bench.log.max_timestamp_offset() == (0, NOW_MS, 0)


def test_timestamps_too_far_ahead_are_refused() -> None:
    bench = LogBench(timestamp_after_max_ms=1000)
    append(bench.log, make_batch("a", timestamp=NOW_MS + 1000))
    with pytest.raises(InvalidTimestamp):
        append(bench.log, make_batch("b", timestamp=NOW_MS + 1001))


def test_timestamps_too_old_are_refused_where_the_topic_says_so() -> None:
    bench = LogBench(timestamp_before_max_ms=1000)
    append(bench.log, make_batch("a", timestamp=NOW_MS - 1000))
    append(bench.log, make_batch("b", timestamp=-1))
    with pytest.raises(InvalidTimestamp):
        append(bench.log, make_batch("c", timestamp=NOW_MS - 1001))
    assert bench.log.log_end_offset == 2


def test_producers_may_not_claim_log_append_time() -> None:
    with pytest.raises(InvalidTimestamp):
        append(LogBench().log, make_batch("a", log_append_time=True))


def test_a_compacted_topic_refuses_records_without_a_key() -> None:
    bench = LogBench(cleanup_policy=frozenset({"compact"}))
    append(bench.log, make_batch("keyed"))
    batch = memoryview(encode_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")]))
    with pytest.raises(InvalidRecord):
        append(bench.log, batch)
    assert read_values(bench.log) == {0: "keyed"}


@pytest.mark.parametrize(
    ("wanted", "codec"), [("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
@pytest.mark.parametrize("produced", range(5))
def test_a_topic_with_its_own_codec_stores_batches_with_that(wanted: str, codec: int, produced: int) -> None:
    bench = LogBench(compression_type=wanted, segment_bytes=1 << 20)
    batch = make_batch("a" * 500, "b", codec=produced, producer_id=3, producer_epoch=0, base_sequence=0)
    result = append(bench.log, batch)
    assert (result.base_offset, result.last_offset) == (0, 1)
    header, stored = read_batches(bench.log)[0]
    assert header.codec == codec
    assert (header.producer_id, header.record_count, header.max_timestamp) == (3, 2, NOW_MS)
    assert check_batch(memoryview(bytearray(stored))) == header
    assert read_values(bench.log) == {0: "a" * 500, 1: "b"}


def test_a_batch_that_grows_too_large_when_recompressed_is_refused() -> None:
    bench = LogBench(compression_type="uncompressed", max_message_bytes=500)
    with pytest.raises(MessageTooLarge):
        append(bench.log, make_batch("a" * 1000, codec=1))


def test_offsets_are_found_by_time() -> None:
    bench = LogBench()
    for number in range(50):
        append(bench.log, make_batch("a", "b", timestamp=NOW_MS + number * 10))
    for number in range(50):
        for early in (0, 1, 9):
            found = bench.log.offset_for_time(NOW_MS + number * 10 - early)
            assert found is not None
            assert found.offset == 2 * number, (number, early)
    assert bench.log.offset_for_time(NOW_MS + 491) is None


def test_offsets_are_found_by_time_when_timestamps_go_back_and_forth() -> None:
    bench = LogBench()
    times = [5, 3, 9, 9, 1, 12, 2, 20, 19, 18, 25, 0] * 5
    for ms in times:
        append(bench.log, make_batch("v", timestamp=NOW_MS + ms))
    for target in range(-1, 27):
        expected = next((i for i, ms in enumerate(times) if ms >= target), None)
        found = bench.log.offset_for_time(NOW_MS + target)
        assert (None if found is None else found.offset) == expected
    assert bench.log.max_timestamp_offset() == (times.index(25), NOW_MS + 25, 0)


def test_the_record_found_by_time_may_be_inside_a_batch_and_carries_its_own_epoch() -> None:
    bench = LogBench()
    records = [Record(i, NOW_MS + ms, b"k", b"v") for i, ms in enumerate((1, 7, 4, 8))]
    append(bench.log, memoryview(encode_batch(records)), leader_epoch=3)
    append(bench.log, make_batch("later", timestamp=NOW_MS + 30), leader_epoch=5)
    assert bench.log.offset_for_time(NOW_MS + 5) == (1, NOW_MS + 7, 3)
    assert bench.log.offset_for_time(NOW_MS + 9) == (4, NOW_MS + 30, 5)


def test_a_lookup_by_time_never_answers_with_deleted_records() -> None:
    bench = LogBench()
    bench.fill(30, per_batch=2)
    bench.log.delete_records_before(21)
    found = bench.log.offset_for_time(0)
    assert found is not None
    assert found.offset == 21
    bench.log.delete_records_before(60)
    assert bench.log.offset_for_time(0) is None
    assert bench.log.max_timestamp_offset() is None


def test_an_empty_log_has_no_times() -> None:
    log = LogBench().log
    assert log.offset_for_time(0) is None
    assert log.max_timestamp_offset() is None


def test_a_follower_keeps_offsets_and_epochs_and_leaves_out_a_cut_off_batch() -> None:
    leader, follower = LogBench(), LogBench()
    leader.fill(20, per_batch=2, leader_epoch=3)
    leader.fill(20, first=20, per_batch=2, leader_epoch=6)
    data = bytearray().join(batch for _, batch in read_batches(leader.log))
    follower.log.append_as_follower(memoryview(data[:-5]))
    assert follower.log.log_end_offset == 78
    assert follower.log.epochs.entries() == [(3, 0), (6, 40)]
    assert read_batches(follower.log) == read_batches(leader.log)[:-1]


def test_a_follower_refuses_offsets_that_it_has() -> None:
    leader, follower = LogBench(), LogBench()
    leader.fill(3)
    _, batch = read_batches(leader.log)[0]
    follower.log.append_as_follower(memoryview(bytearray(batch)))
    with pytest.raises(OffsetOutOfRange):
        follower.log.append_as_follower(memoryview(bytearray(batch)))


def test_a_follower_may_start_later_than_offset_zero() -> None:
    leader, follower = LogBench(), LogBench()
    leader.fill(5)
    follower.log.truncate_fully_and_start_at(3)
    data = b"".join(batch for _, batch in read_batches(leader.log)[3:])
    follower.log.append_as_follower(memoryview(bytearray(data)))
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (3, 5)
    assert list(read_values(follower.log)) == [3, 4]


def test_leader_epochs_answer_where_they_end() -> None:
    bench = LogBench()
    bench.fill(10, leader_epoch=1)
    bench.fill(10, leader_epoch=4)
    log = bench.log
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 2, 4, 5)] == [
        (0, 0), (1, 10), (1, 10), (4, 20), (-1, -1),
    ]  # fmt: skip
    assert [log.epoch_for_offset(offset) for offset in (0, 9, 10, 19)] == [1, 1, 4, 4]


def test_a_log_configuration_is_read_from_keys_that_kafka_names() -> None:
    class Topic:
        def __getattr__(self, name: str) -> object:
            values = {"cleanup_policy": ["compact", "delete"], "message_timestamp_type": "LogAppendTime"}
            return values.get(name, 17)

    config = LogConfig.from_topic_config(Topic())
    assert config.is_compacted
    assert config.uses_log_append_time
    assert config.segment_bytes == config.timestamp_after_max_ms == 17
