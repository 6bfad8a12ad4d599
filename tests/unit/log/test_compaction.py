"""Compaction of whole logs on a simulated disk, against a model that is a list of records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition
from ottla.log.cleaner import LogChanged, Round, Uncleanable
from ottla.log.compaction import Dirt, measure_dirt
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.opening import create_log, open_log
from ottla.log.storage import Storage
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.record_batch import BatchHeader, check_batch, check_crc, iter_batches
from ottla.protocol.records import Record, decode_records, encode_batch
from ottla.testing.sim_disk import SimDisk

PARTITION = TopicPartition("topic", 0)
FOLDER = "data/topic-0"
DAY = 86_400_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=600,
    index_interval_bytes=100,
    delete_retention_ms=DAY,
)


class Killed(BaseException):
    """The process died."""


class MortalDisk(SimDisk):
    """Dies right before its n-th change, and stays dead until it is revived."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: int | None = None
        self.changes = 0

    def check(self, kind: str, path: str) -> None:
        if kind != "read":
            self.changes += 1
            if self.lives is not None and self.changes > self.lives:
                raise Killed
        super().check(kind, path)


@dataclass
class Rig:
    """One log, and every record that was ever appended to it."""

    config: LogConfig = CONFIG
    disk: MortalDisk = field(default_factory=MortalDisk)
    clock: ManualClock = field(default_factory=ManualClock)
    written: dict[int, Record] = field(default_factory=dict)
    cleaned_to: int | None = None
    log: Log = field(init=False)
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        storage = Storage(self.disk, "data")
        self.log = create_log(storage, FOLDER, PARTITION, None, self.config, self.clock)
        self.disk.sync_all("data")

    def append(
        self, *pairs: tuple[bytes | None, bytes | None], codec: int = 0, producer_id: int = -1
    ) -> None:
        now = self.clock.wall_ms()
        records = [Record(at, now + at, key, value) for at, (key, value) in enumerate(pairs)]
        idempotent = producer_id >= 0
        sequence = self.sequences.get(producer_id, 0) if idempotent else -1
        self.sequences[producer_id] = sequence + len(records)
        batch = memoryview(
            encode_batch(
                records,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=0 if idempotent else -1,
                base_sequence=sequence,
            )
        )
        # Without keys records are refused, unless they were there before the topic was compacted.
        self.log.config = replace(self.config, cleanup_policy=frozenset({"delete"}))
        base = self.log.append(batch, check_batch(batch), 0, now).base_offset
        self.log.config = self.config
        self.written |= {base + r.offset: r._replace(offset=base + r.offset) for r in records}

    def flush(self) -> None:
        job = self.log.begin_flush()
        if job is not None:
            job.run()
            self.log.finish_flush(job, None)

    def dirt(self) -> Dirt:
        return measure_dirt(
            self.log.sealed,
            self.log.config,
            active_base_offset=self.log.active.base_offset,
            log_start_offset=self.log.log_start_offset,
            cleaned_to=self.cleaned_to,
            stable_offset=self.log.recovery_point,
            now_ms=self.clock.wall_ms(),
        )

    def round(self, map_bytes: int = 1 << 20) -> Round:
        return Round(
            self.log,
            self.dirt(),
            producers=dict(self.log.producers.producers),
            now_ms=self.clock.wall_ms(),
            map_bytes=map_bytes,
        )

    def compact(self, map_bytes: int = 1 << 20) -> Round:
        """Flush, then do a whole round."""
        self.flush()
        work = self.round(map_bytes)
        work.prepare()
        for group in list(work.groups()):
            cleaned = work.copy(group)
            if cleaned is not None:
                for path in work.swap_in(group, cleaned):
                    self.disk.remove(path)
        self.cleaned_to = work.end_offset
        return work

    def reopen(self) -> None:
        """Open the log as after a crash."""
        self.log = open_log(
            Storage(self.disk, "data"),
            FOLDER,
            PARTITION,
            self.config,
            self.clock,
            is_clean=False,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.log.log_start_offset,
        )

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """Read the whole log the way a consumer does."""
        found: list[tuple[BatchHeader, bytes]] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            got = self.log.read(offset, 300, self.log.log_end_offset)
            data = got.records if isinstance(got.records, bytes) else got.records.read()
            for header, batch in iter_batches(data):
                check_crc(batch, header)
                found.append((header, bytes(batch)))
            assert got.next_offset > offset
            offset = got.next_offset
        return found

    def records(self) -> list[Record]:
        return [record for _, batch in self.batches() for record in decode_records(batch)]

    def files(self) -> set[str]:
        return {entry.name for entry in self.disk.list_dir(FOLDER)}


def latest_of(records: list[Record]) -> dict[bytes, Record]:
    return {record.key: record for record in records if record.key is not None}


