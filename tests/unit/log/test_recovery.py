"""What is found after a crash, and what becomes of it: the table in recovery.py, line by line."""

from __future__ import annotations

import logging
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.bench import (
    DIRECTORY,
    LogBench,
    append,
    idempotent,
    make_batch,
    read_batches,
    read_values,
    stored_bytes,
)

from ottla.log.log import Log
from ottla.log.names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.record_batch import check_crc, iter_batches

Values = dict[int, str]


def indexes_of(bench: LogBench) -> dict[str, bytes]:
    return {name: bytes(bench.contents(name)) for name in bench.names("index")}


def batch_positions(bench: LogBench, log: Log, segment: int) -> list[tuple[int, int]]:
    """Return (position, size) of every batch of one segment."""
    found = log.segments[segment]
    return [(position, header.size_bytes) for position, header in found.headers(0)]


@pytest.fixture
def bench() -> LogBench:
    bench = LogBench()
    bench.fill(40, per_batch=2)
    return bench


@pytest.fixture
def values(bench: LogBench) -> Values:
    return read_values(bench.log)


def test_a_clean_restart_finds_everything_without_reading_more_than_the_tail(bench: LogBench) -> None:
    before = read_values(bench.log)
    epochs, topic_id = bench.log.epochs.entries(), bench.log.topic_id
    for name in bench.names(LOG)[:-1]:
        bench.disk.fail("open", 5, path_part=name)  # sealed segments are not touched
    log = bench.restart()
    bench.disk.heal()
    assert read_values(log) == before
    assert log.recovery_point == log.log_end_offset == 80
    assert (log.epochs.entries(), log.topic_id) == (epochs, topic_id)


def test_after_kill_nine_nothing_is_lost(bench: LogBench, values: Values) -> None:
    log = bench.kill()
    assert read_values(log) == values
    assert log.holes == ()
    assert log.epochs.entries() == [(0, 0)]


def test_indexes_rebuilt_after_a_crash_equal_those_that_were_written(bench: LogBench) -> None:
    bench.log.close(clean=True)
    before = indexes_of(bench)
    bench.reopen(is_clean=False).close(clean=True)
    assert indexes_of(bench) == before


@pytest.mark.parametrize("kept", [1, 12, 60, 61, 90])
def test_a_torn_append_at_the_end_is_cut_off(bench: LogBench, values: Values, kept: int) -> None:
    whole = bench.log.active.size_bytes
    bench.contents(bench.names(LOG)[-1]).extend(bytes(read_batches(bench.log)[-1][1])[:kept])
    log = bench.kill()
    assert read_values(log) == values
    assert log.active.size_bytes == whole == len(bench.contents(bench.names(LOG)[-1]))
    assert bench.names(".quarantine") == []
    append(log, make_batch("next"))
    assert read_values(log) == values | {80: "next"}


def test_zeros_at_the_end_are_cut_off(bench: LogBench, values: Values) -> None:
    bench.contents(bench.names(LOG)[-1]).extend(bytes(5000))
    assert read_values(bench.kill()) == values
    assert bench.names(".quarantine") == []


def test_a_tail_that_is_torn_in_spite_of_a_clean_stop_is_noticed(bench: LogBench, values: Values) -> None:
    bench.log.close(clean=True)
    del bench.contents(bench.names(LOG)[-1])[-3:]
    log = bench.reopen(is_clean=True)
    assert read_values(log) == {offset: value for offset, value in values.items() if offset < 78}


@pytest.mark.parametrize("segment", [0, 1, -1])
def test_a_batch_with_a_flipped_bit_goes_to_quarantine_and_all_others_stay(
    bench: LogBench, values: Values, segment: int, caplog: pytest.LogCaptureFixture
) -> None:
    name = bench.names(LOG)[segment]
    position, size = batch_positions(bench, bench.log, segment)[1]
    lost = bench.log.segments[segment].header_at(position).base_offset
    bench.contents(name)[position + 70] ^= 4
    damaged = bytes(bench.contents(name)[position : position + size])
    with caplog.at_level(logging.ERROR):
        log = bench.kill()
    assert read_values(log) == {k: v for k, v in values.items() if k not in (lost, lost + 1)}
    assert log.holes == ((lost, lost + 2),)
    assert bench.names(".quarantine") == [f"{name}.{position}.quarantine"]
    assert bench.contents(f"{name}.{position}.quarantine") == damaged
    assert f"{name}: {size} bytes at position {position} cannot be read" in caplog.text
    for header, batch in read_batches(log):
        check_crc(batch, header)
    assert log.read(lost, 1, 80).next_offset == lost + 4


