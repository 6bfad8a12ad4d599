"""Names are given again: nothing of a log that is gone becomes part of a new one; nothing else is lost."""

from __future__ import annotations

import errno
from random import Random

import pytest
from tests.unit.log.bench import append, make_batch, read_values

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, decode_offsets
from ottla.log.compaction.policy import CLEANER_CHECKPOINT
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.protocol.errors import KafkaStorageError
from ottla.testing.simulation.disk import SimDisk

ROOT = "/data"
ORDERS = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=300)
ALL_FILES = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_CHECKPOINT)


def open_directory(disk: SimDisk) -> LogDirectory:
    directory = LogDirectory(ROOT, disk, ManualClock(), node_id=1, cluster_id="c")
    directory.open(lambda _topic: CONFIG)
    return directory


def new_log(directory: LogDirectory, values: str) -> Log:
    log = directory.create(ORDERS, new_uuid(), CONFIG)
    for value in values:
        append(log, make_batch(value))
    return log


def folders(disk: SimDisk, ending: str) -> list[str]:
    return [entry.name for entry in disk.list_dir(ROOT) if entry.is_dir and entry.name.endswith(ending)]


def named_in(disk: SimDisk) -> list[str]:
    return [
        name
        for name in ALL_FILES
        if disk.exists(f"{ROOT}/{name}") and ORDERS in decode_offsets(disk.read_file(f"{ROOT}/{name}"))
    ]


def with_all_checkpoints(disk: SimDisk) -> LogDirectory:
    """Return a directory with a log that all four checkpoints name."""
    directory = open_directory(disk)
    new_log(directory, "abcdefgh").delete_records_before(6)
    directory.checkpoints.cleaned_to[ORDERS] = 4
    directory.checkpoints.capture_cleaned_to()()
    directory.write_checkpoints({ORDERS: 8})
    assert named_in(disk) == list(ALL_FILES)
    return directory


def test_segments_that_a_failed_delete_left_behind_do_not_return_in_the_next_topic() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    new_log(directory, "abcdefghij")
    disk.fail("rename", errno.ENOSPC)
    with pytest.raises(KafkaStorageError):
        directory.delete(ORDERS)
    assert read_values(new_log(directory, "xy")) == {0: "x", 1: "y"}
    disk.kill()
    again = open_directory(disk)
    assert read_values(again.logs[ORDERS]) == {0: "x", 1: "y"}
    assert again.purge_deleted() == 1


def test_a_create_that_was_broken_off_can_be_tried_again() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    disk.fail("open", errno.ENOSPC, path_part=".index")
    with pytest.raises(KafkaStorageError):
        new_log(directory, "")
    assert read_values(new_log(directory, "x")) == {0: "x"}
    assert len(folders(disk, "-delete")) == 1


def test_a_directory_of_unknown_origin_is_kept_when_its_name_is_given_to_a_new_log() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    disk.make_dir(f"{ROOT}/{ORDERS}")
    disk.write_file(f"{ROOT}/{ORDERS}/00000000000000000000.log", b"precious", sync=True)
    assert read_values(new_log(directory, "x")) == {0: "x"}
    (kept,) = folders(disk, "-stray")
    assert disk.read_file(f"{ROOT}/{kept}/00000000000000000000.log") == b"precious"
    assert directory.purge_deleted() == 0


@pytest.mark.parametrize("how", ["delete", "move_to_stray"])
def test_no_checkpoint_names_a_log_that_is_gone_once_they_are_written_again(how: str) -> None:
    disk = SimDisk()
    directory = with_all_checkpoints(disk)
    getattr(directory, how)(ORDERS)
    directory.write_checkpoints()
    assert named_in(disk) == []


def test_a_new_log_waits_for_checkpoints_that_do_not_name_the_old_one() -> None:
    disk = SimDisk()
    directory = with_all_checkpoints(disk)
    directory.delete(ORDERS)
    disk.fail("rename", errno.ENOSPC, path_part=LOG_STARTS)
    with pytest.raises(KafkaStorageError):
        new_log(directory, "xyz")
    log = new_log(directory, "xyz")
    assert named_in(disk) == []
    assert log.log_start_offset == 0
    disk.kill()
    again = open_directory(disk).logs[ORDERS]
    assert read_values(again) == {0: "x", 1: "y", 2: "z"}


def test_checkpoints_captured_before_a_deletion_and_written_after_it_do_not_count_as_new_ones() -> None:
    disk = SimDisk()
    directory = with_all_checkpoints(disk)
    late = directory.capture_checkpoints()
    directory.delete(ORDERS)
    late()
    new_log(directory, "xyz")
    assert LOG_STARTS not in named_in(disk)


def test_what_is_left_in_the_checkpoints_of_a_log_that_a_crash_took_is_dropped() -> None:
    disk = SimDisk()
    directory = with_all_checkpoints(disk)
    directory.delete(ORDERS)
    disk.kill()
    directory = open_directory(disk)
    assert named_in(disk) == list(ALL_FILES)
    new_log(directory, "xyz")
    assert named_in(disk) == []


def test_a_log_that_cannot_be_opened_once_keeps_its_checkpoints() -> None:
    disk = SimDisk()
    with_all_checkpoints(disk).close()
    disk.fail("open", errno.EIO, path_part=str(ORDERS))
    directory = open_directory(disk)
    assert set(directory.failed) == {ORDERS}
    directory.write_checkpoints({})
    directory.checkpoints.capture_cleaned_to()()
    assert named_in(disk) == list(ALL_FILES)
    directory.close()
    disk.heal()
    again = open_directory(disk)
    assert read_values(again.logs[ORDERS]) == {6: "g", 7: "h"}
    assert again.checkpoints.cleaned_to == {ORDERS: 4}


def test_records_below_a_log_start_that_cannot_be_right_are_kept_in_quarantine() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    log = new_log(directory, "abcdefgh")
    before = {s.files.path(".log"): disk.read_file(s.files.path(".log")) for s in log.segments}
    directory.write_checkpoints()
    disk.contents(f"{ROOT}/{LOG_STARTS}")[:] = b"0\n1\norders 0 500\n"
    disk.kill()
    again = open_directory(disk).logs[ORDERS]
    assert (again.log_start_offset, again.log_end_offset) == (500, 500)
    for path, data in before.items():
        assert disk.read_file(f"{path}.500.quarantine") == data


@pytest.mark.parametrize("seed", range(10))
def test_a_deletion_is_durable_once_the_checkpoints_are_written(seed: int) -> None:
    disk = SimDisk()
    directory = with_all_checkpoints(disk)
    directory.close()
    directory = open_directory(disk)
    fsyncs = disk.fsyncs
    directory.delete(ORDERS)
    assert disk.fsyncs == fsyncs, "a thousand partitions must not cost a thousand fsyncs"
    directory.write_checkpoints()
    disk.crash(Random(seed))
    assert not open_directory(disk).logs


def test_the_longest_topic_name_can_be_set_aside() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    partition = TopicPartition("t" * 249, 0)
    directory.create(partition, new_uuid(), CONFIG)
    assert len(directory.move_to_stray(partition)) <= 255
