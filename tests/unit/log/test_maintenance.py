"""The janitor's chores on a simulated disk; time moves only when a test says so."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from tests.waiting import until

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition
from ottla.common.yielding import in_slices
from ottla.log.compaction.log_cleaner import CleanerSettings, CleaningStopped, Throttle
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.maintenance import MAX_FILES_PER_CALL, FileRemover, LogMaintenance, MaintenanceSettings
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.simulation.disk import SimDisk

HOUR = 3_600_000
DELETE = LogConfig(segment_bytes=500, retention_ms=HOUR, file_delete_delay_ms=60_000)
COMPACT = replace(DELETE, cleanup_policy=frozenset({"compact"}), retention_ms=-1)


@dataclass
class House:
    """A log directory with its janitor."""

    flusher: Flusher
    disk: SimDisk = field(default_factory=SimDisk)
    clock: ManualClock = field(default_factory=ManualClock)
    settings: MaintenanceSettings = field(default_factory=MaintenanceSettings)

    def __post_init__(self) -> None:
        self.directory = self.open()
        self.janitor = LogMaintenance(self.directory, self.flusher, self.clock, self.settings)

    def open(self) -> LogDirectory:
        directory = LogDirectory("/data", self.disk, self.clock, node_id=1, cluster_id="cluster")
        directory.open(lambda topic: COMPACT if topic.startswith("compacted") else DELETE)
        return directory

    def create(self, topic: str, config: LogConfig, topic_id: UUID | None = None) -> Log:
        return self.directory.create(TopicPartition(topic, 0), topic_id, config)

    def fill(self, log: Log, count: int = 12, key: bytes = b"key") -> None:
        for number in range(count):
            now = self.clock.wall_ms()
            batch = memoryview(encode_batch([Record(0, now, key, b"%d" % number * 100)]))
            log.append(batch, check_batch(batch), 0, now)

    def files(self, topic: str) -> set[str]:
        return {entry.name for entry in self.disk.list_dir(f"/data/{topic}-0")}


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with Flusher() as flusher:
        yield House(flusher)


async def test_retention_takes_old_segments_out_and_their_files_go_after_the_delay(house: House) -> None:
    log = house.create("topic", DELETE)
    house.fill(log)
    first = log.segments[0].base_offset
    house.clock.advance(HOUR + 1)
    house.fill(log, 1)
    await house.janitor.delete_old_segments()
    assert log.log_start_offset > first
    gone = {name for name in house.files("topic") if name.endswith(".deleted")}
    assert "00000000000000000000.log.deleted" in gone
    house.clock.advance(59_999)
    await house.janitor.remove_files()
    assert gone <= house.files("topic")
    house.clock.advance(1)
    await house.janitor.remove_files()
    assert not gone & house.files("topic")


async def test_a_log_whose_every_record_is_too_old_continues_empty(house: House) -> None:
    log = house.create("topic", DELETE)
    house.fill(log)
    end = log.log_end_offset
    house.clock.advance(HOUR + 1)
    await house.janitor.delete_old_segments()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (end, end, 0)
    house.fill(log, 1)
    assert log.log_end_offset == end + 1


async def test_retention_never_passes_the_high_watermark(house: House) -> None:
    log = house.create("topic", DELETE)
    house.fill(log, 20)
    janitor = LogMaintenance(house.directory, house.flusher, house.clock, high_watermark=lambda _log: 7)
    house.clock.advance(HOUR + 1)
    await janitor.delete_old_segments()
    assert 0 < log.log_start_offset <= 7


async def test_many_segments_go_in_small_steps(house: House) -> None:
    log = house.create("topic", DELETE)
    house.fill(log, 200)
    assert len(log.segments) > 60
    house.clock.advance(HOUR + 1)
    await house.janitor.delete_old_segments()
    assert len(log.segments) == 1


async def test_compaction_waits_for_the_flush_and_its_checkpoint_survives(house: House) -> None:
    log = house.create("compacted", COMPACT)
    house.fill(log)
    await house.janitor.compact()
    assert log.log_end_offset == 12
    assert not house.disk.exists("/data/cleaner-offset-checkpoint"), "nothing was durable yet"
    await house.janitor.flush()
    before = log.size_bytes
    await house.janitor.compact()
    assert log.size_bytes < before
    cleaned_to = log.active.base_offset
    assert house.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n1\ncompacted 0 %d\n" % cleaned_to
    again = LogMaintenance(house.directory, house.flusher, house.clock)
    assert again.cleaner.cleanable_stats(log).first_dirty_offset == cleaned_to


async def test_the_dirtiest_log_comes_first_and_logs_below_the_ratio_do_not(house: House) -> None:
    logs = [house.create(f"compacted{number}", COMPACT) for number in range(2)]
    for log in logs:
        house.fill(log)
    await house.janitor.flush()
    await house.janitor.compact()
    sizes = [log.size_bytes for log in logs]
    strict = replace(COMPACT, min_cleanable_dirty_ratio=1.0)
    logs[0].set_config(strict)
    for log in logs:
        house.fill(log)
    await house.janitor.flush()
    await house.janitor.compact()
    assert logs[0].size_bytes > sizes[0] + 1000
    assert logs[1].size_bytes < logs[0].size_bytes


async def test_a_topic_that_was_deleted_and_made_again_is_dirty_from_its_start(house: House) -> None:
    log = house.create("compacted", COMPACT, UUID(int=1))
    house.fill(log)
    await house.janitor.flush()
    await house.janitor.compact()
    assert house.janitor.cleaner.cleanable_stats(log).first_dirty_offset > 0
    house.directory.delete(log.topic_partition)
    log = house.create("compacted", COMPACT, UUID(int=2))
    house.fill(log, 30)
    assert house.janitor.cleaner.cleanable_stats(log).first_dirty_offset == 0


async def test_a_damaged_log_is_given_up_once_and_the_others_are_compacted(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = house.create("compacted-bad", COMPACT), house.create("compacted-good", COMPACT)
    for log in (bad, good):
        house.fill(log)
    await house.janitor.flush()
    house.disk.contents(bad.segments[0].files.path(".log"))[80] ^= 1
    before = good.size_bytes
    with caplog.at_level(logging.ERROR):
        await house.janitor.compact()
        await house.janitor.compact()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "cannot compact compacted-bad-0" in caplog.text
    assert good.size_bytes < before
    assert list(house.janitor.cleaner.uncleanable) == [(bad.topic_partition, None)]


async def test_a_full_disk_ends_a_round_and_a_later_one_succeeds(house: House) -> None:
    log = house.create("compacted", COMPACT)
    house.fill(log)
    await house.janitor.flush()
    before = log.size_bytes
    house.disk.fail("write", errno.ENOSPC, path_part=".cleaned", times=1)
    await house.janitor.compact()
    assert house.directory.storage.offline_reason is None
    assert log.size_bytes == before
    assert not any(name.endswith(".cleaned") for name in house.files("compacted"))
    await house.janitor.compact()
    assert log.size_bytes < before


async def test_a_log_can_be_deleted_while_it_is_compacted(house: House) -> None:
    log = house.create("compacted", COMPACT)
    house.fill(log)
    await house.janitor.flush()
    compaction = asyncio.create_task(house.janitor.compact())
    await until(lambda: bool(house.janitor.cleaner.in_progress))
    house.directory.delete(log.topic_partition)
    await compaction
    assert house.directory.storage.offline_reason is None
    assert not house.janitor.cleaner.uncleanable


async def test_flush_ms_is_kept_and_shortens_the_tick(house: House) -> None:
    log = house.create("topic", replace(DELETE, flush_ms=50, segment_bytes=10**6))
    house.fill(log, 3)
    assert await house.janitor.flush() == 50
    assert log.recovery_point == 0
    house.clock.advance(50)
    await house.janitor.flush()
    assert log.recovery_point == 3


async def test_sealed_segments_are_flushed_without_any_flush_ms(house: House) -> None:
    log = house.create("topic", DELETE)
    house.fill(log)
    assert await house.janitor.flush() == 1000
    assert log.recovery_point >= log.active.base_offset


async def test_checkpoints_carry_recovery_points_starts_and_watermarks(house: House) -> None:
    log = house.create("topic", DELETE)
    house.fill(log)
    await house.janitor.flush()
    log.delete_records_before(5)
    await house.janitor.write_checkpoints()
    end = log.log_end_offset
    for name, offset in (("recovery-point", end), ("log-start", 5), ("replication", end)):
        assert house.disk.read_file(f"/data/{name}-offset-checkpoint") == b"0\n1\ntopic 0 %d\n" % offset


async def test_idle_producers_are_forgotten(house: House) -> None:
    log = house.create("topic", DELETE)
    now = house.clock.wall_ms()
    batch = memoryview(
        encode_batch([Record(0, now, b"k", b"v")], producer_id=4, producer_epoch=0, base_sequence=0)
    )
    log.append(batch, check_batch(batch), 0, now)
    await house.janitor.expire_producers()
    assert len(log.producers) == 1
    house.clock.advance(house.settings.producer_expiration_ms)
    await house.janitor.expire_producers()
    assert len(log.producers) == 0


async def test_deleted_logs_are_purged(house: House) -> None:
    house.create("topic", DELETE)
    house.directory.delete(TopicPartition("topic", 0))
    await house.janitor.purge_deleted()
    assert not any("delete" in entry.name for entry in house.disk.list_dir("/data"))


async def test_it_runs_its_chores_by_itself_and_stops(house: House) -> None:
    house.settings = MaintenanceSettings(
        retention_check_interval_ms=1, checkpoint_interval_ms=1, cleaner_backoff_ms=1
    )
    log, compacted = house.create("topic", DELETE), house.create("compacted", COMPACT)
    house.fill(log)
    house.fill(compacted)
    house.clock.advance(HOUR + 1)
    async with LogMaintenance(house.directory, house.flusher, house.clock, house.settings):
        await until(lambda: log.log_start_offset > 0 and house.disk.exists("/data/cleaner-offset-checkpoint"))
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(name.startswith("janitor") for name in names)


async def test_a_chore_that_fails_is_tried_again(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.settings = MaintenanceSettings(checkpoint_interval_ms=1)
    house.create("topic", DELETE)
    house.disk.fail("rename", errno.ENOSPC, path_part="checkpoint", times=1)
    async with LogMaintenance(house.directory, house.flusher, house.clock, house.settings):
        await until(lambda: house.disk.exists("/data/replication-offset-checkpoint"))
    assert "write_checkpoints failed" in caplog.text


async def test_nothing_is_written_while_the_directory_is_offline(house: House) -> None:
    house.settings = MaintenanceSettings(retention_check_interval_ms=1)
    log = house.create("topic", DELETE)
    house.fill(log)
    house.clock.advance(HOUR + 1)
    house.directory.storage.take_offline("a test")
    turns = 0

    class Counting(LogMaintenance):
        async def _wait_for(self, event: asyncio.Event, wait_ms: int) -> bool:
            nonlocal turns
            turns += 1
            return await super()._wait_for(event, wait_ms)

    async with Counting(house.directory, house.flusher, house.clock, house.settings):
        await until(lambda: turns > 20)
    assert log.log_start_offset == 0


def test_the_throttle_keeps_to_its_rate_and_ends_a_round_that_is_to_stop() -> None:
    clock = ManualClock()

    class Stopping:
        def __init__(self) -> None:
            self.waits: list[float] = []
            self.is_stopping = False

        def wait(self, seconds: float) -> bool:
            self.waits.append(seconds)
            return self.is_stopping

    stopping = Stopping()
    throttle = Throttle(clock, stopping, lambda: 1_000_000)  # type: ignore[arg-type]
    throttle(500_000)
    assert stopping.waits == [], "not a millisecond has passed"
    clock.advance(100)
    throttle(0)
    assert stopping.waits == [pytest.approx(0.4)]
    stopping.is_stopping = True
    clock.advance(1)
    with pytest.raises(CleaningStopped):
        throttle(0)


def test_a_cleaner_that_waits_for_its_rate_notices_a_higher_one() -> None:
    clock, rate = ManualClock(), 1_000.0
    waits: list[float] = []

    class Stopping:
        def wait(self, seconds: float) -> bool:
            nonlocal rate
            waits.append(seconds)
            clock.advance(1000)
            if len(waits) == 3:
                rate = 1e12
            return False

    throttle = Throttle(clock, Stopping(), lambda: rate)  # type: ignore[arg-type]
    clock.advance(1)
    throttle(1_000_000)
    assert waits == [1.0, 1.0, 1.0, pytest.approx(0.0002)], "not the 1,000 seconds of the old rate"


async def test_the_number_of_cleaners_follows_the_settings(house: House) -> None:
    running: set[asyncio.Task[Any]] = set()

    class Cleaning(LogMaintenance):
        async def compact(self) -> None:
            task = asyncio.current_task()
            assert task is not None
            running.add(task)
            await asyncio.sleep(0)

    settings = MaintenanceSettings(cleaner_backoff_ms=1)
    async with Cleaning(house.directory, house.flusher, house.clock, settings) as maintenance:
        await until(lambda: len(running) == 1)
        maintenance.change_settings(replace(settings, cleaner_threads=3))
        await until(lambda: len(running) == 3)
        maintenance.change_settings(replace(settings, cleaner_threads=1))
        await until(lambda: sum(not task.done() for task in running) == 1)
        maintenance.change_settings(replace(settings, cleaner_threads=2))
        await until(lambda: sum(not task.done() for task in running) == 2)
    assert all(task.done() for task in running)


async def test_a_shorter_backoff_wakes_a_cleaner_that_rests(house: House) -> None:
    runs = 0

    class Cleaning(LogMaintenance):
        async def compact(self) -> None:
            nonlocal runs
            runs += 1

    settings = MaintenanceSettings(cleaner_backoff_ms=3_600_000)
    async with Cleaning(house.directory, house.flusher, house.clock, settings) as maintenance:
        await asyncio.sleep(0)
        assert runs == 0
        maintenance.change_settings(replace(settings, cleaner_backoff_ms=1))
        await until(lambda: runs > 3)


async def test_files_wait_their_turn_and_go_in_bounded_numbers() -> None:
    disk, clock = SimDisk(), ManualClock()
    disk.make_dir("/data")
    paths = [f"/data/{number}" for number in range(MAX_FILES_PER_CALL + 10)]
    for path in paths:
        disk.write_file(path, b"", sync=False)
    remover = FileRemover(disk, clock)
    remover.remove_later(paths, 10)
    assert await remover.remove_due() == 0
    clock.advance(10)
    assert [await remover.remove_due() for _ in range(3)] == [MAX_FILES_PER_CALL, 10, 0]
    assert disk.list_dir("/data") == []


async def test_a_long_sweep_lets_others_run() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert [item async for item in in_slices(range(50), size=1)] == list(range(50))
    task.cancel()
    assert turns >= 49


def test_settings_have_kafkas_defaults() -> None:
    assert MaintenanceSettings().cleaner == CleanerSettings(dedupe_buffer_bytes=134_217_728, load_factor=0.9)
