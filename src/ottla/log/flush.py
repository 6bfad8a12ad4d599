"""Making a log durable without holding up the loop.

`FlushState.begin` captures, on the loop, which files to fsync and how far they will then reach;
`FlushJob.run` does it in a thread; back on the loop `FlushState.finish` says how far the log is
durable now. The recovery point promises that everything below it survives a power cut:

- the batches, and the index files of sealed segments;
- the names of their files (directories are fsynced once after a segment is created);
- the producer snapshots that recovery starts from, the leader epochs, and the topic's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import dirname

from ottla.log.checkpoints import write_atomically
from ottla.log.disk import Disk, OpenFile
from ottla.log.epoch_cache import EpochCache
from ottla.log.file_names import EPOCH_CHECKPOINT, PARTITION_METADATA
from ottla.log.producer_state import snapshot_path
from ottla.log.segment import Segment
from ottla.log.storage import Storage


@dataclass(slots=True)
class FlushJob:
    """What one flush will do; `run` may be called in any thread."""

    disk: Disk
    end_offset: int
    """How far the log is durable once it is done."""
    started_ms: int
    generation: int
    """Of the log's truncations: a job that was overtaken by one proves nothing."""
    files: list[OpenFile] = field(default_factory=list)
    sealed_below: int = 0
    small_files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    names_known: int = 0
    epochs: tuple[str, bytes] | None = None
    epochs_version: int = 0
    is_synced: bool = False
    """Whether every fsync succeeded: what failed after that can be tried again."""

    def run(self) -> None:
        """Fsync everything; OSErrors pass through."""
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
    """What of one log is durable besides its batches, and whether a flush is under way."""

    __slots__ = (
        "_generation",
        "_names_created",
        "_names_durable",
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
        self._names_created = 1
        self._names_durable = 0

    def segment_created(self) -> None:
        """A file has a new name: the directory has to be fsynced once."""
        self._names_created += 1

    def truncated(self, end_offset: int) -> None:
        """A flush that is under way says nothing about what comes after."""
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
        if self._names_created != self._names_durable:
            job.directories.append(directory)
            job.names_known = self._names_created
        if self._names_durable == 0:
            job.directories.append(dirname(directory))
            job.small_files.append(f"{directory}/{PARTITION_METADATA}")
        if epochs.version != self.epochs_written:
            job.epochs = (f"{directory}/{EPOCH_CHECKPOINT}", epochs.encode())
        job.epochs_version = epochs.version
        self.is_running = True
        return job

    def finish(self, job: FlushJob) -> bool:
        """Note that `job` succeeded; return whether its end offset is durable."""
        self.last_ms = job.started_ms
        self._names_durable = max(self._names_durable, job.names_known)
        self.epochs_written = job.epochs_version
        if job.generation != self._generation:
            return False
        self._sealed_below = job.sealed_below
        return True
