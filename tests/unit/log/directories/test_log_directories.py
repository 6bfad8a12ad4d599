"""Several log directories: where logs go and are found, and what is missing."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.unit.log.bench import append, make_batch, read_values

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.checkpoints import CLEAN_SHUTDOWN, META_PROPERTIES
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory, LogDirectoryError, LogDirectoryUnusable
from ottla.log.log_config import LogConfig
from ottla.protocol.errors import KafkaStorageError
from ottla.testing.simulation.disk import SimDisk

ORDERS = [TopicPartition("orders", number) for number in range(4)]
CONFIG = LogConfig()


def open_all(disk: SimDisk, *paths: str) -> LogDirectories:
    clock = ManualClock()
    found = LogDirectories(
        [LogDirectory(each, disk, clock, node_id=1, cluster_id="c") for each in paths or ("/a", "/b")], clock
    )
    found.open(lambda _topic: CONFIG)
    return found


def filled(disk: SimDisk) -> LogDirectories:
    """Return two directories with two logs each: orders-0 and 2, orders-1 and 3."""
    found = open_all(disk)
    for partition in ORDERS:
        log = found.create(partition, new_uuid(), CONFIG)
        append(log, make_batch(str(partition)))
    return found


def places(found: LogDirectories) -> dict[str, list[int]]:
    return {each.path: sorted(at.partition for at in each.logs) for each in found.directories}


def test_equal_disks_get_equal_shares_and_keep_them() -> None:
    disk = SimDisk()
    found = filled(disk)
    assert places(found) == {"/a": [0, 2], "/b": [1, 3]}
    assert found.close(high_watermarks=dict.fromkeys(ORDERS, 1))
    assert disk.exists(f"/a/{CLEAN_SHUTDOWN}")
    assert disk.exists(f"/b/{CLEAN_SHUTDOWN}")
    again = open_all(disk)
    assert again.was_clean
    assert len(set(again.directory_ids)) == 2
    assert places(again) == {"/a": [0, 2], "/b": [1, 3]}
    assert read_values(again.logs[ORDERS[3]]) == {0: "orders-3"}
    assert [again.take_high_watermark(each) for each in ORDERS] == [1, 1, 1, 1]


def test_the_disk_with_more_free_space_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"/a": 100, "/b": 1000}
    monkeypatch.setattr(SimDisk, "volume_bytes", lambda _disk, path: (1 << 20, free[path]))
    found = filled(SimDisk())
    assert places(found) == {"/a": [], "/b": [0, 1, 2, 3]}


@pytest.mark.parametrize("state", ["offline", "full"])
def test_nothing_is_placed_on_a_disk_that_is_offline_or_full(state: str) -> None:
    found = open_all(SimDisk())
    storage = found.directories[0].storage
    if state == "offline":
        storage.take_offline("fsync: EIO")
    else:
        storage.is_full = True
    for partition in ORDERS:
        found.create(partition, new_uuid(), CONFIG)
    assert places(found) == {"/a": [], "/b": [0, 1, 2, 3]}


def test_an_administrator_can_choose_the_directory_before_the_log_exists() -> None:
    found = open_all(SimDisk())
    found.preferred[ORDERS[0]] = "/b"
    found.create(ORDERS[0], new_uuid(), CONFIG)
    assert places(found) == {"/a": [], "/b": [0]}


def test_a_log_in_two_directories_is_refused_and_nothing_is_changed() -> None:
    disk = SimDisk()
    filled(disk).close()
    disk.make_dir("/b/orders-0")
    with pytest.raises(LogDirectoryError, match=r"orders-0 is in two log directories, /a and /b.*mv '/b"):
        open_all(disk)
    assert disk.exists(f"/a/{CLEAN_SHUTDOWN}"), "the next start still knows that the stop was clean"


def test_a_disk_that_cannot_be_read_leaves_the_others_and_its_replicas_are_offline() -> None:
    disk = SimDisk()
    first = filled(disk)
    known = frozenset(first.directory_ids)
    first.close()
    disk.fail("open", errno.EIO, times=1 << 30, path_part="/b/")
    found = open_all(disk)
    found.compare(known, ORDERS)
    assert places(found) == {"/a": [0, 2]}
    assert list(found.offline_reasons) == ["/b"]
    assert not found.are_all_offline
    assert (found.offline, found.lost) == ({ORDERS[1], ORDERS[3]}, set())
    assert frozenset(found.directory_ids) == known, "the id is kept: the disk may come back"
    with pytest.raises(KafkaStorageError, match="offline"):
        found.get(ORDERS[1])
    found.delete(ORDERS[1])
    assert found.get(ORDERS[1]) is None, "a deleted and recreated topic has no log on the missing disk"


def test_a_disk_that_is_too_full_to_open_a_log_is_left_out_and_intact_once_there_is_space() -> None:
    disk = SimDisk()
    first = filled(disk)
    known = frozenset(first.directory_ids)
    first.write_boot_id()
    disk.kill()
    for name in (each.name for each in disk.list_dir("/b/orders-1") if each.name.endswith("index")):
        disk.remove(f"/b/orders-1/{name}")
    disk.fail("open", errno.ENOSPC, times=1 << 30, path_part="/b/orders-1")
    found = open_all(disk)
    found.compare(known, ORDERS)
    assert "No space left" in found.offline_reasons["/b"]
    assert found.offline == {ORDERS[1], ORDERS[3]}
    assert not found.may_have_lost_records, "the replicas in the other directory are complete"
    disk.heal()
    disk.kill()
    again = open_all(disk)
    assert places(again) == {"/a": [0, 2], "/b": [1, 3]}
    assert not again.may_have_lost_records


def test_a_start_on_a_disk_without_a_free_byte_keeps_the_boot_id() -> None:
    disk = SimDisk()
    filled(disk).write_boot_id()
    for _ in range(2):
        disk.kill()
        disk.limit("/b")
        found = open_all(disk)
        found.write_boot_id()
        assert not found.offline_reasons
        assert not found.may_have_lost_records


def test_without_any_usable_disk_there_is_an_error() -> None:
    disk = SimDisk()
    disk.fail("open", errno.EIO, times=1 << 30)
    with pytest.raises(LogDirectoryUnusable):
        open_all(disk)


def test_a_directory_of_another_broker_is_refused_as_ever() -> None:
    disk = SimDisk()
    filled(disk).close()
    disk.contents(f"/b/{META_PROPERTIES}")[:] = disk.contents(f"/b/{META_PROPERTIES}").replace(
        b"node.id=1", b"node.id=2"
    )
    with pytest.raises(LogDirectoryError, match="belongs to node 2"):
        open_all(disk)


def test_what_was_on_a_replaced_disk_is_lost_and_goes_to_the_new_one() -> None:
    disk = SimDisk()
    first = filled(disk)
    known = frozenset(first.directory_ids)
    first.close()
    disk.replace("/b")
    found = open_all(disk)
    found.compare(known, ORDERS)
    assert (found.offline, found.lost) == (set(), {ORDERS[1], ORDERS[3]})
    assert found.was_clean, "on the disk that is there"
    assert not found.may_have_lost_records
    assert len(known & frozenset(found.directory_ids)) == 1
    for partition in (ORDERS[1], ORDERS[3]):
        found.create(partition, new_uuid(), CONFIG)
    assert places(found) == {"/a": [0, 2], "/b": [1, 3]}


def test_logs_of_a_directory_from_long_ago_count_as_lost() -> None:
    disk = SimDisk()
    first = filled(disk)
    here = first.directories[0].directory_id
    first.close()
    found = open_all(disk)
    found.compare(frozenset({here}), ORDERS)
    assert found.lost == {ORDERS[1], ORDERS[3]}


@pytest.mark.parametrize("known", [frozenset[str](), frozenset({"unheard of"})])
def test_of_a_broker_with_nothing_that_is_known_the_ids_say_everything(known: frozenset[str]) -> None:
    found = filled(SimDisk())
    found.compare(known, ORDERS)
    assert not found.lost
    assert not found.offline


def test_an_added_disk_loses_nothing() -> None:
    disk = SimDisk()
    only = open_all(disk, "/a")
    only.create(ORDERS[0], new_uuid(), CONFIG)
    known = frozenset(only.directory_ids)
    only.close()
    found = open_all(disk)
    found.compare(known, ORDERS[:1])
    assert found.was_clean
    assert not found.lost


def test_one_unclean_directory_makes_the_stop_unclean() -> None:
    disk = SimDisk()
    first = filled(disk)
    first.directories[1].storage.take_offline("write: EIO")
    assert not first.close()
    again = open_all(disk)
    assert not again.was_clean
    assert [each.was_clean for each in again.directories] == [True, False]


def test_a_failed_directory_names_its_replicas_and_the_others_are_checkpointed() -> None:
    disk = SimDisk()
    found = filled(disk)
    storage = found.directories[0].storage
    storage.take_offline("write: EIO")
    assert sorted(found.take_offline(storage)) == [ORDERS[0], ORDERS[2]]
    found.capture_checkpoints()()
    found.capture_high_watermarks(dict.fromkeys(ORDERS, 1))()
    assert found.directories[1].checkpoints.high_watermarks == {ORDERS[1]: 1, ORDERS[3]: 1}
    assert not found.are_all_offline
    found.directories[1].storage.take_offline("write: EIO")
    assert found.are_all_offline


def test_producers_are_limited_together() -> None:
    found = filled(SimDisk())
    limits: list[Any] = [each.storage.producer_limit for each in found.directories]
    assert limits == [found.producer_limit] * 2
