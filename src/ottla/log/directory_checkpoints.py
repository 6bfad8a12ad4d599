"""The checkpoints of a log directory: an offset for each partition, by name.

    recovery-point-offset-checkpoint, log-start-offset-checkpoint      of the logs, as they are
    replication-offset-checkpoint                                      high watermarks, as they were last told
    cleaner-offset-checkpoint                                          how far the cleaner came

A truncated log goes on with other records: what a file says of offsets above its new end would count for
those. So the files are lowered first (`lower`).

Names are given again: what a file says of a deleted log would cut off records of the next one of that
name, or keep the cleaner from it. So a deleted partition is forgotten in all of them, and until the files
are written again `still_name` says so. What they say of a log that could not be opened is carried over.
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
    read_or_set_aside,
)
from ottla.log.compaction.policy import CLEANER_CHECKPOINT
from ottla.log.disk import Disk
from ottla.log.log import Log

Offsets = dict[TopicPartition, int]
Write = Callable[[], None]


class DirectoryCheckpoints:
    """What is in the files, and what will be.

    `capture...` is called on the loop; what it returns may run in any thread, and passes OSErrors on.
    """

    def __init__(self, disk: Disk, path: str, logs: Mapping[TopicPartition, Log]) -> None:
        self.recovery_points: Offsets = {}
        self.log_starts: Offsets = {}
        """Both as they were read."""
        self.high_watermarks: Offsets = {}
        self.cleaned_to: Offsets = {}
        """Kept by the compactor."""
        self._disk = disk
        self._path = path
        self._logs = logs
        self._unopened: Collection[TopicPartition] = ()
        self._files = {
            name: CheckpointFile(disk, f"{path}/{name}")
            for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_CHECKPOINT)
        }
        self._forgotten: dict[TopicPartition, int] = {}
        self._forgettings = 0
        self._written_forgettings = 0

    # Reading and forgetting
    def read(self) -> None:
        """Read all files; one that does not parse counts as missing."""
        self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to = (
            read_or_set_aside(self._disk, f"{self._path}/{name}", decode_offsets) or {}
            for name in self._files
        )

    def opened(self, failed: Collection[TopicPartition]) -> None:
        """Say which logs could not be opened; what was read of those that are not there is forgotten."""
        self._unopened = failed
        found = (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to)
        for partition in {key for offsets in found for key in offsets}:
            if not self._is_here(partition):
                self.forget(partition)

    def forget(self, partition: TopicPartition) -> None:
        """The partition's log is gone."""
        for offsets in (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to):
            offsets.pop(partition, None)
        self._forgettings += 1
        self._forgotten[partition] = self._forgettings

    def still_name(self, partition: TopicPartition) -> bool:
        """Return whether a file may still have an entry of a log of this name that is gone."""
        return self._forgotten.get(partition, 0) > self._written_forgettings

    # Writing
    def capture(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> Write:
        """Return what writes how all logs are now."""
        done, forgettings = self._written_forgettings, self._forgettings
        self._forgotten = {key: number for key, number in self._forgotten.items() if number > done}
        if high_watermarks is not None:
            self.high_watermarks = self._carried(self.high_watermarks) | dict(high_watermarks)
        writes = [self.capture_recovery_points(), self._capture_log_starts({})]
        if high_watermarks is not None or self._forgotten:
            writes.append(self._capture_high_watermarks())
        if self._forgotten:
            writes.append(self.capture_cleaned_to())

        def write() -> None:
            for each in writes:
                each()
            self._written_forgettings = max(self._written_forgettings, forgettings)

        return write

    def capture_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Write:
        """Return what writes these high watermarks alone."""
        self.high_watermarks = self._carried(self.high_watermarks) | dict(high_watermarks)
        return self._capture_high_watermarks()

    def capture_recovery_points(self) -> Write:
        """Return what writes the recovery points alone."""
        points = {key: log.recovery_point for key, log in self._logs.items()}
        return self._files[RECOVERY_POINTS].capture(self._carried(self.recovery_points) | points)

    def capture_cleaned_to(self) -> Write:
        """Return what writes how far the cleaner came."""
        return self._files[CLEANER_CHECKPOINT].capture(self._present(self.cleaned_to))

    def lower(self, log: Log, end_offset: int) -> list[Write]:
        """Lower to `end_offset` what is said of a log that ends there, or soon will; return what writes that.

        Recovery points are not touched: the log knows its own.
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

    def _capture_high_watermarks(self) -> Write:
        return self._files[HIGH_WATERMARKS].capture(self._present(self.high_watermarks))

    def _capture_log_starts(self, coming: Offsets) -> Write:
        starts = {key: log.log_start_offset for key, log in self._logs.items() if log.log_start_offset > 0}
        return self._files[LOG_STARTS].capture(self._carried(self.log_starts) | starts | coming)

    def _carried(self, read: Offsets) -> Offsets:
        return {key: read[key] for key in self._unopened if key in read}

    def _present(self, offsets: Offsets) -> Offsets:
        return {key: offset for key, offset in offsets.items() if self._is_here(key)}

    def _is_here(self, partition: TopicPartition) -> bool:
        return partition in self._logs or partition in self._unopened
