"""Searches by time that take long go to a thread: what they find does not depend on what happens then."""

from __future__ import annotations

import asyncio
import errno

import pytest
from tests.unit.log.bench import NOW_MS, LogBench, append, make_batch

from ottla.log import segment_lookup
from ottla.protocol.errors import KafkaStorageError
from ottla.protocol.records.records import Record, encode_batch


def many_records(count: int, codec: int = 1) -> memoryview:
    """Return a batch of tiny records, each a millisecond later than the one before."""
    return memoryview(encode_batch([Record(i, NOW_MS + i, None, None) for i in range(count)], codec=codec))


async def test_a_batch_of_very_many_records_does_not_hold_up_the_loop() -> None:
    bench = LogBench(segment_bytes=1 << 30)
    append(bench.log, many_records(100_000))
    turns = 0
    search = asyncio.create_task(asyncio.to_thread(bench.log.timestamp_lookup(NOW_MS + 99_999)))
    while not search.done():
        turns += 1
        await asyncio.sleep(0)
    found = await search
    assert found is not None
    assert found.offset == 99_999
    assert turns > 10


@pytest.mark.parametrize("which", ["time", "max"])
def test_a_search_that_has_begun_is_not_disturbed_by_retention_or_appends(which: str) -> None:
    bench = LogBench(segment_bytes=600)
    bench.fill(30)
    target = NOW_MS + 3
    find = bench.log.timestamp_lookup(target) if which == "time" else bench.log.max_timestamp_lookup()
    for path in bench.log.remove_segments(bench.log.sealed[:2], "a test says so"):
        bench.disk.remove(path)
    bench.fill(5, first=30)
    found = find()
    assert found == ((2, target, 0) if which == "time" else (29, NOW_MS + 30, 0))


def test_where_the_first_segments_latest_records_were_deleted_the_search_continues_in_the_next() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    append(bench.log, make_batch("late", timestamp=NOW_MS + 50))
    append(bench.log, make_batch("early", timestamp=NOW_MS))
    bench.log.roll()
    append(bench.log, make_batch("later", timestamp=NOW_MS + 40))
    bench.log.delete_records_before(1)
    assert bench.log.offset_for_time(NOW_MS + 30) == (2, NOW_MS + 40, 0)
    assert bench.log.offset_for_time(NOW_MS + 45) is None
    assert bench.log.max_timestamp_offset() == (2, NOW_MS + 40, 0)


def test_the_largest_timestamp_may_be_among_what_is_left_of_a_segment() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    for late in (50, 10, 20, 20):
        append(bench.log, make_batch("x", timestamp=NOW_MS + late))
    bench.log.roll()
    append(bench.log, make_batch("x", timestamp=NOW_MS + 20))
    bench.log.delete_records_before(1)
    assert bench.log.max_timestamp_offset() == (2, NOW_MS + 20, 0)


def test_a_disk_that_fails_during_the_search_is_a_storage_error() -> None:
    bench = LogBench()
    bench.fill(3)
    find = bench.log.timestamp_lookup(NOW_MS)
    bench.disk.fail("read", errno.EIO)
    with pytest.raises(KafkaStorageError):
        find()


def test_the_latest_timestamp_of_a_sealed_segment_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = LogBench()
    bench.fill(40)
    looked: list[int] = []
    monkeypatch.setattr(segment_lookup, "latest", lambda *_: (looked.append(1), (NOW_MS + 1, 0))[1])
    for _ in range(3):
        bench.log.max_timestamp_offset()
    assert len(looked) == len(bench.log.sealed) > 1


def test_a_segment_that_is_cut_and_sealed_again_forgets_what_was_its_latest_timestamp() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    bench.fill(5)
    bench.log.roll()
    sealed = bench.log.segments[0]
    assert sealed.latest() == (NOW_MS + 5, 4)
    bench.log.truncate_to(2)
    bench.log.roll()
    assert sealed.latest() == (NOW_MS + 2, 1)


@pytest.mark.parametrize("codec", [0, 1])
def test_for_a_lag_a_batch_of_very_many_records_is_not_decoded(codec: int) -> None:
    bench = LogBench(segment_bytes=1 << 20)
    append(bench.log, many_records(5000, codec))
    assert bench.log.timestamp_from(0, 5000) == NOW_MS + 4999


def test_for_a_lag_a_batch_that_unpacks_to_very_much_is_not_decoded() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    records = [Record(i, NOW_MS + i, None, bytes(100_000)) for i in range(5)]
    append(bench.log, memoryview(encode_batch(records, codec=1)))
    assert bench.log.timestamp_from(0, 5) == NOW_MS + 4
