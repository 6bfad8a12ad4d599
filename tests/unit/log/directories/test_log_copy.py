"""A log is moved to another directory while it is written; a kill at any moment leaves one log."""

from __future__ import annotations

import errno
from random import Random

import pytest
from tests.unit.log.bench import append, idempotent, make_batch, read_values

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.checkpoints import RECOVERY_POINTS, decode_offsets
from ottla.log.directories.log_copy import LogCopy
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.file_names import OFFSET_INDEX
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.protocol.errors import KafkaStorageError
from ottla.testing.simulation.disk import SimDisk

AT = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)


class Killed(BaseException):
    """The process ends here."""


class MortalDisk(SimDisk):
    """A disk whose process is killed at a given operation."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.last: int | None = None

    def check(self, kind: str, path: str) -> None:
        self.operations += 1
        if self.last is not None and self.operations > self.last:
            raise Killed
        super().check(kind, path)


def open_all(disk: SimDisk) -> LogDirectories:
    clock = ManualClock()
    found = LogDirectories(
        [LogDirectory(each, disk, clock, node_id=1, cluster_id="c") for each in ("/a", "/b")], clock
    )
    found.open(lambda _topic: CONFIG)
    return found


def a_log(found: LogDirectories, count: int = 40) -> Log:
    log = found.create(AT, new_uuid(), CONFIG)
    for number in range(count):
        append(log, idempotent(f"value {number}", sequence=number))
    log.delete_records_before(3)
    return log


def copy_of(found: LogDirectories, log: Log) -> LogCopy:
    copy = LogCopy(log, found.directories[0], found.directories[1])
    copy.start()
    copy.copy(copy.missing())
    return copy


def check_moved(found: LogDirectories, values: dict[int, str]) -> None:
    assert [AT in each.logs for each in found.directories] == [False, True]
    assert read_values(found.logs[AT]) == values


def test_what_is_appended_meanwhile_is_copied_and_the_producer_continues() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    copy = copy_of(found, log)
    assert copy.lag_bytes == 0
    assert copy.copied_offset == 40
    append(log, idempotent("late", sequence=40))
    assert copy.lag_bytes > 0
    assert copy.copied_offset < 41
    moved = copy.finish()
    values = read_values(moved)
    assert list(values.items())[-1] == (40, "late")
    assert min(values) == 3
    check_moved(found, values)
    assert append(moved, idempotent("late", sequence=40)).is_duplicate
    append(moved, idempotent("later", sequence=41), leader_epoch=1)
    assert log.is_closed
    found.close()
    again = open_all(disk)
    check_moved(again, values | {41: "later"})
    assert again.logs[AT].log_start_offset == 3
    assert again.logs[AT].epochs.latest_epoch == 1


def test_a_round_copies_no_more_than_it_may() -> None:
    found = open_all(SimDisk())
    log = a_log(found)
    values = read_values(log)
    copy = LogCopy(log, found.directories[0], found.directories[1])
    copy.start()
    rounds = 0
    while pieces := copy.missing(300):
        assert sum(each.end - each.start for each in pieces) <= 300
        copy.copy(pieces)
        rounds += 1
        assert copy.copied_bytes <= 300 * rounds
    assert rounds == -(-log.size_bytes // 300)
    assert copy.copied_offset == log.log_end_offset
    copy.finish()
    check_moved(found, values)


def test_after_a_truncation_everything_is_copied_again() -> None:
    found = open_all(SimDisk())
    log = a_log(found)
    copy = copy_of(found, log)
    log.truncate_to(20)
    for number in range(20, 45):
        append(log, make_batch(f"other {number}"))
    moved = copy.finish()
    assert read_values(moved)[30] == "other 30"
    assert moved.truncation_count == 1


def test_segments_that_are_gone_are_not_in_the_copy() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    copy = copy_of(found, log)
    log.remove_segments(log.segments[:2], "retention")
    values = read_values(log)
    copy.finish()
    check_moved(found, values)
    found.close()
    check_moved(open_all(disk), values)


def test_a_target_that_fails_leaves_the_log_in_place() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    copy = copy_of(found, log)
    append(log, idempotent("late", sequence=40))
    disk.fail("fsync", errno.EIO, path_part="/b/")
    with pytest.raises(OSError):
        copy.finish()
    copy.discard()
    assert not log.is_closed
    assert found.get(AT) is log
    append(log, idempotent("later", sequence=41))
    values = read_values(log)
    found.close()
    assert read_values(open_all(disk).logs[AT]) == values


def test_a_log_is_moved_away_from_a_full_disk() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    values = read_values(log)
    copy = copy_of(found, log)
    disk.fail("write", errno.ENOSPC, path_part="/a/", times=1_000)
    moved = copy.finish()
    assert append(moved, idempotent("value 39", sequence=39)).is_duplicate
    append(moved, idempotent("next", sequence=40))
    disk.kill()
    disk.heal()
    again = open_all(disk)
    check_moved(again, values | {40: "next"})
    assert again.logs[AT].epochs.latest_epoch == 0
    segment = moved.segments[0]
    assert disk.read_file(segment.files.path(OFFSET_INDEX))


def test_a_source_that_cannot_be_read_does_not_take_the_target_offline() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    disk.fail("read", errno.EIO, path_part="/a/")
    with pytest.raises(KafkaStorageError, match="reading /a/orders-0"):
        copy_of(found, log)
    assert all(each.storage.offline_reason is None for each in found.directories)


def test_a_complete_copy_that_is_older_than_the_log_does_not_replace_it() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    copy_of(found, log)
    (future,) = [each.name for each in disk.list_dir("/b") if each.name.endswith("-future")]
    disk.rename(f"/b/{future}", f"/b/{future.replace('-future', '-moved')}")
    append(log, idempotent("late", sequence=40))
    values = read_values(log)
    found.write_checkpoints()
    disk.kill()
    again = open_all(disk)
    assert [AT in each.logs for each in again.directories] == [True, False]
    assert read_values(again.logs[AT]) == values


def test_a_copy_that_was_interrupted_is_begun_again() -> None:
    disk = SimDisk()
    found = open_all(disk)
    copy_of(found, a_log(found))
    disk.kill()
    again = open_all(disk)
    assert again.unfinished_moves == {AT: "/b"}
    assert [AT in each.logs for each in again.directories] == [True, False]
    again.directories[1].purge_deleted()
    assert not [each.name for each in disk.list_dir("/b") if each.is_dir]


def _moves(disk: MortalDisk) -> dict[int, str]:
    """Move a log; return its records."""
    found = open_all(disk)
    log = a_log(found)
    values = read_values(log)
    copy = copy_of(found, log)
    found.write_checkpoints()
    disk.operations = 0
    copy.finish()
    return values


def _operations_of_a_move() -> int:
    disk = MortalDisk()
    _moves(disk)
    return disk.operations


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_kill_at_any_moment_leaves_one_log_with_everything(is_power_cut: bool) -> None:
    count = _operations_of_a_move()
    assert count > 15
    homes = set()
    for last in range(count):
        disk = MortalDisk()
        found = open_all(disk)
        log = a_log(found)
        values = read_values(log)
        copy = copy_of(found, log)
        found.write_checkpoints()
        if is_power_cut:
            disk.sync_all("/")
        disk.operations, disk.last = 0, last
        with pytest.raises(Killed):
            copy.finish()
        disk.last = None
        if is_power_cut:
            disk.crash(Random(last))
        else:
            disk.kill()
        again = open_all(disk)
        (home,) = [each.path for each in again.directories if AT in each.logs]
        assert read_values(again.logs[AT]) == values, (last, home)
        assert again.logs[AT].log_start_offset == 3
        append(again.logs[AT], idempotent("next", sequence=40))
        homes.add(home)
    assert homes == {"/a", "/b"}


def _killed_before_the_log_is_removed(disk: MortalDisk) -> dict[int, str]:
    """Kill a broker that has a complete copy, and the log still in place; return the records."""
    found = open_all(disk)
    log = a_log(found)
    values = read_values(log)
    copy = copy_of(found, log)
    disk.fail("rename", errno.EIO, path_part="/b/orders-0.", times=1)
    with pytest.raises(OSError):
        copy.finish()  # at the rename to -moved
    (future,) = [each.name for each in disk.list_dir("/b") if each.name.endswith("-future")]
    disk.rename(f"/b/{future}", f"/b/{future.replace('-future', '-moved')}")
    disk.kill()
    return values


@pytest.mark.parametrize("last", range(8))
def test_a_kill_while_a_move_is_completed_is_completed_by_the_next_start(last: int) -> None:
    disk = MortalDisk()
    values = _killed_before_the_log_is_removed(disk)
    disk.operations, disk.last = 0, last
    try:
        open_all(disk)
    except Killed:
        pass
    disk.last = None
    disk.kill()
    again = open_all(disk)
    (home,) = [each.path for each in again.directories if AT in each.logs]
    assert home == "/b"
    assert read_values(again.logs[AT]) == values


@pytest.mark.parametrize("name", ["/a/orders-0", "/b/orders-0."])
def test_a_move_that_cannot_be_completed_leaves_the_replica_offline_not_empty(name: str) -> None:
    disk = MortalDisk()
    values = _killed_before_the_log_is_removed(disk)
    disk.fail("rename", errno.ENOSPC, path_part=name)
    again = open_all(disk)
    with pytest.raises(KafkaStorageError, match="offline"):
        again.get(AT)
    again.close()
    check_moved(open_all(disk), values)


def test_a_log_that_returns_has_no_recovery_point_of_its_former_time_there() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    log.recovery_point = log.log_end_offset
    found.write_checkpoints()
    moved = copy_of(found, log).finish()
    moved.truncate_to(20)
    back = LogCopy(moved, found.directories[1], found.directories[0])
    back.start()
    log = back.finish()
    points = decode_offsets(disk.read_file(f"/a/{RECOVERY_POINTS}"))
    assert points.get(AT, 0) <= log.log_end_offset == 20


def test_a_copy_that_cannot_get_its_name_keeps_its_log_start() -> None:
    disk = SimDisk()
    found = open_all(disk)
    log = a_log(found)
    values = read_values(log)
    copy = copy_of(found, log)
    disk.fail("rename", errno.ENOSPC, path_part="-moved")
    with pytest.raises(KafkaStorageError, match="renaming"):
        copy.finish()
    found.write_checkpoints()
    disk.kill()
    check_moved(open_all(disk), values)