def check(rig: Rig) -> None:
    """State the laws of a compacted log."""
    found = rig.records()
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets)), "the order is kept"
    assert all(rig.written[record.offset] == record for record in found), "nothing is made up"
    start = rig.log.log_start_offset
    survivors = latest_of([record for record in found if record.offset >= start])
    for key, record in latest_of([rig.written[offset] for offset in sorted(rig.written)]).items():
        if record.offset >= start and record.value is not None:
            assert survivors.get(key) == record, "the latest value of a key stays at its offset"
    clean = [record for record in found if start <= record.offset < (rig.cleaned_to or 0)]
    keys = [record.key for record in clean]
    assert None not in keys
    for record in clean:
        last = max(other.offset for other in clean if other.key == record.key)
        assert record.offset == last, "the clean part has each key once"
    check_reads(rig, found)


def check_reads(rig: Rig, found: list[Record]) -> None:
    """A read anywhere finds the next record that there is."""
    end = rig.log.log_end_offset
    for offset in range(rig.log.log_start_offset, end):
        expected = next((record.offset for record in found if record.offset >= offset), None)
        seen, at = None, offset
        while seen is None and at < end:
            got = rig.log.read(at, 1, end)
            data = got.records if isinstance(got.records, bytes) else got.records.read()
            seen = next(
                (
                    r.offset
                    for _, batch in iter_batches(data)
                    for r in decode_records(batch)
                    if r.offset >= offset
                ),
                None,
            )
            at = got.next_offset
        assert seen == expected, f"a read at {offset}"


def filled(rounds: int = 12) -> Rig:
    rig = Rig()
    for number in range(rounds):
        key, other = b"key %d" % (number % 3), b"once %d" % number
        rig.append(
            (key, b"value %d" % number * 5), (other, b"x" * 40), codec=number % 5, producer_id=number % 2
        )
    rig.append((b"once 1", None), (b"key 0", None))
    for number in range(6):
        rig.append((b"last %d" % number, b"y" * 60))
    return rig


def test_only_the_latest_value_of_each_key_stays_where_it_was() -> None:
    rig = filled()
    before = rig.log.size_bytes
    rig.compact()
    check(rig)
    assert rig.log.size_bytes < before
    assert rig.cleaned_to == rig.log.active.base_offset
    assert latest_of(rig.records()) == latest_of(list(rig.written.values()))


def test_small_neighbours_become_one_segment() -> None:
    rig = Rig()
    for number in range(40):
        rig.append((b"key", b"x" * 200), (b"other %d" % (number % 2), b"y"))
    many = len(rig.log.segments)
    rig.compact()
    rig.compact()
    assert many > 16
    assert len(rig.log.segments) <= many // 4
    check(rig)


def test_tombstones_go_a_while_after_the_first_round_that_saw_them() -> None:
    rig = filled()
    rig.compact()
    rig.clock.advance(DAY - 1)
    for number in range(6):
        rig.append((b"more %d" % number, b"z" * 60))
    rig.compact()
    assert any(record.value is None for record in rig.records())
    rig.clock.advance(1)
    for number in range(6):
        rig.append((b"even more %d" % number, b"z" * 60))
    rig.compact()
    assert all(record.value is not None for record in rig.records())
    assert b"once 1" not in latest_of(rig.records())
    check(rig)


def test_a_round_with_a_small_map_comes_as_far_as_the_map_reaches() -> None:
    rig = filled()
    rig.flush()
    end = rig.log.active.base_offset
    reached = [rig.compact(map_bytes=24 * 13).end_offset]
    check(rig)
    while reached[-1] < end:
        reached.append(rig.compact(map_bytes=24 * 13).end_offset)
        check(rig)
    assert len(reached) > 1
    assert reached == sorted(set(reached))


