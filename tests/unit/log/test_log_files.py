from __future__ import annotations

from contextlib import suppress

import pytest
from tests.unit.log.bench import (
    DIRECTORY,
    LogBench,
    append,
    flush,
    idempotent,
    make_batch,
    read_batches,
    read_values,
)

from ottla.log.file_names import DELETED, LOG
from ottla.log.segment import Segment
from ottla.protocol.errors import KafkaStorageError
from ottla.protocol.records.batch import BatchHeader, check_batch


# Truncating
@pytest.mark.parametrize("offset", [0, 1, 2, 17, 18, 41, 79])
def test_truncating_cuts_off_the_batch_that_contains_the_offset_and_all_after_it(offset: int) -> None:
    bench = LogBench()
    bench.fill(40, per_batch=2)
    before = read_values(bench.log)
    bench.log.truncate_to(offset)
    end = offset - offset % 2
    assert bench.log.log_end_offset == end
    assert read_values(bench.log) == {k: v for k, v in before.items() if k < end}
    bench.fill(10, first=100)
    expected = read_values(bench.log)
    assert list(expected) == list(range(end + 10))
    for log in (bench.restart(), bench.kill()):
        assert read_values(log) == expected
        assert log.max_timestamp_offset().offset == end + 9  # type: ignore[union-attr]


def test_truncating_to_the_end_or_beyond_changes_nothing() -> None:
    bench = LogBench()
    bench.fill(5)
    bench.log.truncate_to(5)
    bench.log.truncate_to(50)
    assert bench.log.log_end_offset == 5


def test_truncating_forgets_epochs_and_producers_that_are_cut_off() -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0), leader_epoch=1)
    append(bench.log, idempotent("b", sequence=1), leader_epoch=2)
    append(bench.log, idempotent("c", sequence=0, producer_id=8), leader_epoch=3)
    bench.log.truncate_to(1)
    assert bench.log.epochs.entries() == [(1, 0)]
    assert list(bench.log.producers.producers) == [7]
    again = append(bench.log, idempotent("b", sequence=1), leader_epoch=4)
    assert (again.base_offset, again.is_duplicate) == (1, False)


def test_truncating_below_the_recovery_point_lowers_it_durably_first() -> None:
    bench = LogBench()
    bench.fill(30)
    bench.flush()
    bench.log.truncate_to(12)
    assert bench.log.recovery_point == bench.recovery_point == 12
    bench.fill(10, first=50)
    expected = {k: v for k, v in read_values(bench.log).items() if k < 12}
    after = read_values(bench.cut_power(3))
    assert {k: v for k, v in after.items() if k < 12} == expected
    assert all(value.startswith("value-5") for k, value in after.items() if k >= 12)


def test_truncating_fully_starts_anew_at_the_offset() -> None:
    bench = LogBench()
    bench.fill(30, leader_epoch=2)
    append(bench.log, idempotent("a", sequence=0))
    bench.log.truncate_fully_and_start_at(100)
    log = bench.log
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (100, 100, 0)
    assert log.epochs.entries() == []
    assert len(log.producers) == 0
    assert append(log, make_batch("new")).base_offset == 100
    assert read_values(bench.kill()) == {100: "new"}
    assert bench.names(".snapshot") == []


# Log start
def test_deleted_records_are_gone_for_readers_at_once() -> None:
    bench = LogBench()
    bench.fill(20, leader_epoch=1)
    bench.fill(20, leader_epoch=2)
    assert bench.log.delete_records_before(25) == 25
    assert bench.log.delete_records_before(10) == 25
    assert list(read_values(bench.log)) == list(range(25, 40))
    assert bench.log.epochs.entries() == [(2, 25)]
    assert bench.log.delete_records_before(1000) == 40
    assert list(read_values(bench.restart())) == []
    assert bench.log.log_start_offset == 40


