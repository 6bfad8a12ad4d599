"""What the tests of a log share: a log on a simulated disk, batches to put in, and all that is in it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from ottla.common.clock import ManualClock
from ottla.common.file_range import FileRange
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.checkpoints import RECOVERY_POINTS, encode_offsets, write_atomically
from ottla.log.loading.loader import create_log, open_log
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.log_types import AppendResult
from ottla.log.storage import Storage
from ottla.protocol.records.batch import BatchHeader, check_batch, iter_batches
from ottla.protocol.records.records import Record, decode_records, encode_batch
from ottla.testing.simulation.disk import SimDisk

ROOT = "/data"
PARTITION = TopicPartition("orders", 0)
DIRECTORY = f"{ROOT}/{PARTITION}"
NOW_MS = 1_700_000_000_000


def make_batch(*values: str, timestamp: int = NOW_MS, **fields: Any) -> memoryview:
    """Return a produced batch of one record per value."""
    records = [Record(i, timestamp, b"key", value.encode()) for i, value in enumerate(values)]
    return memoryview(encode_batch(records, **fields))


def idempotent(
    *values: str, sequence: int, producer_id: int = 7, epoch: int = 0, **fields: Any
) -> memoryview:
    """Return a batch of an idempotent producer."""
    return make_batch(
        *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields
    )


def append(log: Log, batch: memoryview, *, leader_epoch: int = 0) -> AppendResult:
    """Append as the produce path does."""
    return log.append(batch, check_batch(batch), leader_epoch, log.clock.wall_ms())


def flush(log: Log) -> None:
    """Flush in this thread."""
    job = log.begin_flush()
    if job is not None:
        job.run()
        log.finish_flush(job, None)


def stored_bytes(records: FileRange | bytes) -> bytes:
    """Return the bytes of a read."""
    return records if isinstance(records, bytes) else records.read()


def read_batches(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Return every batch from the log's start, read as a consumer reads."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, log.log_end_offset)
        data = stored_bytes(read.records)
        if not data:
            break
        found += [(header, bytes(batch)) for header, batch in iter_batches(data)]
        assert read.next_offset > offset
        offset = read.next_offset
    return found


def read_values(log: Log) -> dict[int, str]:
    """Return every record from the log's start: offset -> value."""
    return {
        record.offset: (record.value or b"").decode()
        for _, batch in read_batches(log)
        for record in decode_records(batch)
        if record.offset >= log.log_start_offset
    }


class LogBench:
    """One log on a simulated disk that can be closed, killed, and cut from power."""

    def __init__(self, disk: SimDisk | None = None, **config: Any) -> None:
        self.disk = disk or SimDisk()
        self.disk.make_dir(ROOT)
        self.disk.fsync_dir("/")
        self.clock = ManualClock(NOW_MS)
        self.config = LogConfig(**({"segment_bytes": 1500, "index_interval_bytes": 200} | config))
        self.storage = Storage(self.disk, ROOT)
        self.log = create_log(self.storage, DIRECTORY, PARTITION, new_uuid(), self.config, self.clock)
        self.log.on_truncate = self._checkpoint
        self.recovery_point = 0

    def _checkpoint(self, log: object, end_offset: int = 0) -> None:
        self.recovery_point = self.log.recovery_point
        write_atomically(
            self.disk, f"{ROOT}/{RECOVERY_POINTS}", encode_offsets({PARTITION: self.recovery_point})
        )

    def configure(self, **config: Any) -> None:
        """Change the log's configuration."""
        self.config = replace(self.config, **config)
        self.log.set_config(self.config)

    def fill(self, count: int, *, first: int = 0, per_batch: int = 1, leader_epoch: int = 0) -> None:
        """Append `count` batches; a millisecond passes before each."""
        for number in range(first, first + count):
            self.clock.advance(1)
            values = [f"value-{number}-{i}" for i in range(per_batch)]
            append(self.log, make_batch(*values, timestamp=self.clock.now_ms), leader_epoch=leader_epoch)

    def flush(self) -> None:
        """Flush, and checkpoint how far."""
        flush(self.log)
        self._checkpoint(self.log)

    def reopen(self, *, is_clean: bool, log_start_offset: int = 0) -> Log:
        """Open the log again from the files."""
        self.disk.kill()
        self.storage = Storage(self.disk, ROOT)
        self.log = open_log(
            self.storage,
            DIRECTORY,
            PARTITION,
            self.config,
            self.clock,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            log_start_offset=log_start_offset,
        )
        self.log.on_truncate = self._checkpoint
        return self.log

    def restart(self) -> Log:
        """Stop cleanly and start again."""
        start = self.log.log_start_offset
        self.log.close(clean=True)
        self.disk.sync_all(ROOT)
        self.recovery_point = self.log.log_end_offset
        return self.reopen(is_clean=True, log_start_offset=start)

    def kill(self) -> Log:
        """Kill -9 and start again."""
        return self.reopen(is_clean=False, log_start_offset=self.log.log_start_offset)

    def cut_power(self, seed: int) -> Log:
        """Cut the power and start again."""
        start = self.log.log_start_offset
        self.disk.crash(Random(seed))
        return self.reopen(is_clean=False, log_start_offset=start)

    def names(self, ending: str) -> list[str]:
        """Return the names in the partition's directory with this ending."""
        return sorted(e.name for e in self.disk.list_dir(DIRECTORY) if e.name.endswith(ending))

    def contents(self, name: str) -> bytearray:
        """Return a file's contents, to look at or to damage."""
        return self.disk.contents(f"{DIRECTORY}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file behind the log's back."""
        self.disk.remove(f"{DIRECTORY}/{name}")


def filled_bench() -> LogBench:
    """Return a bench whose log has 40 batches of two records each."""
    bench = LogBench()
    bench.fill(40, per_batch=2)
    return bench


def indexes_of(bench: LogBench) -> dict[str, bytes]:
    """Return the contents of all index files."""
    return {name: bytes(bench.contents(name)) for name in bench.names("index")}


def batch_positions(bench: LogBench, log: Log, segment: int) -> list[tuple[int, int]]:
    """Return (position, size) of every batch of one segment."""
    found = log.segments[segment]
    return [(position, header.size_bytes) for position, header in found.headers(0)]
