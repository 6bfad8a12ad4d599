"""A truncation lowers what the checkpoints say of the log, durably, before anything is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.bench import flush, read_values
from tests.unit.log.compaction_rig import DAY, Killed, MortalDisk

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.compaction.job import CompactionJob, LogChanged
from ottla.log.compaction.log_cleaner import LogCleaner
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.file_names import SNAPSHOT
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.simulation.disk import SimDisk

ROOT = "/data"
ORDERS = TopicPartition("orders", 0)
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=400,
    delete_retention_ms=DAY,
    min_cleanable_dirty_ratio=0.0,
)


class Place:
    """A log directory with one compacted log and its cleaner."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk()
        self.clock = ManualClock(1_700_000_000_000)
        self.after_swap: Callable[[], None] = lambda: None
        self.open()
        self.directory.create(ORDERS, new_uuid(), CONFIG)
        self.directory.write_checkpoints()

    def open(self) -> None:
        self.directory = LogDirectory(ROOT, self.disk, self.clock, node_id=1, cluster_id="c")
        self.directory.open(lambda _topic: CONFIG)
        self.cleaner = LogCleaner(
            self.directory.storage,
            self.directory.checkpoints,
            self.directory.logs.values,
            self.clock,
            stable_offset=lambda log: log.log_end_offset,
            is_replicated=lambda log: True,
            remove_later=self.remove,
        )

    def remove(self, paths: Iterable[str], _delay_ms: int) -> None:
        for path in paths:
            self.disk.remove(path)
        self.after_swap()

    @property
    def log(self) -> Log:
        return self.directory.logs[ORDERS]

    @property
    def cleaned_to(self) -> int:
        return self.directory.checkpoints.cleaned_to.get(ORDERS, 0)

    def put(self, key: str, value: str | None, *, epoch: int = 0) -> int:
        record = Record(0, self.clock.wall_ms(), key.encode(), None if value is None else value.encode())
        batch = memoryview(encode_batch([record]))
        return self.log.append(batch, check_batch(batch), epoch, self.clock.wall_ms()).last_offset

    def clean(self) -> None:
        flush(self.log)
        asyncio.run(self.cleaner.clean_dirtiest())

    def filled(self, count: int = 30) -> Place:
        for number in range(count):
            self.put(f"k{number}", "x" * 20)
        self.clean()
        self.directory.write_checkpoints({ORDERS: count})
        assert self.cleaned_to > 20
        return self

    def round(self) -> CompactionJob:
        flush(self.log)
        dirt = self.cleaner.cleanable_stats(self.log)
        now_ms = self.clock.wall_ms()
        return CompactionJob(self.log, dirt, producers={}, now_ms=now_ms, map_bytes=1 << 20)


