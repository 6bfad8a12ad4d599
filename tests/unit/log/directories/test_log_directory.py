from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.bench import append, flush, idempotent, make_batch, read_values

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.checkpoints import CLEAN_SHUTDOWN, LOG_STARTS, META_PROPERTIES, RECOVERY_POINTS
from ottla.log.directories.log_directory import LogDirectory, LogDirectoryError
from ottla.log.disk import Disk, RealDisk
from ottla.log.log_config import LogConfig
from ottla.protocol.errors import KafkaStorageError
from ottla.testing.simulation.disk import SimDisk

ROOT = "/data"
ORDERS = [TopicPartition("orders", number) for number in range(3)]
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def open_directory(disk: Disk, path: str = ROOT, *, node_id: int = 1, cluster_id: str = "c") -> LogDirectory:
    directory = LogDirectory(path, disk, ManualClock(), node_id=node_id, cluster_id=cluster_id)
    directory.open(lambda _topic: CONFIG)
    return directory


def filled(disk: Disk, path: str = ROOT) -> LogDirectory:
    directory = open_directory(disk, path)
    for partition in ORDERS:
        log = directory.create(partition, new_uuid(), CONFIG)
        for number in range(20 + partition.partition):
            append(log, make_batch(f"{partition}:{number}"))
    return directory


def contents(directory: LogDirectory) -> dict[TopicPartition, dict[int, str]]:
    return {partition: read_values(log) for partition, log in directory.logs.items()}


def test_a_clean_stop_and_start_keeps_everything(tmp_path: Path) -> None:
    disk = RealDisk()
    directory = filled(disk, str(tmp_path / "data"))
    before, ids = contents(directory), {p: log.topic_id for p, log in directory.logs.items()}
    assert not directory.was_clean
    assert directory.close(high_watermarks={ORDERS[0]: 17})
    again = open_directory(disk, str(tmp_path / "data"))
    assert again.was_clean
    assert contents(again) == before
    assert {p: log.topic_id for p, log in again.logs.items()} == ids
    assert again.high_watermarks == {ORDERS[0]: 17}
    assert not (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
    again.close()


@pytest.mark.parametrize("seed", range(10))
def test_a_clean_stop_survives_a_power_failure_right_after_it(seed: int) -> None:
    disk = SimDisk()
    directory = filled(disk)
    before = contents(directory)
    assert directory.close()
    disk.crash(Random(seed))
    again = open_directory(disk)
    assert again.was_clean
    assert contents(again) == before


@pytest.mark.parametrize("seed", range(10))
def test_the_start_after_a_clean_stop_counts_as_unclean_again_until_the_next_one(seed: int) -> None:
    disk = SimDisk()
    filled(disk).close()
    open_directory(disk)
    disk.crash(Random(seed))
    again = open_directory(disk)
    assert not again.was_clean
    assert {partition: len(values) for partition, values in contents(again).items()} == {
        ORDERS[0]: 20, ORDERS[1]: 21, ORDERS[2]: 22,
    }  # fmt: skip


def test_only_what_is_past_the_recovery_point_is_examined_after_a_crash() -> None:
    disk = SimDisk()
    directory = filled(disk)
    log = directory.logs[ORDERS[0]]
    flush(log)
    directory.write_checkpoints()
    before = contents(directory)
    first = log.segments[0].files.path(".log")
    disk.kill()
    disk.fail("open", errno.EIO, path_part=first)
    again = open_directory(disk)
    disk.heal()
    assert contents(again) == before
    assert again.failed == {}


def test_a_second_broker_learns_who_holds_the_directory(tmp_path: Path) -> None:
    first = open_directory(RealDisk(), str(tmp_path))
    with pytest.raises(LogDirectoryError, match=r"in use by process \d+"):
        open_directory(RealDisk(), str(tmp_path))
    first.close()
    open_directory(RealDisk(), str(tmp_path)).close()


def test_a_directory_of_another_broker_is_refused() -> None:
    disk = SimDisk()
    open_directory(disk).close()
    with pytest.raises(LogDirectoryError, match="belongs to node 1 of cluster c"):
        open_directory(disk, node_id=2)
    with pytest.raises(LogDirectoryError, match="belongs to node 1 of cluster c"):
        open_directory(disk, cluster_id="d")
    open_directory(disk).close()


def test_meta_properties_that_cannot_be_read_stop_the_start_with_advice() -> None:
    disk = SimDisk()
    open_directory(disk).close()
    disk.contents(f"{ROOT}/{META_PROPERTIES}")[:] = b"garbage"
    with pytest.raises(LogDirectoryError, match="restore it, or remove it"):
        open_directory(disk)


def test_a_directory_has_an_id_of_its_own() -> None:
    disk = SimDisk()
    directory = filled(disk)
    directory.close()
    assert open_directory(disk).directory_id == directory.directory_id
    assert open_directory(SimDisk()).directory_id != directory.directory_id


@pytest.mark.parametrize("has_logs", [True, False])
def test_logs_without_meta_properties_keep_the_id_that_the_cluster_knows(has_logs: bool) -> None:
    disk = SimDisk()
    directory = filled(disk) if has_logs else open_directory(disk)
    directory.close()
    disk.remove(f"{ROOT}/{META_PROPERTIES}")
    known = directory.directory_id
    again = LogDirectory(ROOT, disk, ManualClock(), node_id=1, cluster_id="c", directory_id=known)
    again.open(lambda _topic: CONFIG)
    assert (again.directory_id == known) == has_logs


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS])
@pytest.mark.parametrize("damage", [b"", b"0\n3\norders 0 5\n", b"\xff\x00", b"0\n1\norders 0 -7\n"])
def test_a_damaged_checkpoint_only_means_more_work(name: str, damage: bytes) -> None:
    disk = SimDisk()
    directory = filled(disk)
    before = contents(directory)
    for log in directory.logs.values():
        flush(log)
    directory.write_checkpoints()
    disk.kill()
    disk.contents(f"{ROOT}/{name}")[:] = damage
    again = open_directory(disk)
    assert contents(again) == before
    assert disk.exists(f"{ROOT}/{name}.corrupt")


