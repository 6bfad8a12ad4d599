"""After an unclean stop: did only the process end, or did the machine lose what was not flushed?"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition
from ottla.log.boot_id import BOOT_FILE
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.disk import RealDisk
from ottla.log.log_config import LogConfig
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.simulation.disk import SimDisk

PATH = "/data"
HERE = TopicPartition("t", 0)


def open_directory(disk: SimDisk, *, is_replicated: bool = False, is_registered: bool = True) -> LogDirectory:
    directory = LogDirectory(PATH, disk, ManualClock(), node_id=1, cluster_id="c")
    directory.open(lambda _topic: LogConfig(), is_replicated=lambda _: is_replicated)
    if is_registered:
        directory.write_boot_id()
    return directory


def append(directory: LogDirectory, count: int) -> None:
    log = directory.get(HERE) or directory.create(HERE, None, LogConfig())
    for _ in range(count):
        batch = encode_batch([Record(0, 1, None, b"x" * 2000)])
        log.append(memoryview(batch), decode_header(batch), 0, 1)


def test_a_process_that_is_killed_loses_nothing() -> None:
    disk = SimDisk()
    append(open_directory(disk), 5)
    disk.kill()
    again = open_directory(disk)
    assert not again.was_clean
    assert not again.may_have_lost_records
    assert again.logs[HERE].log_end_offset == 5


def test_a_machine_that_loses_power_may_have_lost_records() -> None:
    disk = SimDisk()
    append(open_directory(disk), 5)
    disk.sync_all("/")
    disk.crash(Random(1))
    assert open_directory(disk).may_have_lost_records


def test_what_was_lost_is_said_until_the_cluster_has_heard_it() -> None:
    disk = SimDisk()
    append(open_directory(disk), 5)
    disk.crash(Random(1))
    for _ in range(2):
        assert open_directory(disk, is_registered=False).may_have_lost_records
        disk.kill()
    assert open_directory(disk).may_have_lost_records
    disk.kill()
    assert not open_directory(disk).may_have_lost_records


def test_a_broker_that_is_killed_before_it_is_in_the_cluster_has_lost_nothing_if_it_had_not_before() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    append(directory, 5)
    assert directory.close()
    for _ in range(3):
        assert not open_directory(disk, is_registered=False).may_have_lost_records
        disk.kill()
    disk.crash(Random(1))
    assert open_directory(disk, is_registered=False).may_have_lost_records


def test_logs_that_seem_whole_do_so_until_the_cluster_has_heard_it() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    append(directory, 5)
    directory.storage.flush_failed("flushing", OSError(errno.EIO, "broken"))
    for _ in range(2):
        disk.kill()
        assert open_directory(disk, is_registered=False).seems_whole


def test_after_a_clean_stop_nothing_is_lost_whatever_the_machine_did() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    append(directory, 5)
    assert directory.close()
    disk.crash(Random(1))
    assert not open_directory(disk).may_have_lost_records


def test_a_first_start_has_nothing_to_show_that_it_lost_nothing() -> None:
    assert open_directory(SimDisk()).may_have_lost_records


def test_a_failed_fsync_counts_as_a_loss_at_the_next_start() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    append(directory, 5)
    directory.storage.flush_failed("flushing", OSError(errno.EIO, "broken"))
    disk.kill()
    assert open_directory(disk).may_have_lost_records


def fail_and_end(disk: SimDisk, end: Callable[[], None]) -> LogDirectory:
    directory = open_directory(disk)
    append(directory, 5)
    directory.storage.flush_failed("flushing", OSError(errno.EIO, "broken"))
    end()
    return open_directory(disk)


def test_after_a_failed_disk_logs_seem_whole_if_the_machine_has_run_on() -> None:
    disk = SimDisk()
    assert fail_and_end(disk, disk.kill).seems_whole
    disk.kill()
    again = open_directory(disk)
    assert not again.may_have_lost_records, "that was said once"
    assert not again.seems_whole


def test_after_a_failed_disk_and_a_power_failure_or_damage_nothing_seems_whole() -> None:
    disk, damaged = SimDisk(), SimDisk()

    def lose_power() -> None:
        disk.sync_all("/")
        disk.crash(Random(1))

    def damage() -> None:
        damaged.kill()
        damaged.contents(f"{PATH}/t-0/{0:020d}.log")[3000] ^= 1

    assert not fail_and_end(disk, lose_power).seems_whole
    assert not fail_and_end(damaged, damage).seems_whole


def test_a_disk_that_cannot_even_rename_leaves_no_note() -> None:
    disk = SimDisk()
    disk.fail("rename", errno.EROFS, path_part=BOOT_FILE, times=2)  # when it is opened, and when it fails
    again = fail_and_end(disk, disk.kill)
    assert again.may_have_lost_records
    assert not again.seems_whole


def test_half_an_append_at_the_end_is_no_loss_but_damage_is() -> None:
    disk = SimDisk()
    append(open_directory(disk), 5)
    disk.kill()
    contents = disk.contents(f"{PATH}/t-0/{0:020d}.log")
    del contents[-100:]
    assert not open_directory(disk).may_have_lost_records
    disk.kill()
    contents[3000] ^= 1
    assert open_directory(disk).may_have_lost_records


def test_a_damaged_replica_is_cut_off_if_there_are_others_and_keeps_a_hole_if_not() -> None:
    for is_replicated, end in ((True, 1), (False, 5)):
        disk = SimDisk()
        append(open_directory(disk), 5)
        disk.kill()
        disk.contents(f"{PATH}/t-0/{0:020d}.log")[3000] ^= 1
        again = open_directory(disk, is_replicated=is_replicated)
        assert again.logs[HERE].log_end_offset == end
        assert again.may_have_lost_records
        assert bool(again.logs[HERE].holes) is not is_replicated
        kept = [entry.name for entry in disk.list_dir(f"{PATH}/t-0") if "quarantine" in entry.name]
        assert len(kept) == 1


def test_the_kernel_says_the_same_until_it_is_started_again(tmp_path: Path) -> None:
    disk = RealDisk()
    assert disk.boot_id(str(tmp_path)) == disk.boot_id(str(tmp_path))
    assert disk.boot_id(str(tmp_path / "nowhere")) == ""


def test_the_note_is_in_the_directory() -> None:
    disk = SimDisk()
    open_directory(disk)
    assert disk.exists(f"{PATH}/{BOOT_FILE}")


def test_a_replica_that_lost_its_first_segments_starts_from_the_beginning_again() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    log = directory.create(HERE, None, LogConfig(segment_bytes=4000))
    for _ in range(4):
        batch = encode_batch([Record(0, 1, None, b"x" * 2000)])
        log.append(memoryview(batch), decode_header(batch), 0, 1)
    segments = [entry.name for entry in disk.list_dir(f"{PATH}/t-0") if entry.name.endswith(".log")]
    assert len(segments) > 1
    disk.kill()
    for name in segments:
        del disk.contents(f"{PATH}/t-0/{name}")[:]
    again = open_directory(disk, is_replicated=True)
    assert (again.logs[HERE].log_start_offset, again.logs[HERE].log_end_offset) == (0, 0)
    assert again.may_have_lost_records