def test_a_batch_with_more_keys_than_the_map_holds_is_reported() -> None:
    rig = Rig()
    rig.append(*((b"%d" % number, b"") for number in range(30)))
    rig.log.roll()
    rig.flush()
    with pytest.raises(Uncleanable, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        rig.round(map_bytes=24 * 11).prepare()


def test_nothing_above_the_stable_offset_supersedes_anything() -> None:
    rig = filled()
    assert rig.dirt().dirty_bytes == 0, "nothing was flushed yet"
    rig.flush()
    assert rig.dirt().dirty_bytes > 0


def test_a_second_round_changes_nothing() -> None:
    rig = filled()
    rig.compact()
    rig.compact()
    before, files = rig.batches(), rig.files()
    rig.cleaned_to = None
    rig.compact()
    assert rig.batches() == before
    assert rig.files() == files


def test_producers_can_be_rebuilt_from_what_is_left() -> None:
    rig = filled(rounds=20)
    for number in range(20):
        rig.append((b"key %d" % (number % 3), b"later"), (b"once %d" % number, b"later"))
    rig.log.roll()
    rig.compact()
    check(rig)
    kept = {p: (e.epoch, e.last_sequence) for p, e in rig.log.producers.producers.items()}
    for name in rig.files():
        if name.endswith(".snapshot"):
            rig.disk.remove(f"{FOLDER}/{name}")
    rig.disk.kill()
    rig.reopen()
    rebuilt = {p: (e.epoch, e.last_sequence) for p, e in rig.log.producers.producers.items()}
    assert rebuilt == kept
    assert set(kept) == {0, 1}


def test_indexes_of_a_compacted_segment_are_those_a_rebuild_gives() -> None:
    rig = filled()
    rig.compact()
    for segment in rig.log.sealed:
        paths = [path for path in segment.files.paths() if path.endswith("index") and rig.disk.exists(path)]
        stored = [rig.disk.read_file(path) for path in paths]
        segment.rebuild_indexes("to compare")
        assert [rig.disk.read_file(path) for path in paths] == stored
        assert any(stored)


def test_damaged_batches_are_never_copied() -> None:
    rig = filled()
    rig.flush()
    rig.disk.contents(rig.log.sealed[1].files.path(".log"))[100] ^= 1
    with pytest.raises(CorruptMessage):
        rig.compact()
    assert not any(name.endswith(".cleaned") for name in rig.files())


def test_a_copy_of_segments_that_are_gone_is_thrown_away() -> None:
    rig = filled()
    rig.flush()
    work = rig.round()
    work.prepare()
    group = next(iter(work.groups()))
    cleaned = work.copy(group)
    assert cleaned is not None
    rig.log.remove_segments(rig.log.sealed[:1], "to be in the way")
    before = rig.records()
    with pytest.raises(LogChanged):
        work.swap_in(group, cleaned)
    assert rig.records() == before
    assert not any(name.endswith((".cleaned", ".swap")) for name in rig.files())


def test_a_transaction_that_is_still_open_is_out_of_reach() -> None:
    rig = filled(rounds=4)
    offset = rig.log.log_end_offset
    batch = memoryview(
        encode_batch(
            [Record(0, rig.clock.wall_ms(), b"key 1", b"perhaps")],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    rig.log.verifications.begin(9, 0, 0).confirm()
    rig.log.append(batch, check_batch(batch), 0, rig.clock.wall_ms())
    rig.written[offset] = Record(offset, rig.clock.wall_ms(), b"key 1", b"perhaps")
    for number in range(10):
        rig.append((b"after %d" % number, b"z" * 60))
    rig.flush()
    work = rig.round()
    work.prepare()
    assert work.end_offset <= offset


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_between_any_two_changes_leaves_each_group_as_before_or_as_after(power_cut: bool) -> None:
    def prepared() -> Rig:
        rig = filled(rounds=8)
        rig.flush()
        rig.disk.changes = 0
        return rig

    done = prepared()
    before = done.batches()
    done.compact()
    after, changes = done.batches(), done.disk.changes
    assert before != after
    assert changes > 40
    outcomes = set()
    for lives in range(changes + 1):
        rig = prepared()
        rig.disk.lives = lives
        try:
            rig.compact()
        except Killed:
            pass
        rig.disk.lives = None
        if power_cut:
            rig.disk.crash(random.Random(lives))
        else:
            rig.disk.kill()
        rig.reopen()
        rig.cleaned_to = None  # it is written after the last swap
        check(rig)
        assert not rig.log.holes
        assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in rig.files())
        found = rig.batches()
        assert all(batch in before or batch in after for batch in found)
        outcomes.add(tuple(batch for _, batch in found))
    assert tuple(batch for _, batch in before) in outcomes
    assert tuple(batch for _, batch in after) in outcomes


keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e", None])
values = st.sampled_from([None, b"", b"x" * 30, b"y" * 90])
steps = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(keys, values), min_size=1, max_size=5),
        st.integers(0, 4),
        st.integers(-1, 1),
    ),
    st.tuples(st.just("compact"), st.sampled_from([24 * 11, 1 << 16])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.sampled_from([1, DAY])),
    st.tuples(st.just("delete records"), st.floats(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 1000)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=4, max_size=30))
def test_a_compacted_log_keeps_its_laws_whatever_happens_to_it(steps: list[tuple[object, ...]]) -> None:
    rig = Rig(config=replace(CONFIG, segment_bytes=650))
    for step in [*steps, ("roll",), ("compact", 1 << 16)]:
        match step:
            case "append", list(pairs), int(codec), int(producer_id):
                rig.append(*pairs, codec=codec, producer_id=producer_id)
            case "compact", int(map_bytes):
                rig.compact(map_bytes)
            case ("roll",):
                rig.log.roll()
            case "wait", int(wait_ms):
                rig.clock.advance(wait_ms)
            case "delete records", float(share):
                rig.log.delete_records_before(int(rig.log.log_end_offset * share))
            case "crash", int(seed):
                rig.flush()
                rig.disk.crash(random.Random(seed))
                rig.reopen()
        check(rig)