@pytest.mark.parametrize("at", range(61))
def test_no_flipped_bit_in_a_header_loses_any_other_batch(at: int) -> None:
    bench = LogBench(segment_bytes=1 << 20)
    bench.fill(10, per_batch=2)
    before = read_batches(bench.log)
    position, _ = batch_positions(bench, bench.log, 0)[4]
    bench.contents(bench.names(LOG)[0])[position + at] ^= 1
    log = bench.kill()
    if 12 <= at < 16:
        # The leader epoch is not under the checksum.
        assert [batch[16:] for _, batch in read_batches(log)] == [batch[16:] for _, batch in before]
    else:
        assert read_batches(log) == before[:4] + before[5:]
        assert log.holes == ((8, 10),)


def test_the_last_batch_with_a_flipped_bit_goes_to_quarantine_and_its_offset_is_used_again(
    bench: LogBench, values: Values
) -> None:
    bench.contents(bench.names(LOG)[-1])[-1] ^= 1
    log = bench.kill()
    assert log.log_end_offset == 78
    assert log.holes == ()
    assert len(bench.names(".quarantine")) == 1
    append(log, make_batch("again"))
    assert read_values(log) == {k: v for k, v in values.items() if k < 78} | {78: "again"}


def test_garbage_between_batches_is_cut_out(bench: LogBench, values: Values) -> None:
    name = bench.names(LOG)[0]
    position, _ = batch_positions(bench, bench.log, 0)[3]
    bench.contents(name)[position:position] = Random(1).randbytes(777)
    log = bench.kill()
    assert read_values(log) == values
    assert len(bench.contents(f"{name}.{position}.quarantine")) == 777


def test_a_batch_inside_the_value_of_a_damaged_one_does_not_come_to_life() -> None:
    bench = LogBench(segment_bytes=1 << 20)
    append(bench.log, make_batch("first"))
    inner = bytes(make_batch("never produced", base_offset=1)).decode("latin-1")
    append(bench.log, make_batch(inner))
    append(bench.log, make_batch("last"))
    position, _ = batch_positions(bench, bench.log, 0)[1]
    bench.contents(bench.names(LOG)[0])[position + 62] ^= 1
    assert read_values(bench.kill()) == {0: "first", 2: "last"}


def test_a_sealed_segment_that_lost_its_tail_leaves_a_hole_and_the_later_ones_stay(
    bench: LogBench, values: Values
) -> None:
    second_base = bench.log.segments[1].base_offset
    del bench.contents(bench.names(LOG)[0])[-20:]
    log = bench.kill()
    assert log.holes == ((second_base - 2, second_base),)
    assert read_values(log) == {
        k: v for k, v in values.items() if k not in (second_base - 2, second_base - 1)
    }
    assert len(bench.names(".quarantine")) == 1


def test_below_the_recovery_point_nothing_is_examined(bench: LogBench) -> None:
    bench.flush()
    assert bench.recovery_point == 80
    bench.fill(5, first=40)
    position, _ = batch_positions(bench, bench.log, 0)[1]
    bench.contents(bench.names(LOG)[0])[position + 70] ^= 4
    bench.disk.fail("open", 5, path_part=bench.names(LOG)[0])
    log = bench.kill()
    bench.disk.heal()
    assert log.log_end_offset == 85
    assert bench.names(".quarantine") == []


def test_a_log_shorter_than_its_recovery_point_is_checked_from_the_beginning(bench: LogBench) -> None:
    bench.flush()
    name = bench.names(LOG)[-1]
    positions = batch_positions(bench, bench.log, -1)
    first = bench.log.active.base_offset
    del bench.contents(name)[positions[-1][0] :]
    bench.contents(name)[positions[0][0] + 70] ^= 4
    log = bench.kill()
    assert log.holes == ((first, first + 2),)
    assert log.log_end_offset == log.recovery_point == 78


