from __future__ import annotations

import pytest
from tests.unit.log.bench import NOW_MS, LogBench, append, make_batch
from tests.unit.log.transaction_bench import TransactionalProducer

from ottla.protocol.records.records import Record, encode_batch


def test_every_offset_has_the_time_of_its_record_in_whatever_segment() -> None:
    bench = LogBench()
    bench.fill(60, per_batch=3)
    assert len(bench.log.segments) > 3
    for offset in range(180):
        assert bench.log.timestamp_from(offset, 180) == NOW_MS + 1 + offset // 3


def test_records_of_one_batch_have_their_own_times() -> None:
    bench = LogBench()
    records = [Record(index, NOW_MS + 10 * index, None, b"", ()) for index in range(3)]
    append(bench.log, encode_batch(records, codec=1))
    assert [bench.log.timestamp_from(offset, 3) for offset in range(3)] == [NOW_MS, NOW_MS + 10, NOW_MS + 20]


def test_with_log_append_time_it_is_the_time_of_the_append() -> None:
    bench = LogBench(timestamp_type="LogAppendTime")
    append(bench.log, make_batch("a", timestamp=5))
    assert bench.log.timestamp_from(0, 1) == NOW_MS


@pytest.mark.parametrize("offset", [2, 3, 7])
def test_nothing_at_or_beyond_the_end_has_a_time(offset: int) -> None:
    bench = LogBench()
    bench.fill(3)
    assert bench.log.timestamp_from(offset, 2) is None


def test_records_that_were_deleted_have_the_time_of_the_first_that_is_left() -> None:
    bench = LogBench()
    bench.fill(60)
    bench.log.delete_records_before(40)
    assert bench.log.timestamp_from(3, 60) == NOW_MS + 41


def test_a_gap_left_by_compaction_has_the_time_of_the_record_after_it() -> None:
    bench = LogBench()
    batch = encode_batch([Record(0, NOW_MS, None, b"", ()), Record(4, NOW_MS + 4, None, b"", ())])
    bench.log.append_as_follower(memoryview(batch))
    assert bench.log.timestamp_from(2, 5) == NOW_MS + 4
    assert bench.log.timestamp_from(2, 3) is None


def test_the_marker_of_a_transaction_is_no_record_that_a_group_has_not_read() -> None:
    bench = LogBench()
    producer = TransactionalProducer(7)
    producer.write(bench.log, "a")
    producer.end(bench.log, commit=True)
    assert bench.log.timestamp_from(0, 2) == NOW_MS
    assert bench.log.timestamp_from(1, 2) is None
    bench.clock.advance(5)
    append(bench.log, make_batch("b", timestamp=bench.clock.now_ms))
    assert bench.log.timestamp_from(1, 3) == NOW_MS + 5


def test_not_every_marker_of_a_log_is_looked_at() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    producer = TransactionalProducer(7)
    producer.write(bench.log, "a")
    for _ in range(500):
        producer.end(bench.log, commit=True)
    assert bench.log.timestamp_from(1, 501) == NOW_MS
    assert bench.log.timestamp_from(200, 501) is None
