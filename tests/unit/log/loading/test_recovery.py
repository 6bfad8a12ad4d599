"""What a log is after a crash: the table in recovery.py; damage itself is in test_damaged_*.py."""

from __future__ import annotations

import pytest
from tests.unit.log.bench import (
    DIRECTORY,
    LogBench,
    append,
    batch_positions,
    filled_bench,
    idempotent,
    indexes_of,
    make_batch,
    read_values,
)

from ottla.log.file_names import CORRUPT, HOLES, LOG, file_name

Values = dict[int, str]


@pytest.fixture
def bench() -> LogBench:
    return filled_bench()


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


def test_an_empty_segment_in_the_middle_is_removed(bench: LogBench, values: Values) -> None:
    second = bench.log.segments[1].base_offset
    bench.contents(file_name(second, LOG)).clear()
    log = bench.kill()
    third = log.segments[1].base_offset
    assert log.holes == ((second, third),)
    assert read_values(log) == {k: v for k, v in values.items() if not second <= k < third}
    assert bench.names(LOG) == [file_name(s.base_offset, LOG) for s in log.segments]


def test_a_hole_is_known_until_the_log_is_truncated_there(bench: LogBench) -> None:
    second, third = (segment.base_offset for segment in bench.log.segments[1:3])
    bench.contents(file_name(second, LOG)).clear()
    holes = ((second, third),)
    assert bench.kill().holes == holes
    assert bench.restart().holes == holes  # a clean start, which does not read the batches
    assert bench.kill().holes == holes
    bench.log.truncate_to(third + 2)
    assert bench.restart().holes == holes
    assert bench.names(HOLES) == [HOLES]
    bench.log.truncate_to(second)
    assert bench.log.holes == ()
    assert bench.names(HOLES) == []
    assert bench.restart().holes == ()


def test_a_log_that_starts_anew_has_no_hole(bench: LogBench) -> None:
    bench.contents(file_name(bench.log.segments[1].base_offset, LOG)).clear()
    assert len(bench.kill().holes) == 1
    bench.log.truncate_fully_and_start_at(500)
    assert bench.log.holes == bench.restart().holes == ()
    assert bench.names(HOLES) == []


@pytest.mark.parametrize("text", ["", "0\n1\n7 7\n", "0\n2\n1 2\n", "0\n1\na b\n"])
def test_an_unreadable_file_of_holes_is_set_aside(bench: LogBench, values: Values, text: str) -> None:
    bench.log.close(clean=True)
    bench.disk.write_file(f"{DIRECTORY}/{HOLES}", text.encode(), sync=True)
    log = bench.reopen(is_clean=True)
    assert log.holes == ()
    assert read_values(log) == values
    assert bench.names(HOLES + CORRUPT) == [HOLES + CORRUPT]


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


def test_epochs_past_the_recovery_point_come_from_the_batches_not_the_file() -> None:
    bench = LogBench()
    bench.fill(10, leader_epoch=1)
    bench.flush()
    bench.fill(10, leader_epoch=2)
    log = bench.kill()
    assert log.epochs.entries() == [(1, 0), (2, 10)]


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