# Removing and replacing segments
def test_removed_segments_move_the_start_and_leave_files_to_remove_later() -> None:
    bench = LogBench()
    bench.fill(40)
    going = bench.log.sealed[:2]
    kept = bench.log.segments[2].base_offset
    names = bench.log.remove_segments(going, "too old")
    assert bench.log.log_start_offset == kept
    assert list(read_values(bench.log)) == list(range(kept, 40))
    on_disk = {f"{DIRECTORY}/{name}" for name in bench.names(DELETED)}
    assert on_disk <= set(names)
    assert len(on_disk) == 2 * 3 + 1  # the first segment has no snapshot
    assert list(read_values(bench.kill())) == list(range(kept, 40))
    assert bench.names(DELETED) == []


def test_only_the_oldest_sealed_segments_can_be_removed() -> None:
    bench = LogBench()
    bench.fill(40)
    for wrong in (bench.log.segments, bench.log.sealed[1:2], [bench.log.active]):
        with pytest.raises(ValueError, match="oldest"):
            bench.log.remove_segments(wrong, "wrong")
    assert list(read_values(bench.log)) == list(range(40))
    assert bench.log.remove_segments([], "nothing") == []


def test_a_read_that_has_begun_survives_the_removal_of_its_segment() -> None:
    bench = LogBench()
    bench.fill(40)
    read = bench.log.read(0, 1 << 20, 40)
    whole = bytes(bench.contents(bench.names(LOG)[0]))
    for name in bench.log.remove_segments(bench.log.sealed, "all"):
        bench.disk.remove(name)
    assert not isinstance(read.records, bytes)
    assert read.records.read() == whole


def compacted(bench: LogBench, old: list[Segment], keep: set[int]) -> Segment:
    """Do what the cleaner does: copy some batches of `old` into one segment."""
    new = Segment.create(
        bench.storage, DIRECTORY, old[0].base_offset, bench.config, now_ms=0, suffix=".cleaned"
    )
    for header, batch in batches_of(old):
        if header.base_offset in keep:
            new.append(batch, header)
    new.seal()
    new.fsync()
    return new


def batches_of(segments: list[Segment]) -> list[tuple[BatchHeader, bytes]]:
    return [
        (header, segment.open_file().read_at(position, header.size_bytes))
        for segment in segments
        for position, header in segment.headers(0)
    ]


def test_compacted_segments_take_the_place_of_the_old_ones() -> None:
    bench = LogBench()
    bench.fill(60)
    old = bench.log.sealed[:3]
    end = bench.log.segments[3].base_offset
    keep = {*range(0, end, 7), end - 1}
    values = read_values(bench.log)
    names = bench.log.replace_segments(old, [compacted(bench, old, keep)])
    expected = {k: v for k, v in values.items() if k in keep or k >= end}
    assert read_values(bench.log) == expected
    assert set(bench.names(DELETED)) <= {name.rpartition("/")[2] for name in names}
    for offset in range(60):
        first = min(k for k in expected if k >= offset)
        assert bench.log.read(offset, 1, 60).next_offset == first + 1
    for log in (bench.restart(), bench.kill()):
        assert read_values(log) == expected
        assert log.log_start_offset == 0


def test_segments_that_are_not_there_any_more_cannot_be_replaced() -> None:
    bench = LogBench()
    bench.fill(90)
    old = bench.log.sealed[:2]
    new = compacted(bench, old, {0, bench.log.segments[2].base_offset - 1})
    bench.log.remove_segments(bench.log.sealed[:1], "retention came first")
    values = read_values(bench.log)
    for wrong in (old, [bench.log.active], [bench.log.sealed[0], bench.log.sealed[2]], []):
        with pytest.raises(ValueError, match="next to each other"):
            bench.log.replace_segments(wrong, [new])
    assert read_values(bench.log) == values


@pytest.mark.parametrize("seed", range(40))
def test_a_power_failure_in_the_middle_of_a_replacement_leaves_the_old_or_the_new(seed: int) -> None:
    bench = LogBench()
    bench.fill(60)
    bench.flush()
    old = bench.log.sealed[:3]
    end = bench.log.segments[3].base_offset
    keep = {*range(0, end, 7), end - 1}
    values = read_values(bench.log)
    new = compacted(bench, old, keep)
    bench.disk.fail("rename", 5, path_part=(".log", ".index", ".swap", ".cleaned", "no")[seed % 5])
    with suppress(KafkaStorageError):
        bench.log.replace_segments(old, [new])
    bench.disk.heal()
    after = read_values(bench.cut_power(seed))
    assert after in (values, {k: v for k, v in values.items() if k in keep or k >= end})
    assert bench.names(".swap") + bench.names(".cleaned") + bench.names(".deleted") == []
    assert bench.log.log_end_offset == 60