def test_deleted_records_stay_deleted_once_checkpointed() -> None:
    disk = SimDisk()
    directory = filled(disk)
    directory.logs[ORDERS[1]].delete_records_before(13)
    directory.write_checkpoints()
    for log in directory.logs.values():
        flush(log)
    disk.crash(Random(4))
    again = open_directory(disk)
    assert again.logs[ORDERS[1]].log_start_offset == 13
    assert list(read_values(again.logs[ORDERS[1]])) == list(range(13, 21))


def test_truncation_makes_the_lower_recovery_point_durable() -> None:
    disk = SimDisk()
    directory = filled(disk)
    log = directory.logs[ORDERS[0]]
    flush(log)
    directory.write_checkpoints()
    log.truncate_to(5)
    assert b"orders 0 5\n" in disk.contents(f"{ROOT}/{RECOVERY_POINTS}")


def test_a_deleted_log_is_gone_at_once_and_its_files_later() -> None:
    disk = SimDisk()
    directory = filled(disk)
    log = directory.logs[ORDERS[0]]
    directory.delete(ORDERS[0])
    directory.delete(ORDERS[0])
    assert directory.get(ORDERS[0]) is None
    with pytest.raises(KafkaStorageError, match="closed"):
        append(log, make_batch("late"))
    fresh = directory.create(ORDERS[0], new_uuid(), CONFIG)
    assert fresh.log_end_offset == 0
    assert [e.name for e in disk.list_dir(ROOT) if e.name.endswith("-delete")] != []
    assert directory.purge_deleted() == 1
    assert directory.purge_deleted() == 0
    assert sorted(e.name for e in disk.list_dir(ROOT) if e.is_dir) == [str(p) for p in ORDERS]


