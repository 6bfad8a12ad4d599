"""Copy a log to another log directory of the same broker while it is written, then replace it.

    <topic>-<partition>.<id>-future      in the new directory: the copy, incomplete
    <topic>-<partition>.<id>-moved       the copy, complete and durable: from here on it is the log

Files are copied as they are. Sealed segments do not change; of the active one what was appended since is
copied in the next round. A segment that compaction replaced is copied again, and after a truncation
everything is. When little is missing, `finish` does the rest at once, on the loop, so that nothing is
appended meanwhile:

    1. the rest is copied and fsynced, and the log start is in the checkpoint of the new directory
    2. -future is renamed to -moved, durably: the copy replaces the log, whatever happens next
    3. the log in the old directory is renamed to -delete, durably
    4. -moved is renamed to <topic>-<partition>, durably

After a crash, `complete_moves` does steps 3 and 4, or starts the copy again if step 2 was not done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.disk import Disk, OpenFile
from ottla.log.file_names import (
    EPOCH_CHECKPOINT,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    deleted_dir_name,
    file_name,
    future_dir_name,
    moved_dir_name,
    offset_of,
    parse_future_dir,
    parse_moved_dir,
)
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.log.storage import is_transient
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

SMALL_BYTES = 1 << 20
"""What is copied on the loop at most."""
SMALL_SEGMENTS = 4
"""The files of how many segments are copied on the loop at most: each is fsynced."""
CHUNK_BYTES = 1 << 20
ROUND_BYTES = 64 << 20
"""What one round copies at most."""
MAX_PIECES = 50
"""How many segments one round opens at most: each takes a descriptor."""
_INDEXES = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


class SegmentPart(NamedTuple):
    """A part of a segment that is not copied yet; its file stays readable if it is removed meanwhile."""

    base_offset: int
    file: OpenFile
    start: int
    end: int
    index_paths: tuple[str, ...]


class LogCopy:
    """The copy of one log in the directory `target`; `source` is where the log is."""

    def __init__(self, log: Log, source: LogDirectory, target: LogDirectory) -> None:
        self.log = log
        self.source = source
        self.target = target
        self._disk: Disk = target.storage.disk
        self._name = future_dir_name(log.topic_partition)
        self._path = f"{target.path}/{self._name}"
        self._done: dict[Segment, int] = {}
        self._indexed: set[Segment] = set()
        self._pending_bytes = 0
        self._truncations = log.truncation_count

    @property
    def copied_bytes(self) -> int:
        """Return how many bytes of the log are copied."""
        if self.log.truncation_count != self._truncations:
            return 0
        done = sum(self._done.get(segment, 0) for segment in self.log.segments)
        return max(0, done - self._pending_bytes)

    @property
    def lag_bytes(self) -> int:
        """Return how many bytes of the log are not copied yet."""
        return max(0, self.log.size_bytes - self.copied_bytes)

    @property
    def is_nearly_complete(self) -> bool:
        """Return whether so little is missing that `finish` may copy it on the loop."""
        if self.lag_bytes > SMALL_BYTES:
            return False
        return sum(not self._is_copied(each) for each in self.log.segments) <= SMALL_SEGMENTS

    def _is_copied(self, segment: Segment) -> bool:
        is_indexed = segment is self.log.active or segment in self._indexed
        return is_indexed and self._done.get(segment) == segment.size_bytes

    @property
    def copied_offset(self) -> int:
        """Return up to which offset the log is copied, by whole segments."""
        for segment in self.log.segments:
            if self._done.get(segment, 0) < segment.size_bytes:
                return segment.base_offset
        return self.log.log_end_offset

    def start(self) -> None:
        """Make the directory; may raise OSError. Call it in a thread."""
        self._disk.make_dir(self._path)

    def missing(self, max_bytes: int = ROUND_BYTES) -> list[SegmentPart]:
        """Return what is to be copied next. Call it on the loop; KafkaStorageError if it cannot be opened."""
        if self.log.truncation_count != self._truncations:
            self._truncations = self.log.truncation_count
            self._done.clear()
            self._indexed.clear()
        self._done = {segment: self._done[segment] for segment in self.log.segments if segment in self._done}
        self._indexed.intersection_update(self._done)
        active, pieces = self.log.active, list[SegmentPart]()
        for segment in self.log.segments:
            if self._is_copied(segment):
                continue
            start, size_bytes = self._done.get(segment, 0), segment.size_bytes
            if max_bytes <= 0 or len(pieces) == MAX_PIECES:
                break
            end = min(size_bytes, start + max_bytes)
            max_bytes -= end - start
            paths: tuple[str, ...] = ()
            if end == size_bytes and segment is not active:
                paths = tuple(segment.files.path(kind) for kind in _INDEXES)
                self._indexed.add(segment)
            try:
                pieces.append(SegmentPart(segment.base_offset, segment.open_file(), start, end, paths))
            except OSError as error:
                raise KafkaStorageError(f"reading {self.log.path}: {error}") from error
            self._done[segment] = end
        self._pending_bytes = sum(each.end - each.start for each in pieces)
        return pieces

    def copy(self, pieces: Iterable[SegmentPart]) -> None:
        """Copy these pieces durably. May run in a thread; raises OSError, or KafkaStorageError if the log
        cannot be read.
        """
        for piece in pieces:
            target = self._disk.open(f"{self._path}/{file_name(piece.base_offset, LOG)}", create=True)
            target.truncate(piece.start)
            for position in range(piece.start, piece.end, CHUNK_BYTES):
                size = min(CHUNK_BYTES, piece.end - position)
                try:
                    data = piece.file.read_at(position, size)
                except OSError as error:
                    raise KafkaStorageError(f"reading {self.log.path}: {error}") from error
                target.write_at(position, data)
                self._pending_bytes -= size
            target.fsync()
            for path in piece.index_paths:
                self._copy_file(path)

    def _copy_file(self, path: str) -> None:
        """Copy a small file; one that does not exist is removed from the copy, too."""
        target = f"{self._path}/{path.rpartition('/')[2]}"
        try:
            data = self._disk.read_file(path)
        except FileNotFoundError:
            self._disk.remove(target)
            return
        except OSError as error:
            raise KafkaStorageError(f"reading {path}: {error}") from error
        self._disk.write_file(target, data, sync=True)

    def finish(self) -> Log:
        """Replace the log by its copy, at once; return it. If that fails (OSError: in the new directory;
        KafkaStorageError), the log stays in place, unless it is closed: then the copy is the log.
        """
        log, disk, target = self.log, self._disk, self.target
        unwritten: dict[str, bytes] = {}
        try:
            log.write_clean_shutdown_files()
        except OSError as error:
            if not is_transient(error):
                raise log.storage.write_failed(f"copying {log.path}", error) from error
            unwritten = log.unwritten_files()  # the disk is full, which may be why the log is moved
        while pieces := self.missing():
            self.copy(pieces)
        self._copy_small_files(unwritten)
        cleaned_to = self.source.checkpoints.cleaned_to.get(log.topic_partition)
        if target.checkpoints.has_stale_entry(log.topic_partition):  # it was here before
            target.capture_checkpoints()()
        target.checkpoints.capture_log_start(log.topic_partition, log.log_start_offset)()
        moved = f"{target.path}/{moved_dir_name(self._name)}"
        disk.rename(self._path, moved)
        try:
            disk.fsync_dir(target.path)
        except OSError:
            disk.rename(moved, self._path)
            raise
        try:
            self.source.delete(log.topic_partition)
            disk.fsync_dir(self.source.path)
        except (KafkaStorageError, OSError) as error:  # the copy is the log all the same
            logger.error("cannot remove the former log of %s: %s", log.topic_partition, error)
        try:
            disk.rename(moved, f"{target.path}/{log.topic_partition}")
            disk.fsync_dir(target.path)
            copy = target.open_moved(log.topic_partition, log.config, log.log_start_offset)
        except OSError as error:
            target.keep_unnamed(log.topic_partition, log.log_start_offset, error)
            raise target.storage.write_failed(f"renaming {moved}", error) from error
        copy.take_over(log)
        if cleaned_to is not None:
            target.checkpoints.cleaned_to[log.topic_partition] = cleaned_to
        return copy

    def _copy_small_files(self, unwritten: Mapping[str, bytes]) -> None:
        """Copy what is not copied by rounds, and remove what the log no longer has. `unwritten` are files
        that are newer in memory.
        """
        log, disk = self.log, self._disk
        bases = {segment.base_offset for segment in log.segments}
        for kind in _INDEXES:
            self._copy_file(log.active.files.path(kind))
        for name in (EPOCH_CHECKPOINT, PARTITION_METADATA):
            self._copy_file(f"{log.path}/{name}")
        for entry in log.storage.disk.list_dir(log.path):
            if offset_of(entry.name, SNAPSHOT) is not None:
                self._copy_file(f"{log.path}/{entry.name}")
        for name, contents in unwritten.items():
            disk.write_file(f"{self._path}/{name}", contents, sync=True)
        for entry in disk.list_dir(self._path):
            for kind in (LOG, *_INDEXES):
                base = offset_of(entry.name, kind)
                if base is not None and base not in bases:
                    disk.remove(f"{self._path}/{entry.name}")
        disk.fsync_dir(self._path)

    def discard(self) -> None:
        """Let the copy be removed with the next deleted logs. May run in a thread."""
        try:
            if self._disk.exists(self._path):
                self._disk.rename(
                    self._path, f"{self.target.path}/{deleted_dir_name(self.log.topic_partition)}"
                )
        except OSError as error:
            logger.warning("cannot remove %s, will retry at the next start: %s", self._path, error)


class InterruptedMoves(NamedTuple):
    """What a start found of moves that a crash interrupted."""

    unfinished: dict[TopicPartition, str]
    """Incomplete copies, which were removed, with the directories that they were to be in."""
    failed: dict[TopicPartition, tuple[str, OSError]]
    """Complete copies that could not get their name now: the directories that they are in, and why."""


def complete_moves(disk: Disk, paths: Iterable[str]) -> InterruptedMoves:
    """Complete or undo what a crash left of moves, before the logs are opened."""
    result = InterruptedMoves({}, {})
    names: dict[str, list[str]] = {}
    for path in paths:
        try:
            names[path] = [each.name for each in disk.list_dir(path) if each.is_dir]
        except OSError as error:  # opening the directory reports it
            logger.error("cannot look for interrupted moves in %s: %s", path, error)
    for path, found in names.items():
        for name in found:
            future, moved = parse_future_dir(name), parse_moved_dir(name)
            partition = future or moved
            if partition is None:
                continue
            try:
                if moved is not None:
                    _complete(disk, names, path, name, moved)
                else:
                    result.unfinished[partition] = path
                    disk.rename(f"{path}/{name}", f"{path}/{deleted_dir_name(partition)}")
            except OSError as error:
                logger.error("cannot complete the move of %s to %s: %s", partition, path, error)
                if moved is not None:
                    result.failed[moved] = path, error
    return result


def _complete(
    disk: Disk, names: dict[str, list[str]], path: str, name: str, partition: TopicPartition
) -> None:
    holders = [each for each, found in names.items() if str(partition) in found]
    if any(_end(disk, f"{each}/{partition}") > _end(disk, f"{path}/{name}") for each in holders):
        # The rename to -moved had failed and was undone, but not durably: the log was written since.
        disk.rename(f"{path}/{name}", f"{path}/{deleted_dir_name(partition)}")
        return
    logger.info("completing the move of %s to %s", partition, path)
    for other in holders:
        disk.rename(f"{other}/{partition}", f"{other}/{deleted_dir_name(partition)}")
        disk.fsync_dir(other)
    disk.rename(f"{path}/{name}", f"{path}/{partition}")
    disk.fsync_dir(path)


def _end(disk: Disk, directory: str) -> tuple[int, int]:
    """Return the base offset of the last segment in a directory, and its size."""
    sizes = ((offset_of(each.name, LOG), each.size_bytes) for each in disk.list_dir(directory))
    return max(((base, size) for base, size in sizes if base is not None), default=(-1, 0))
