"""A disk that is full, slow to die, or broken: what is refused, what goes on, what is never lost."""

from __future__ import annotations

import errno
import resource
import signal
from pathlib import Path

import pytest
from tests.unit.log.bench import (
    NOW_MS,
    PARTITION,
    LogBench,
    append,
    flush,
    idempotent,
    make_batch,
    read_values,
)

from ottla.common.clock import ManualClock
from ottla.log.disk import RealDisk
from ottla.log.file_names import LOG
from ottla.log.flush import FlushJob
from ottla.log.loading.loader import create_log
from ottla.log.log_config import LogConfig
from ottla.log.storage import Storage
from ottla.protocol.errors import KafkaStorageError


def run_failing(job: FlushJob) -> OSError:
    with pytest.raises(OSError) as caught:
        job.run()
    return caught.value


@pytest.mark.parametrize("room", [0, 1, 30, 61, 70])
def test_on_a_full_disk_a_short_write_is_cut_off_again_and_later_appends_are_tried_afresh(room: int) -> None:
    bench = LogBench()
    append(bench.log, make_batch("kept"))
    size = len(bench.contents(bench.names(LOG)[0]))
    bench.disk.capacity_bytes = bench.disk.used_bytes() + room
    for _ in range(3):
        with pytest.raises(KafkaStorageError, match="No space left"):
            append(bench.log, make_batch("refused"))
        assert len(bench.contents(bench.names(LOG)[0])) == size
    assert bench.storage.offline_reason is None
    assert read_values(bench.log) == {0: "kept"}
    bench.disk.heal()
    assert append(bench.log, make_batch("accepted")).base_offset == 1
    assert read_values(bench.log) == {0: "kept", 1: "accepted"}
    assert read_values(bench.kill()) == {0: "kept", 1: "accepted"}


def test_a_real_short_write_is_cut_off_again(tmp_path: Path) -> None:
    """RLIMIT_FSIZE is a full disk for one process: first a short write, then an error."""
    storage = Storage(RealDisk(), str(tmp_path))
    log = create_log(
        storage, str(tmp_path / str(PARTITION)), PARTITION, None, LogConfig(), ManualClock(NOW_MS)
    )
    append(log, make_batch("kept"))
    file, size = log.active.open_file(), log.active.size_bytes
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, hard))
        with pytest.raises(KafkaStorageError, match="too large"):
            append(log, make_batch("refused"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert file.size() == size
    append(log, make_batch("accepted"))
    assert read_values(log) == {0: "kept", 1: "accepted"}


def test_a_batch_refused_by_a_full_disk_is_not_remembered_as_produced() -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0))
    bench.disk.capacity_bytes = bench.disk.used_bytes() + 5
    with pytest.raises(KafkaStorageError):
        append(bench.log, idempotent("b", sequence=1), leader_epoch=3)
    assert bench.log.epochs.latest_epoch == 0
    bench.disk.heal()
    retried = append(bench.log, idempotent("b", sequence=1), leader_epoch=3)
    assert (retried.base_offset, retried.is_duplicate) == (1, False)


def test_a_disk_that_runs_full_while_rolling_loses_nothing_and_rolls_later() -> None:
    bench = LogBench(segment_bytes=500)
    number = 0
    while bench.log.active.size_bytes + 100 < 500:
        append(bench.log, make_batch(f"v{number}"))
        number += 1
    bench.disk.fail("open", errno.ENOSPC)
    with pytest.raises(KafkaStorageError):
        append(bench.log, make_batch("x" * 60))
    assert bench.storage.offline_reason is None
    assert len(bench.log.segments) == 1
    append(bench.log, make_batch("x" * 60))
    assert len(bench.log.segments) == 2
    assert list(read_values(bench.log)) == list(range(number + 1))


def test_a_disk_that_is_full_when_a_segment_is_sealed_keeps_its_indexes_in_memory_until_the_flush() -> None:
    bench = LogBench(segment_bytes=1000)
    bench.fill(8)
    sealed = bench.log.active
    bench.disk.capacity_bytes = bench.disk.used_bytes() + 3
    bench.log.roll()
    assert sealed.is_sealed
    assert bench.storage.offline_reason is None
    with pytest.raises(KafkaStorageError):
        bench.log.begin_flush()
    assert bench.log.recovery_point == 0
    bench.disk.heal()
    bench.fill(1, first=8)
    flush(bench.log)
    assert bench.log.recovery_point == 9
    assert list(read_values(bench.cut_power(1))) == list(range(9))


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_failed_write_takes_the_directory_offline_for_writes_and_reads_continue(code: int) -> None:
    bench = LogBench()
    bench.fill(3)
    values = read_values(bench.log)
    bench.disk.fail("write", code)
    with pytest.raises(KafkaStorageError):
        append(bench.log, make_batch("x"))
    for refused in (
        lambda: append(bench.log, make_batch("x")),
        bench.log.roll,
        bench.log.begin_flush,
        lambda: bench.log.truncate_to(1),
    ):
        with pytest.raises(KafkaStorageError, match="offline"):
            refused()
    assert read_values(bench.log) == values
    assert read_values(bench.kill()) == values
    append(bench.log, make_batch("back"))