def test_a_log_deleted_before_a_crash_does_not_return() -> None:
    for seed in range(10):
        disk = SimDisk()
        directory = filled(disk)
        directory.close()
        directory = open_directory(disk)
        directory.delete(ORDERS[0])
        directory.write_checkpoints()
        disk.crash(Random(seed))
        again = open_directory(disk)
        assert set(again.logs) == set(ORDERS[1:])
        assert again.purge_deleted() == 1


def test_a_log_exists_once() -> None:
    directory = filled(SimDisk())
    with pytest.raises(KafkaStorageError, match="already"):
        directory.create(ORDERS[0], None, CONFIG)


def test_one_log_that_cannot_be_opened_does_not_keep_the_others_from_being_served() -> None:
    disk = SimDisk()
    filled(disk).close()
    disk.fail("read", errno.EIO, path_part=f"{ORDERS[1]}/")
    directory = open_directory(disk)
    disk.heal()
    assert set(directory.logs) == {ORDERS[0], ORDERS[2]}
    with pytest.raises(KafkaStorageError, match="cannot be opened"):
        directory.get(ORDERS[1])
    assert not directory.close()
    assert set(open_directory(disk).logs) == set(ORDERS)


def test_directories_that_are_not_ours_are_left_alone() -> None:
    disk = SimDisk()
    filled(disk).close()
    disk.make_dir(f"{ROOT}/lost+found")
    disk.write_file(f"{ROOT}/lost+found/x", b"", sync=True)
    assert set(open_directory(disk).logs) == set(ORDERS)
    assert disk.exists(f"{ROOT}/lost+found/x")


def test_a_directory_that_is_offline_is_not_closed_cleanly() -> None:
    disk = SimDisk()
    directory = filled(disk)
    directory.storage.take_offline("a test says so")
    with pytest.raises(KafkaStorageError, match="offline"):
        directory.create(TopicPartition("new", 0), None, CONFIG)
    assert not directory.close()
    assert not open_directory(disk).was_clean


def test_a_disk_that_is_full_at_the_stop_makes_it_an_unclean_one_and_loses_nothing() -> None:
    disk = SimDisk()
    directory = filled(disk)
    before = contents(directory)
    disk.capacity_bytes = 0
    assert not directory.close()
    disk.heal()
    again = open_directory(disk)
    assert not again.was_clean
    assert contents(again) == before


def test_a_path_that_cannot_be_a_directory_is_refused_clearly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogDirectoryError, match="cannot be used"):
        open_directory(RealDisk(), str(tmp_path / "file" / "data"))


def test_idempotent_producers_continue_after_a_restart_of_any_kind() -> None:
    disk = SimDisk()
    directory = open_directory(disk)
    log = directory.create(ORDERS[0], new_uuid(), CONFIG)
    sequence = 0
    for clean in (True, False, True, False):
        for _ in range(15):
            append(log, idempotent(f"v{sequence}", sequence=sequence))
            sequence += 1
        if clean:
            directory.close()
        else:
            disk.kill()
        directory = open_directory(disk)
        log = directory.logs[ORDERS[0]]
        assert append(log, idempotent("retry", sequence=sequence - 1)).is_duplicate
    assert list(read_values(log).values()) == [f"v{number}" for number in range(sequence)]


def test_a_lost_topic_id_can_be_written_again() -> None:
    disk = SimDisk()
    directory = filled(disk)
    topic_id = directory.logs[ORDERS[0]].topic_id
    assert topic_id is not None
    directory.close()
    disk.write_file(f"{ROOT}/{ORDERS[0]}/partition.metadata", b"version: 0\ntopic_", sync=True)
    again = open_directory(disk)
    assert again.logs[ORDERS[0]].topic_id is None
    again.write_topic_id(again.logs[ORDERS[0]], topic_id)
    again.close()
    assert open_directory(disk).logs[ORDERS[0]].topic_id == topic_id