@pytest.mark.parametrize("how", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_deleted_key_does_not_return_after_a_truncation_below_what_was_cleaned(how: str) -> None:
    place = Place().filled()
    getattr(place.log, how)(5)
    place.put("secret", "old", epoch=1)
    place.put("secret", None, epoch=1)
    for number in range(40):
        place.put(f"n{number}", "y" * 20, epoch=1)
    for _ in range(4):
        place.clean()
        place.clock.advance(2 * DAY)
        place.put("more", "z" * 300, epoch=1)
    assert "old" not in read_values(place.log).values()


@pytest.mark.parametrize("how", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_crash_anywhere_in_a_truncation_leaves_no_checkpoint_above_the_log(how: str) -> None:
    lives = 0
    while True:
        disk = MortalDisk()
        place = Place(disk).filled()
        place.log.delete_records_before(8)
        place.directory.write_checkpoints({ORDERS: 30})
        disk.changes, disk.lives = 0, lives
        try:
            getattr(place.log, how)(5 if how == "truncate_fully_and_start_at" else 12)
            is_finished = True
        except Killed:
            is_finished = False
        disk.lives = None
        disk.crash(Random(lives))
        place.open()
        checkpoints, end = place.directory.checkpoints, place.log.log_end_offset
        assert checkpoints.cleaned_to.get(ORDERS, 0) <= end
        assert checkpoints.high_watermarks.get(ORDERS, 0) <= end
        if is_finished:
            assert end == (5 if how == "truncate_fully_and_start_at" else 12)
            assert place.log.log_start_offset == (5 if how == "truncate_fully_and_start_at" else 8)
            return
        lives += 1


def test_a_log_that_was_cut_off_when_it_was_opened_is_not_taken_for_cleaned_above_its_end() -> None:
    place = Place().filled()
    first, *others = [segment.files.path(".log") for segment in place.log.segments]
    end = place.log.segments[1].base_offset
    place.directory.close()
    for path in others:
        place.disk.remove(path)
    for entry in place.disk.list_dir(f"{ROOT}/{ORDERS}"):
        if entry.name.endswith(SNAPSHOT):
            place.disk.remove(f"{ROOT}/{ORDERS}/{entry.name}")
    place.open()
    assert place.disk.exists(first)
    assert place.log.log_end_offset <= end
    assert place.cleaned_to <= place.log.log_end_offset
    place.disk.kill()
    place.open()
    assert place.cleaned_to <= place.log.log_end_offset


def test_a_round_that_a_truncation_overtakes_counts_for_nothing() -> None:
    place = Place().filled()
    place.put("k1", "new")
    for number in range(30, 60):
        place.put(f"k{number}", "x" * 20)
    work = place.round()
    work.prepare()
    place.log.truncate_to(28)
    group = next(work.groups())
    cleaned = work.copy(group)
    assert cleaned is not None, "k1 is superseded by a record that is gone"
    with pytest.raises(LogChanged):
        work.swap_in(group, cleaned)
    assert "x" * 20 in read_values(place.log).values()
    assert 1 in read_values(place.log)


async def test_a_truncation_in_the_last_step_of_a_round_is_not_undone_by_its_checkpoint() -> None:
    place = Place()
    while len(place.log.segments) < 2:
        place.put("k", "x" * 20)
    flush(place.log)
    place.after_swap = lambda: place.log.truncate_to(1)
    await place.cleaner.clean_dirtiest()
    assert place.log.log_end_offset == 1
    assert place.cleaned_to <= 1


class Era(NamedTuple):
    """What happens until the next truncation."""

    writes: list[tuple[int, bool]]
    """Keys, and whether they are deleted."""
    filler: int
    is_cleaned: bool
    is_long: bool
    cut_to_percent: int
    has_crash: bool


ERAS = st.lists(
    st.builds(
        Era,
        st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=4),
        st.integers(0, 30),
        st.booleans(),
        st.booleans(),
        st.integers(0, 100),
        st.booleans(),
    ),
    max_size=4,
)


def write_era(place: Place, era: Era, model: dict[int, tuple[str, str | None]]) -> None:
    for key, is_deleted in era.writes:
        value = None if is_deleted else f"value at {place.log.log_end_offset}"
        model[place.put(f"k{key}", value)] = (f"k{key}", value)
    for number in range(era.filler):
        model[place.put(f"filler {number}", "x" * 20)] = (f"filler {number}", "x" * 20)


@settings(max_examples=60, deadline=None)
@given(ERAS)
def test_what_is_served_of_a_key_is_its_latest_record_or_nothing(eras: list[Era]) -> None:
    place, model = Place(), dict[int, tuple[str, str | None]]()
    for era in [*eras, *[Era([], 40, True, True, 100, False)] * 3]:
        write_era(place, era, model)
        if era.is_cleaned:
            place.clean()
        place.clock.advance(2 * DAY if era.is_long else 0)
        place.log.truncate_to(place.log.log_end_offset * era.cut_to_percent // 100)
        if era.has_crash:
            flush(place.log)
            place.disk.crash(Random(era.filler))
            place.open()
        model = {offset: each for offset, each in model.items() if offset < place.log.log_end_offset}
    latest = {key: offset for offset, (key, _) in sorted(model.items())}
    served = {model[offset][0]: offset for offset in read_values(place.log)}
    assert all(latest[key] == offset for key, offset in served.items())