def test_a_torn_append_that_cannot_be_cut_off_takes_the_directory_offline() -> None:
    bench = LogBench()
    append(bench.log, make_batch("kept"))
    bench.disk.capacity_bytes = bench.disk.used_bytes() + 20
    bench.disk.fail("truncate", errno.EIO)
    with pytest.raises(KafkaStorageError):
        append(bench.log, make_batch("torn"))
    assert bench.storage.offline_reason is not None
    bench.disk.heal()
    assert read_values(bench.log) == {0: "kept"}
    assert read_values(bench.kill()) == {0: "kept"}


def test_a_failed_fsync_takes_the_directory_offline_and_is_never_tried_again() -> None:
    bench = LogBench()
    bench.fill(3)
    bench.disk.fail("fsync", errno.EIO)
    job = bench.log.begin_flush()
    assert job is not None
    bench.log.finish_flush(job, run_failing(job))
    assert bench.log.recovery_point == 0
    fsyncs = bench.disk.fsyncs
    with pytest.raises(KafkaStorageError, match="offline"):
        bench.log.begin_flush()
    with pytest.raises(KafkaStorageError, match="offline"):
        append(bench.log, make_batch("x"))
    assert bench.disk.fsyncs == fsyncs
    assert len(read_values(bench.log)) == 3


def test_a_failed_read_is_an_error_of_that_read_only() -> None:
    bench = LogBench()
    bench.fill(3)
    bench.disk.fail("read", errno.EIO)
    with pytest.raises(KafkaStorageError):
        bench.log.read(1, 100, 3)
    assert len(read_values(bench.log)) == 3
    append(bench.log, make_batch("x"))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_file_that_cannot_be_opened_for_now_does_not_take_the_directory_offline(code: int) -> None:
    bench = LogBench()
    bench.fill(1)
    bench.log.active.close()
    bench.disk.fail("open", code, times=2)
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            append(bench.log, make_batch("x"))
    assert bench.storage.offline_reason is None
    append(bench.log, make_batch("x"))
    assert list(read_values(bench.log)) == [0, 1]


def test_a_torn_append_is_cut_off_even_when_no_file_can_be_opened() -> None:
    bench = LogBench()
    bench.fill(1)
    bench.disk.capacity_bytes = bench.disk.used_bytes() + 20
    bench.disk.fail("open", errno.EMFILE)
    with pytest.raises(KafkaStorageError):
        append(bench.log, make_batch("x"))
    assert bench.storage.offline_reason is None
    bench.disk.heal()
    append(bench.log, make_batch("y"))
    assert len(read_values(bench.log)) == 2


@pytest.mark.parametrize("kind", ["open", "fsync_dir"])
def test_a_flush_that_finds_no_descriptor_free_is_tried_again(kind: str) -> None:
    bench = LogBench()
    bench.fill(3)
    job = bench.log.begin_flush()
    assert job is not None
    bench.disk.fail(kind, errno.EMFILE)
    bench.log.finish_flush(job, run_failing(job))
    assert bench.storage.offline_reason is None
    assert bench.log.recovery_point == 0
    bench.flush()
    assert bench.log.recovery_point == 3


def test_half_a_truncation_stops_all_writing() -> None:
    bench = LogBench()
    bench.fill(10)
    bench.disk.fail("truncate", errno.EIO, path_part=LOG)
    with pytest.raises(KafkaStorageError):
        bench.log.truncate_to(5)
    with pytest.raises(KafkaStorageError, match="offline"):
        append(bench.log, make_batch("x"))


def test_a_closed_log_refuses_writes() -> None:
    bench = LogBench()
    bench.log.close(clean=True)
    with pytest.raises(KafkaStorageError, match="closed"):
        append(bench.log, make_batch("x"))
    bench.log.close(clean=True)


def test_a_log_that_cannot_be_closed_cleanly_says_so() -> None:
    bench = LogBench()
    bench.fill(3)
    bench.disk.capacity_bytes = 0
    with pytest.raises(KafkaStorageError):
        bench.log.close(clean=True)
    bench.disk.heal()
    assert len(read_values(bench.kill())) == 3
