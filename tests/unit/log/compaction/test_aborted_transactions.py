"""Compaction of logs with transactions: readers of committed records see the latest of every key, no more."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.unit.log.bench import DIRECTORY, LogBench, make_batch, read_batches
from tests.unit.log.compaction_rig import Killed, MortalDisk
from tests.unit.log.transaction_bench import (
    TransactionalProducer,
    index_entries,
    read_committed,
    stable_offset,
)

from ottla.log.compaction.job import CompactionJob
from ottla.log.compaction.policy import compute_cleanable_stats
from ottla.log.maintenance import last_stable_offset
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.control import decode_marker
from ottla.protocol.records.records import decode_records, encode_batch

DAY = 86_400_000
KEYS = [b"key-%d" % each for each in range(5)]


class CompactedLog(LogBench):
    """A compacted log, and the latest committed value of each key."""

    def __init__(self, disk: MortalDisk | None = None, **config: Any) -> None:
        super().__init__(
            disk,
            cleanup_policy=frozenset({"compact"}),
            delete_retention_ms=DAY,
            segment_bytes=400,
            index_interval_bytes=100,
            **config,
        )
        self.latest: dict[bytes, bytes] = {}
        self.pending: dict[int, dict[bytes, bytes]] = {}
        self.count = 0

    def write(self, producer: TransactionalProducer, *keys: bytes) -> None:
        values = self._values(keys)
        producer.write_pairs(self.log, *values.items())
        self.pending.setdefault(producer.producer_id, {}).update(values)

    def write_plainly(self, *keys: bytes) -> None:
        values = self._values(keys)
        for key, value in values.items():
            batch = make_batch(value.decode(), timestamp=self.clock.wall_ms())
            batch = _with_key(batch, key)
            self.log.append(batch, check_batch(batch), 0, self.clock.wall_ms())
        self.latest |= values

    def end(self, producer: TransactionalProducer, *, commit: bool) -> None:
        producer.end(self.log, commit=commit, version=2)
        pending = self.pending.pop(producer.producer_id, {})
        if commit:
            self.latest |= pending

    def _values(self, keys: tuple[bytes, ...]) -> dict[bytes, bytes]:
        self.count += 1
        return dict.fromkeys(keys, b"%d-" % self.count + b"x" * 30)

    def compact(self) -> None:
        self.log.roll()
        self.flush()
        log = self.log
        dirt = compute_cleanable_stats(
            log.sealed,
            log.config,
            active_base_offset=log.active.base_offset,
            log_start_offset=log.log_start_offset,
            cleaned_to=None,
            stable_offset=last_stable_offset(log, log.log_end_offset),
            now_ms=self.clock.wall_ms(),
        )
        work = CompactionJob(
            log, dirt, producers=dict(log.producers.producers), now_ms=self.clock.wall_ms(), map_bytes=1 << 16
        )
        work.prepare()
        for group in list(work.groups()):
            cleaned = work.copy(group)
            if cleaned is not None:
                for path in work.swap_in(group, cleaned):
                    self.disk.remove(path)

    def seen(self) -> dict[bytes, bytes]:
        """Return the latest value of every key that a consumer of committed records reads."""
        offsets = read_committed(self.log)
        seen: dict[bytes, bytes] = {}
        for _, batch in read_batches(self.log):
            for record in decode_records(batch):
                if record.offset in offsets and record.key is not None:
                    seen[record.key] = record.value or b""
        return seen


def _with_key(batch: memoryview, key: bytes) -> memoryview:
    (record,) = decode_records(batch)
    return memoryview(encode_batch([record._replace(key=key)]))


def abort_offsets(bench: LogBench) -> set[int]:
    """Return where markers of aborted transactions are left."""
    markers = [
        (each, decode_marker(each, batch)) for each, batch in read_batches(bench.log) if each.is_control
    ]
    return {header.last_offset for header, each in markers if each is not None and not each.is_commit}


def filled(seed: int, disk: MortalDisk | None = None, writes: int = 40) -> CompactedLog:
    """Return a log in which transactions of one producer after the other do not overlap in keys."""
    rng = random.Random(seed)
    bench = CompactedLog(disk)
    producers = [TransactionalProducer(each) for each in range(3)]
    for _ in range(writes):
        bench.clock.advance(10)
        producer = rng.choice(producers)
        # Each has keys of its own: which of two commits of a key counts is then no question.
        keys = [b"%d-" % producer.producer_id + each for each in rng.sample(KEYS, 2)]
        bench.write(producer, *keys)
        if rng.random() < 0.3:
            bench.write_plainly(rng.choice(KEYS))
        if rng.random() < 0.6:
            bench.end(producer, commit=rng.random() < 0.5)
    for producer in producers:
        bench.end(producer, commit=rng.random() < 0.5)
    return bench


@pytest.mark.parametrize("seed", range(12))
def test_the_latest_committed_value_of_every_key_stays_round_after_round(seed: int) -> None:
    bench = filled(seed)
    assert bench.seen() == bench.latest
    for _ in range(4):
        bench.compact()
        assert bench.seen() == bench.latest
        bench.kill()
        assert bench.seen() == bench.latest
        bench.clock.advance(DAY)


@pytest.mark.parametrize("seed", range(6))
def test_the_index_is_what_one_would_build_anew(seed: int) -> None:
    bench = filled(seed)
    for _ in range(3):
        bench.compact()
        before = index_entries(bench.log)
        bench.recovery_point = 0
        kept = {each.last_offset: each for each in before}
        for each in index_entries(bench.kill()):
            # Where nothing changed the index stays, and may know of earlier records that are gone.
            same = kept.pop(each.last_offset)
            assert same.producer_id == each.producer_id
            assert same.first_offset <= each.first_offset
        assert kept.keys() <= abort_offsets(bench)
        bench.clock.advance(DAY)


def test_aborted_records_go_at_once_and_their_marker_after_its_time() -> None:
    bench = CompactedLog()
    producer = TransactionalProducer(1)
    bench.write(producer, b"a")
    bench.end(producer, commit=False)
    bench.write(producer, b"b")
    bench.end(producer, commit=True)
    bench.compact()
    assert [each.value for _, batch in read_batches(bench.log) for each in decode_records(batch)].count(
        None
    ) == 0
    assert len(abort_offsets(bench)) == 1
    assert index_entries(bench.log) == []
    bench.compact()  # now nothing is left of it: the marker gets its delete horizon
    assert len(abort_offsets(bench)) == 1
    bench.clock.advance(DAY)
    bench.write_plainly(b"c")
    bench.compact()
    assert abort_offsets(bench) == set()
    assert bench.seen() == bench.latest


def test_a_transaction_that_is_open_is_left_alone() -> None:
    bench = CompactedLog()
    producer = TransactionalProducer(1)
    bench.write_plainly(b"a")
    bench.write(producer, b"a")
    bench.write_plainly(*KEYS)
    bench.compact()
    assert stable_offset(bench.log) == 1
    bench.end(producer, commit=False)
    assert bench.seen() == bench.latest


@pytest.mark.parametrize("seed", range(10, 20))
def test_without_its_newest_snapshot_no_transaction_is_open_that_has_ended(seed: int) -> None:
    bench = filled(seed)
    for _ in range(3):
        bench.compact()
        bench.clock.advance(DAY)
    assert stable_offset(bench.log) == bench.log.log_end_offset
    bench.remove(bench.names(".snapshot")[-1])
    assert stable_offset(bench.kill()) == bench.log.log_end_offset


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_between_any_two_changes_hides_nothing_and_shows_nothing_aborted(power_cut: bool) -> None:
    def prepared() -> CompactedLog:
        bench = filled(1, MortalDisk(), 12)
        bench.compact()
        bench.clock.advance(DAY)
        producer = TransactionalProducer(9)
        for number in range(6):
            bench.write(producer, b"9-a", b"9-b")
            bench.end(producer, commit=number % 2 == 0)
        bench.log.roll()
        bench.flush()
        assert isinstance(bench.disk, MortalDisk)
        bench.disk.changes = 0
        return bench

    done = prepared()
    done.compact()
    assert isinstance(done.disk, MortalDisk)
    changes = done.disk.changes
    assert changes > 30
    for lives in range(power_cut, changes + 1, 3):
        bench = prepared()
        assert isinstance(bench.disk, MortalDisk)
        bench.disk.lives = lives
        try:
            bench.compact()
        except Killed:
            pass
        bench.disk.lives = None
        if power_cut:
            bench.cut_power(lives)
        else:
            bench.kill()
        assert bench.seen() == bench.latest
        names = [each.name for each in bench.disk.list_dir(DIRECTORY)]
        assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in names)


def test_an_index_that_becomes_empty_is_replaced_by_an_empty_one() -> None:
    """Without a file of its own, a swap that a crash interrupts would leave the old segment's."""
    bench = CompactedLog()
    producer = TransactionalProducer(1)
    bench.write(producer, b"a")
    bench.end(producer, commit=False)
    for key in KEYS:
        bench.write_plainly(key)
    bench.log.roll()
    bench.flush()
    assert len(bench.names(".txnindex")) == 1
    bench.compact()
    assert index_entries(bench.log) == []
    assert bytes(bench.contents(bench.names(".txnindex")[0])) == b""
