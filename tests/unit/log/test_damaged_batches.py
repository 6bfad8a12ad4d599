"""Recovery of damaged batches: what is cut off, what goes to quarantine, and that all others stay."""

from __future__ import annotations

import logging
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.bench import (
    LogBench,
    append,
    batch_positions,
    filled_bench,
    idempotent,
    make_batch,
    read_batches,
    read_values,
    stored_bytes,
)

from ottla.log.file_names import LOG
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import check_crc, iter_batches

Values = dict[int, str]


@pytest.fixture
def bench() -> LogBench:
    return filled_bench()


@pytest.fixture
def values(bench: LogBench) -> Values:
    return read_values(bench.log)


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
    assert f"{name}: removed {size} unreadable bytes at position {position}" in caplog.text
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
