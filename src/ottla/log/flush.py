"""Make one log durable without blocking the event loop.

`FlushState.begin` captures, on the loop, which files to fsync and the offset that will then be durable;
`FlushJob.run` fsyncs them in a thread; `FlushState.finish` returns, on the loop, whether that offset is
durable. The recovery point guarantees that everything below it survives a power failure:

- the batches, and the index files of sealed segments;
- the directory entries of their files (a directory is fsynced once after a segment is created);
- the producer snapshots that recovery starts from, the leader epochs, and the topic id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import dirname

from ottla.log.checkpoints import write_atomically
from ottla.log.disk import Disk, OpenFile
from ottla.log.epoch_cache import EpochCache
from ottla.log.file_names import EPOCH_CHECKPOINT, PARTITION_METADATA
from ottla.log.producers.producer_state import snapshot_path
from ottla.log.segment import Segment
from ottla.log.storage import Storage


@dataclass(slots=True)
class FlushJob:
    """What one flush does; `run` may be called in any thread."""

    disk: Disk
    end_offset: int
    """The log is durable up to here when the job is done."""
    started_ms: int
    generation: int
    """The number of truncations when the job was captured: after another one its result is void."""
    files: list[OpenFile] = field(default_factory=list)
    sealed_below: int = 0
    small_files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    directory_version: int = 0
    epochs: tuple[str, bytes] | None = None
    epochs_version: int = 0
    is_synced: bool = False
    """Whether every fsync succeeded: what failed after that can be retried."""

    def run(self) -> None:
        """Fsync everything; raises OSError."""
        for file in self.files:
            file.fsync()
        for path in self.small_files:
            try:
                self.disk.open(path).fsync()
            except FileNotFoundError:
                pass  # a snapshot that could not be written, or is gone with its segment
        for directory in self.directories:
            self.disk.fsync_dir(directory)
        self.is_synced = True
        if self.epochs is not None:
            write_atomically(self.disk, *self.epochs)


class FlushState:
    """What of one log is durable besides its batches, and whether a flush is running."""

    __slots__ = (
        "_directory_version",
        "_durable_directory_version",
        "_generation",
        "_sealed_below",
        "epochs_written",
        "is_running",
        "last_ms",
    )

    def __init__(self, now_ms: int, recovery_point: int) -> None:
        self.last_ms = now_ms
        self.is_running = False
        self.epochs_written = 0
        """The version of the leader epochs that is in their file; 0 is what was read from it."""
        self._sealed_below = recovery_point - 1
        """Segments that end at or below it were fsynced after they were sealed."""
        self._generation = 0
        self._directory_version = 1
        self._durable_directory_version = 0

    def segment_created(self) -> None:
        """Note that the directory has a new entry and must be fsynced once."""
        self._directory_version += 1

    def on_truncate(self, end_offset: int) -> None:
        """Invalidate a running flush: its result no longer holds."""
        self._generation += 1
        self._sealed_below = min(self._sealed_below, end_offset - 1)

    def begin(
        self,
        storage: Storage,
        segments: Sequence[Segment],
        epochs: EpochCache,
        *,
        end_offset: int,
        now_ms: int,
    ) -> FlushJob:
        """Capture what to fsync to make everything below `end_offset` durable."""
        directory = segments[-1].files.directory
        job = FlushJob(storage.disk, end_offset, now_ms, self._generation)
        for number, segment in enumerate(segments[:-1], start=1):
            if segments[number].base_offset > self._sealed_below:
                segment.write_indexes()
                job.files += segment.open_files()
                job.small_files.append(snapshot_path(directory, segments[number].base_offset))
        job.files.append(segments[-1].open_file())
        job.sealed_below = segments[-1].base_offset
        if self._directory_version != self._durable_directory_version:
            job.directories.append(directory)
            job.directory_version = self._directory_version
        if self._durable_directory_version == 0:
            job.directories.append(dirname(directory))
            job.small_files.append(f"{directory}/{PARTITION_METADATA}")
        if epochs.version != self.epochs_written:
            job.epochs = (f"{directory}/{EPOCH_CHECKPOINT}", epochs.encode())
        job.epochs_version = epochs.version
        self.is_running = True
        return job

    def finish(self, job: FlushJob) -> bool:
        """Record that `job` succeeded; return whether its end offset is durable."""
        self.last_ms = job.started_ms
        self._durable_directory_version = max(self._durable_directory_version, job.directory_version)
        self.epochs_written = job.epochs_version
        if job.generation != self._generation:
            return False
        self._sealed_below = job.sealed_below
        return True
