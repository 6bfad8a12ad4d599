"""The checkpoint files of a log directory: one offset per partition, by partition name.

    recovery-point-offset-checkpoint, log-start-offset-checkpoint      from the logs
    replication-offset-checkpoint                                      high watermarks, as last reported
    cleaner-offset-checkpoint                                          where the last compaction ended

A truncated log continues with other records, for which an entry above its new end would be wrong. So entries
are lowered durably before a log is truncated (`lower`).

Partition names are reused: the entry of a deleted log would truncate, or exclude from compaction, records of
the next log with that name. So a deleted partition is removed from all files, and `has_stale_entry` returns
True until they have been written. Entries of a log that could not be opened are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ottla.common.ids import TopicPartition
from ottla.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointFile,
    decode_offsets,
    read_or_rename_corrupt,
)
from ottla.log.compaction.policy import CLEANER_CHECKPOINT
from ottla.log.disk import Disk
from ottla.log.log import Log

Offsets = dict[TopicPartition, int]
Write = Callable[[], None]


class DirectoryCheckpoints:
    """What the checkpoint files contain, and what will be written next.

    `capture...` methods are called on the loop; the function that they return may run in any thread, and
    raises OSError.
    """

    def __init__(self, disk: Disk, path: str, logs: Mapping[TopicPartition, Log]) -> None:
        self.recovery_points: Offsets = {}
        self.log_starts: Offsets = {}
        """Both as they were read at the start."""
        self.high_watermarks: Offsets = {}
        self.cleaned_to: Offsets = {}
        """Updated by the cleaner."""
        self._disk = disk
        self._path = path
        self._logs = logs
        self._unopened: Collection[TopicPartition] = ()
        self._files = {
            name: CheckpointFile(disk, f"{path}/{name}")
            for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_CHECKPOINT)
        }
        self._forgotten: dict[TopicPartition, int] = {}
        self._forget_count = 0
        self._written_forget_count = 0

    # Reading and forgetting
    def read(self) -> None:
        """Read all files; one that does not parse is treated as missing."""
        self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to = (
            read_or_rename_corrupt(self._disk, f"{self._path}/{name}", decode_offsets) or {}
            for name in self._files
        )

    def set_unopened(self, failed: Collection[TopicPartition]) -> None:
        """Set which logs could not be opened; entries of logs that do not exist are removed."""
        self._unopened = failed
        found = (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to)
        for partition in {key for offsets in found for key in offsets}:
            if not self._exists(partition):
                self.forget(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Remove a partition whose log is gone."""
        for offsets in (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to):
            offsets.pop(partition, None)
        self._forget_count += 1
        self._forgotten[partition] = self._forget_count

    def has_stale_entry(self, partition: TopicPartition) -> bool:
        """Return whether a file may still contain an entry of a deleted log with this name."""
        return self._forgotten.get(partition, 0) > self._written_forget_count

    # Writing
    def capture(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> Write:
        """Return a function that writes the current state of all logs."""
        done, forget_count = self._written_forget_count, self._forget_count
        self._forgotten = {key: number for key, number in self._forgotten.items() if number > done}
        if high_watermarks is not None:
            self.high_watermarks = self._unopened_entries(self.high_watermarks) | dict(high_watermarks)
        writes = [self.capture_recovery_points(), self._capture_log_starts({})]
        if high_watermarks is not None or self._forgotten:
            writes.append(self._capture_high_watermarks())
        if self._forgotten:
            writes.append(self.capture_cleaned_to())

        def write() -> None:
            for each in writes:
                each()
            self._written_forget_count = max(self._written_forget_count, forget_count)

        return write

    def capture_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Write:
        """Return a function that writes only these high watermarks."""
        self.high_watermarks = self._unopened_entries(self.high_watermarks) | dict(high_watermarks)
        return self._capture_high_watermarks()

    def capture_recovery_points(self) -> Write:
        """Return a function that writes only the recovery points."""
        points = {key: log.recovery_point for key, log in self._logs.items()}
        return self._files[RECOVERY_POINTS].capture(self._unopened_entries(self.recovery_points) | points)

    def capture_cleaned_to(self) -> Write:
        """Return a function that writes where compaction ended."""
        return self._files[CLEANER_CHECKPOINT].capture(self._existing_entries(self.cleaned_to))

    def lower(self, log: Log, end_offset: int) -> list[Write]:
        """Lower the entries of a log that ends, or will end, at `end_offset`; return the functions that write
        them.

        Recovery points are not changed: the log owns its own.
        """
        partition = log.topic_partition
        writes: list[Write] = []
        if self.cleaned_to.get(partition, 0) > end_offset:
            self.cleaned_to[partition] = end_offset
            writes.append(self.capture_cleaned_to())
        if self.high_watermarks.get(partition, 0) > end_offset:
            self.high_watermarks[partition] = end_offset
            writes.append(self._capture_high_watermarks())
        if log.log_start_offset > end_offset:
            writes.append(self._capture_log_starts({partition: end_offset}))
        return writes

    def capture_log_start(self, partition: TopicPartition, log_start_offset: int) -> Write:
        """Return a function that writes the log starts, with that of a log that is about to arrive."""
        return self._capture_log_starts({partition: log_start_offset} if log_start_offset > 0 else {})

    def _capture_high_watermarks(self) -> Write:
        return self._files[HIGH_WATERMARKS].capture(self._existing_entries(self.high_watermarks))

    def _capture_log_starts(self, overrides: Offsets) -> Write:
        starts = {key: log.log_start_offset for key, log in self._logs.items() if log.log_start_offset > 0}
        return self._files[LOG_STARTS].capture(self._unopened_entries(self.log_starts) | starts | overrides)

    def _unopened_entries(self, read: Offsets) -> Offsets:
        return {key: read[key] for key in self._unopened if key in read}

    def _existing_entries(self, offsets: Offsets) -> Offsets:
        return {key: offset for key, offset in offsets.items() if self._exists(key)}

    def _exists(self, partition: TopicPartition) -> bool:
        return partition in self._logs or partition in self._unopened