# Flushing
def test_nothing_needs_a_flush_by_default_until_a_segment_is_sealed() -> None:
    bench = LogBench()
    assert not bench.log.needs_flush(bench.clock.now_ms)
    bench.fill(3)
    assert not bench.log.needs_flush(bench.clock.now_ms + 10**9)
    bench.log.roll()
    assert bench.log.needs_flush(bench.clock.now_ms)
    flush(bench.log)
    assert not bench.log.needs_flush(bench.clock.now_ms)


def test_flush_messages_and_flush_ms_are_honoured() -> None:
    bench = LogBench(flush_messages=3)
    bench.fill(2)
    assert not bench.log.needs_flush(bench.clock.now_ms)
    bench.fill(1)
    assert bench.log.needs_flush(bench.clock.now_ms)
    flush(bench.log)
    bench.configure(flush_messages=1 << 62, flush_ms=500)
    bench.fill(1)
    assert not bench.log.needs_flush(bench.clock.now_ms)
    assert bench.log.needs_flush(bench.clock.now_ms + 500)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_flushed_survives_a_power_failure(seed: int) -> None:
    bench = LogBench()
    bench.fill(37, leader_epoch=1)
    append(bench.log, idempotent("mine", sequence=0), leader_epoch=2)
    bench.flush()
    flushed, topic_id = read_batches(bench.log), bench.log.topic_id
    bench.fill(20, leader_epoch=3)
    log = bench.cut_power(seed)
    assert read_batches(log)[: len(flushed)] == flushed
    assert log.epochs.entries()[:2] == [(1, 0), (2, 37)]
    assert append(log, idempotent("mine", sequence=0)).is_duplicate
    assert log.topic_id == topic_id


def test_a_flush_that_a_truncation_overtook_proves_nothing() -> None:
    bench = LogBench()
    bench.fill(10)
    job = bench.log.begin_flush()
    assert job is not None
    job.run()
    bench.log.truncate_to(5)
    bench.fill(10)
    bench.log.finish_flush(job, None)
    assert bench.log.recovery_point == 0
    assert bench.log.needs_flush(0) is False
    flush(bench.log)
    assert bench.log.recovery_point == 15


def test_one_flush_at_a_time() -> None:
    bench = LogBench()
    bench.fill(3)
    job = bench.log.begin_flush()
    assert job is not None
    assert bench.log.begin_flush() is None
    job.run()
    bench.log.finish_flush(job, None)
    assert bench.log.begin_flush() is None
    bench.fill(1)
    assert bench.log.begin_flush() is not None


def test_an_idle_log_is_closed_and_reopened_without_writing_anything() -> None:
    bench = LogBench()
    bench.fill(30)
    bench.restart()
    bench.disk.fail("write", 5)
    log = bench.restart()
    assert log.log_end_offset == 30


def test_a_producer_that_writes_old_timestamps_is_remembered_by_leader_and_follower() -> None:
    """A backfill: its records are from 1970, its producer is not."""
    leader, follower = LogBench(), LogBench()
    leader.clock.advance(100_000)
    follower.clock.advance(100_000)
    batch = idempotent("a", sequence=0, timestamp=1)
    append(leader.log, batch)
    follower.log.append_as_follower(batch)
    for bench in (leader, follower):
        bench.log.expire_producers(bench.clock.now_ms, 1000)
        assert append(bench.log, idempotent("a", sequence=0, timestamp=1)).is_duplicate


def test_idle_producers_are_forgotten() -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0, producer_id=1))
    bench.clock.advance(1000)
    append(bench.log, idempotent("a", sequence=0, producer_id=2, timestamp=bench.clock.now_ms))
    bench.log.expire_producers(bench.clock.now_ms, 1000)
    assert list(bench.log.producers.producers) == [2]
    assert check_batch(idempotent("a", sequence=9, producer_id=1)).base_sequence == 9
    assert not append(bench.log, idempotent("a", sequence=9, producer_id=1)).is_duplicate