@pytest.mark.parametrize("kind", [OFFSET_INDEX, TIME_INDEX])
@pytest.mark.parametrize("segment", [0, -1])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "half an entry", "flipped", "garbage", "too long"])
def test_a_damaged_index_is_rebuilt(
    bench: LogBench, values: Values, kind: str, segment: int, is_clean: bool, damage: str
) -> None:
    bench.log.close(clean=True)
    intact = indexes_of(bench)
    name = file_name(bench.log.segments[segment].base_offset, kind)
    data = bench.contents(name)
    match damage:
        case "missing":
            bench.remove(name)
        case "empty":
            data.clear()
        case "half an entry":
            data.extend(b"\0\0\0")
        case "flipped":
            data[-1] ^= 0x10
        case "garbage":
            data[:] = Random(2).randbytes(len(data))
        case "too long":
            data.extend(bytes(data[-12:] if kind == TIME_INDEX else data[-8:]))
    log = bench.reopen(is_clean=is_clean)
    assert read_values(log) == values
    for offset in range(80):
        assert log.read(offset, 1, 80).next_offset == offset - offset % 2 + 2
        assert log.offset_for_time(log.max_timestamp_offset().timestamp).offset == 78  # type: ignore[union-attr]
    log.close(clean=True)
    if damage in ("missing", "half an entry") or not is_clean:
        assert indexes_of(bench) == intact


def test_an_empty_segment_in_the_middle_is_removed(bench: LogBench, values: Values) -> None:
    second = bench.log.segments[1].base_offset
    bench.contents(file_name(second, LOG)).clear()
    log = bench.kill()
    third = log.segments[1].base_offset
    assert log.holes == ((second, third),)
    assert read_values(log) == {k: v for k, v in values.items() if not second <= k < third}
    assert bench.names(LOG) == [file_name(s.base_offset, LOG) for s in log.segments]


def test_an_empty_last_segment_at_the_end_of_the_log_stays(bench: LogBench, values: Values) -> None:
    bench.log.roll()
    assert bench.log.active.size_bytes == 0
    for log in (bench.kill(), bench.restart()):
        assert read_values(log) == values
        assert log.active.base_offset == log.log_end_offset == 80


def test_an_empty_last_segment_beyond_the_end_of_the_log_is_removed(bench: LogBench) -> None:
    bench.log.roll()
    del bench.contents(bench.names(LOG)[-2])[-3:]
    log = bench.kill()
    assert log.log_end_offset == 78
    append(log, make_batch("dense"))
    assert list(read_values(log)) == list(range(79))


def test_a_directory_without_any_segment_starts_where_the_checkpoint_says() -> None:
    bench = LogBench()
    for name in bench.names(""):
        bench.remove(name)
    log = bench.reopen(is_clean=False, log_start_offset=17)
    assert (log.log_start_offset, log.log_end_offset) == (17, 17)
    assert append(log, make_batch("a")).base_offset == 17


