"""A log that is compacted on a simulated disk, and the laws that it must keep, against a list of records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition
from ottla.log.compaction.job import CompactionJob
from ottla.log.compaction.policy import CleanableStats, compute_cleanable_stats
from ottla.log.loading.loader import create_log, open_log
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.storage import Storage
from ottla.protocol.records.batch import BatchHeader, check_batch, check_crc, iter_batches
from ottla.protocol.records.records import Record, decode_records, encode_batch
from ottla.testing.simulation.disk import SimDisk

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
        self.log.set_config(replace(self.config, cleanup_policy=frozenset({"delete"})))
        base = self.log.append(batch, check_batch(batch), 0, now).base_offset
        self.log.set_config(self.config)
        self.written |= {base + r.offset: r._replace(offset=base + r.offset) for r in records}

    def flush(self) -> None:
        job = self.log.begin_flush()
        if job is not None:
            job.run()
            self.log.finish_flush(job, None)

    def cleanable(self) -> CleanableStats:
        return compute_cleanable_stats(
            self.log.sealed,
            self.log.config,
            active_base_offset=self.log.active.base_offset,
            log_start_offset=self.log.log_start_offset,
            cleaned_to=self.cleaned_to,
            stable_offset=self.log.recovery_point,
            now_ms=self.clock.wall_ms(),
        )

    def round(self, map_bytes: int = 1 << 20) -> CompactionJob:
        return CompactionJob(
            self.log,
            self.cleanable(),
            producers=dict(self.log.producers.producers),
            now_ms=self.clock.wall_ms(),
            map_bytes=map_bytes,
        )

    def compact(self, map_bytes: int = 1 << 20) -> CompactionJob:
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