def test_a_log_that_ends_before_its_start_starts_anew_there(bench: LogBench) -> None:
    log = bench.reopen(is_clean=False, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (500, 500, 0)


def test_producers_are_known_again_after_a_crash_and_after_a_clean_stop() -> None:
    bench = LogBench()
    for number in range(30):
        append(bench.log, idempotent("v", sequence=number))
    for restart in (bench.kill, bench.restart):
        log = restart()
        again = append(log, idempotent("v", sequence=29))
        assert (again.is_duplicate, again.base_offset) == (True, 29)
        assert not append(log, idempotent("w", sequence=30)).is_duplicate
        log.truncate_to(30)


@pytest.mark.parametrize("damage", ["flipped", "torn", "empty", "missing"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log(damage: str, is_clean: bool) -> None:
    bench = LogBench()
    for number in range(30):
        append(bench.log, idempotent("v", sequence=number))
    bench.log.close(clean=True)
    intact = bench.log.producers.encode()
    name = bench.names(".snapshot")[-1]
    if damage == "missing":
        bench.remove(name)
    else:
        data = bench.contents(name)
        data[:] = {"flipped": data[:20] + b"\x7f" + data[21:], "torn": data[:30], "empty": b""}[damage]
    log = bench.reopen(is_clean=is_clean)
    assert log.producers.encode() == intact
    assert append(log, idempotent("v", sequence=28)).is_duplicate
    assert bench.names(".corrupt") == ([] if damage == "missing" else [name + ".corrupt"])


@pytest.mark.parametrize(
    "damage", [b"", b"0\n", b"0\n2\n0 0\n", b"\xff\xfe", b"0\n1\n5 x\n", b"0\n2\n3 0\n1 7\n"]
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_epoch_checkpoint_is_set_aside_and_rebuilt_from_the_log(
    damage: bytes, is_clean: bool
) -> None:
    bench = LogBench()
    bench.fill(10, leader_epoch=2)
    bench.fill(10, leader_epoch=5)
    bench.log.close(clean=True)
    bench.contents("leader-epoch-checkpoint")[:] = damage
    log = bench.reopen(is_clean=is_clean)
    assert log.epochs.entries() == [(2, 0), (5, 10)]
    assert bench.contents("leader-epoch-checkpoint.corrupt") == damage


def test_a_damaged_partition_metadata_file_is_set_aside(bench: LogBench) -> None:
    bench.log.close(clean=True)
    bench.contents("partition.metadata")[:] = b"version: 0\ntopic_id: ?"
    assert bench.reopen(is_clean=True).topic_id is None
    assert bench.names(".corrupt") == ["partition.metadata.corrupt"]


def test_epochs_past_the_recovery_point_come_from_the_batches_not_the_file() -> None:
    bench = LogBench()
    bench.fill(10, leader_epoch=1)
    bench.flush()
    bench.fill(10, leader_epoch=2)
    log = bench.kill()
    assert log.epochs.entries() == [(1, 0), (2, 10)]


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_whatever_byte_of_whatever_file_is_damaged_every_untouched_batch_stays(data: st.DataObject) -> None:
    bench = LogBench(segment_bytes=600)
    for number in range(20):
        append(bench.log, idempotent("a", "b", sequence=2 * number), leader_epoch=number // 7)
    before = {batch for _, batch in read_batches(bench.log)}
    bench.log.close(clean=True)
    name = data.draw(st.sampled_from(sorted(n for n in bench.names("") if bench.contents(n))))
    contents = bench.contents(name)
    contents[data.draw(st.integers(0, len(contents) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    touched = 1 if name.endswith(LOG) else 0
    log = bench.reopen(is_clean=False)
    after = {batch for _, batch in read_batches(log)}
    assert len(before - after) <= touched
    if not touched:
        assert log.log_end_offset == 40
        assert append(log, idempotent("a", "b", sequence=38)).is_duplicate
        assert log.epochs.entries() == [(0, 0), (1, 14), (2, 28)]
    assert append(log, make_batch("goes on"), leader_epoch=9).base_offset == log.log_end_offset - 1


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_damage_after_a_clean_stop_is_never_more_than_an_error_of_the_reads_that_meet_it(
    data: st.DataObject,
) -> None:
    bench = LogBench(segment_bytes=600)
    bench.fill(20, per_batch=2)
    before = {batch for _, batch in read_batches(bench.log)}
    bench.log.close(clean=True)
    name = data.draw(st.sampled_from(sorted(n for n in bench.names("") if bench.contents(n))))
    contents = bench.contents(name)
    contents[data.draw(st.integers(0, len(contents) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    log = bench.reopen(is_clean=True)
    found = set()
    for offset in range(min(log.log_end_offset, 40)):
        try:
            read = stored_bytes(log.read(offset, 1, 40).records)
            found |= {bytes(batch) for _, batch in iter_batches(read)}
        except CorruptMessage:
            assert name.endswith(LOG)
    if not name.endswith(LOG):
        assert found == before


def test_leftovers_of_clean_ups_are_removed(bench: LogBench, values: Values) -> None:
    for name in (
        "00000000000000000000.log.deleted", "00000000000000000000.log.cleaned",
        "00000000000000000000.index.swap", "leader-epoch-checkpoint.tmp", "00000000000000000999.index",
    ):  # fmt: skip
        bench.disk.write_file(f"{DIRECTORY}/{name}", b"junk", sync=True)
    log = bench.kill()
    assert read_values(log) == values
    assert (
        bench.names(".deleted") + bench.names(".cleaned") + bench.names(".swap") + bench.names(".tmp") == []
    )
    assert "00000000000000000999.index" not in bench.names("")
